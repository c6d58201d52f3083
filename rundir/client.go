package rundir

import (
	"fmt"
	"sort"
)

// ClientStep is what the load generator planned, sent and got in one step.
// Counts are of requests. Stamps are CLOCK_MONOTONIC of the driver's host,
// whose boot id is BootID.
//
// Identities that hold for a sound step:
//
//	scheduled = sent + overflow + Σ deferred + lateDropped + notConnected
//	sent      = delivered + Σ errors + unanswered
type ClientStep struct {
	Index     int     `json:"index"`
	Name      string  `json:"name"`
	Warmup    bool    `json:"warmup"`
	OfferedHz float64 `json:"offeredHz"`

	Scheduled uint64 `json:"scheduled"`
	Sent      uint64 `json:"sent"`
	// Completed had an answer, of whatever kind.
	Completed uint64 `json:"completed"`
	// Delivered are this step's own requests that succeeded, until drain ends.
	Delivered uint64 `json:"delivered"`
	// DeliveredInWindow are the successes received inside the window, whichever
	// step sent them: the only divisor of CPU.
	DeliveredInWindow uint64            `json:"deliveredInWindow"`
	Errors            map[string]uint64 `json:"errors,omitempty"`
	// Unanswered at the end of the drain.
	Unanswered uint64 `json:"unanswered"`
	// Overflow were never sent: the cap of requests in flight.
	Overflow     uint64            `json:"overflow"`
	Deferred     map[string]uint64 `json:"deferred,omitempty"`
	LateDropped  uint64            `json:"lateDropped"`
	NotConnected uint64            `json:"notConnected"`

	ConnectionsWanted int `json:"connectionsWanted"`
	// ConnectionsOpen is the least number seen open during the step.
	ConnectionsOpen int `json:"connectionsOpen"`
	ClientFrames

	// The window: first send + settle to last send.
	WindowStartMonoNs uint64 `json:"windowStartMonoNs"`
	WindowEndMonoNs   uint64 `json:"windowEndMonoNs"`
	BootID            string `json:"bootId"`
	FirstSendMonoNs   uint64 `json:"firstSendMonoNs"`
	LastSendMonoNs    uint64 `json:"lastSendMonoNs"`
	DrainEndMonoNs    uint64 `json:"drainEndMonoNs"`

	InFlightAtStart uint64 `json:"inFlightAtStart"`
	InFlightAtEnd   uint64 `json:"inFlightAtEnd"`

	// ResponseMs is from the intended instant, ServiceMs from started (handed to
	// a client that holds a free slot). Absent where nothing was delivered.
	ResponseMs *LatencyMs `json:"responseMs,omitempty"`
	ServiceMs  *LatencyMs `json:"serviceMs,omitempty"`
	// LatenessMs is how far behind schedule requests were sent.
	LatenessMs *LatenessMs `json:"latenessMs,omitempty"`

	// ClientCPUNs is the CPU time of the load generator over the step.
	ClientCPUNs uint64 `json:"clientCpuNs"`
	ClientMore
	// CapLimited: overflow exceeds 1 % of scheduled, so p50 and p99 are bounded
	// by the client's cap.
	CapLimited bool `json:"capLimited"`
	// Void is the reason why no figure of this step may be used, else empty.
	Void string `json:"void,omitempty"`
	// Warnings is what weakens the figures, for people. It names the reason
	// where the agent's record or profile is missing.
	Warnings []string `json:"warnings,omitempty"`
	// Unknown names what the source of an imported step does not say: the fields
	// are 0 and mean nothing.
	Unknown []string `json:"unknown,omitempty"`
}

// What can be unknown of an imported step.
const (
	UnknownOverflow = "overflow"
	UnknownInFlight = "inFlight"
)

// LatencyMs holds quantiles in milliseconds.
type LatencyMs struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// LatenessMs holds quantiles in milliseconds.
type LatenessMs struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// WindowSeconds is the length of the window, 0 when there was none.
func (c *ClientStep) WindowSeconds() float64 {
	if c.WindowEndMonoNs <= c.WindowStartMonoNs {
		return 0
	}
	return float64(c.WindowEndMonoNs-c.WindowStartMonoNs) / 1e9
}

// SendSeconds is the time from the first to the last send, 0 when nothing was sent.
func (c *ClientStep) SendSeconds() float64 {
	if c.LastSendMonoNs <= c.FirstSendMonoNs {
		return 0
	}
	return float64(c.LastSendMonoNs-c.FirstSendMonoNs) / 1e9
}

// ErrorsTotal is the sum over all kinds of error.
func (c *ClientStep) ErrorsTotal() uint64 { return sum(c.Errors) }

// DeferredTotal is the sum over all reasons of deferral.
func (c *ClientStep) DeferredTotal() uint64 { return sum(c.Deferred) }

// Unbalanced gives by how much each identity fails: 0, 0 for a sound step.
func (c *ClientStep) Unbalanced() (scheduled, sent int64) {
	scheduled = int64(c.Scheduled - (c.Sent + c.Overflow + c.DeferredTotal() + c.LateDropped + c.NotConnected))
	sent = int64(c.Sent - (c.Delivered + c.ErrorsTotal() + c.Unanswered))
	return scheduled, sent
}

// Validate says what in a step cannot be. A broken identity or a void step can
// be, and is for the reader to show.
func (c *ClientStep) Validate() error {
	if c.Index < 0 || c.Index > MaxSteps {
		return fmt.Errorf("index is %d; want 0 to %d", c.Index, MaxSteps)
	}
	if err := checkOffered(c.OfferedHz); err != nil {
		return err
	}
	if c.WindowEndMonoNs < c.WindowStartMonoNs {
		return fmt.Errorf("windowEndMonoNs %d lies before windowStartMonoNs %d", c.WindowEndMonoNs, c.WindowStartMonoNs)
	}
	if c.LastSendMonoNs < c.FirstSendMonoNs {
		return fmt.Errorf("lastSendMonoNs %d lies before firstSendMonoNs %d", c.LastSendMonoNs, c.FirstSendMonoNs)
	}
	for name, l := range map[string]*LatencyMs{"responseMs": c.ResponseMs, "serviceMs": c.ServiceMs} {
		if l == nil {
			continue
		}
		q := []float64{l.P50, l.P90, l.P99, l.P999, l.Max}
		if !finite(l.Max) || q[0] < 0 || !sort.Float64sAreSorted(q) {
			return fmt.Errorf("%s %v: quantiles must rise from 0 up", name, q)
		}
	}
	return nil
}

func sum(m map[string]uint64) uint64 {
	var total uint64
	for _, n := range m {
		total += n
	}
	return total
}
