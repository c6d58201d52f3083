package loadgen

import (
	"fmt"
	"math"
)

// StepResult is what one step offered, sent and got. Counts are of requests;
// instants are CLOCK_MONOTONIC nanoseconds of this host, whose boot id is BootID.
// The two identities that [StepResult.Check] asserts hold for every step that is
// not void.
type StepResult struct {
	Index     int     `json:"index"`
	Name      string  `json:"name"`
	Warmup    bool    `json:"warmup"`
	OfferedHz float64 `json:"offeredHz"`

	Scheduled uint64 `json:"scheduled"`
	Sent      uint64 `json:"sent"`
	// Completed had an answer, of whatever kind.
	Completed uint64 `json:"completed"`
	// Delivered are this step's own requests that succeeded until its drain ended.
	Delivered uint64 `json:"delivered"`
	// DeliveredInWindow are the successes received inside the window, whichever
	// step sent them: the only divisor of CPU.
	DeliveredInWindow uint64            `json:"deliveredInWindow"`
	Errors            map[string]uint64 `json:"errors,omitempty"`
	// Unanswered when the drain ended; a later answer counts in the window it
	// falls into, and nowhere else.
	Unanswered uint64 `json:"unanswered"`
	// Overflow was never sent: the in-flight cap was reached.
	Overflow uint64 `json:"overflow"`
	// Deferred was never sent: a slot was free, but the protocol refused.
	Deferred     map[string]uint64 `json:"deferred,omitempty"`
	LateDropped  uint64            `json:"lateDropped"`
	NotConnected uint64            `json:"notConnected"`

	ConnectionsWanted int `json:"connectionsWanted"`
	// ConnectionsOpen is the lowest number open at any moment of the step.
	ConnectionsOpen int `json:"connectionsOpen"`
	// PerConnection is left out above maxPerConnection connections.
	PerConnection []ConnectionCounts `json:"perConnection,omitempty"`
	// Messages came back on calls that answer with a stream.
	Messages uint64 `json:"messages,omitempty"`
	// StreamsEnded counts the bidi streams that ended during the step, by how:
	// grpc_OK, another status, …. None should.
	StreamsEnded map[string]uint64 `json:"streamsEnded,omitempty"`
	// StreamEnds is how they ended when the driver closed them, after the last step.
	StreamEnds *StreamEnds `json:"streamEnds,omitempty"`
	// HTTP2 is what the frames told; HTTP2Absent says why where that is nothing.
	HTTP2       *HTTP2Figures `json:"http2,omitempty"`
	HTTP2Absent string        `json:"http2Absent,omitempty"`

	WindowStartMonoNs uint64 `json:"windowStartMonoNs"`
	WindowEndMonoNs   uint64 `json:"windowEndMonoNs"`
	BootID            string `json:"bootId"`
	// FirstSend and LastSend are planned instants; LatenessMs says how far
	// behind them sends were.
	FirstSendMonoNs uint64 `json:"firstSendMonoNs"`
	LastSendMonoNs  uint64 `json:"lastSendMonoNs"`
	DrainEndMonoNs  uint64 `json:"drainEndMonoNs"`

	InFlightAtStart uint64 `json:"inFlightAtStart"`
	InFlightAtEnd   uint64 `json:"inFlightAtEnd"`

	// ResponseMs runs from the intended instant. A request that timed out is in
	// it with the time it waited; other errors and unanswered requests are not.
	ResponseMs *LatencyMs `json:"responseMs,omitempty"`
	// ServiceMs runs from started, successes only.
	ServiceMs *LatencyMs `json:"serviceMs,omitempty"`
	// LatenessMs is how far behind schedule requests were handed to the client.
	LatenessMs *LatenessMs `json:"latenessMs,omitempty"`

	// ClientCPUNs is this process's CPU time from the first send to the end of
	// the drain, user and system.
	ClientCPUNs uint64 `json:"clientCpuNs"`
	// Driver is what the driver and its host used meanwhile.
	Driver DriverUse `json:"driver"`
	// ClientLimited says why the step measured the driver and not the service;
	// empty where the driver had headroom.
	ClientLimited []ClientLimit `json:"clientLimited,omitempty"`
	// CapLimited: overflow exceeds 1 % of scheduled, so the quantiles are those
	// of what the cap let through.
	CapLimited bool `json:"capLimited"`
	// Void is the reason why no figure of this step may be used, else empty.
	Void string `json:"void,omitempty"`
	// Warnings is what weakens the figures. One that begins with "missing:" names
	// a part of the step that could not be had.
	Warnings []string `json:"warnings,omitempty"`
}

// ConnectionCounts is what became of one connection's requests. Those that were
// deferred or dropped before a connection was chosen are in none.
type ConnectionCounts struct {
	Connection   int    `json:"connection"` // from 0 up
	Delivered    uint64 `json:"delivered"`
	Errors       uint64 `json:"errors"`
	Deferred     uint64 `json:"deferred"`
	NotConnected uint64 `json:"notConnected"`
}

const maxPerConnection = 256

// Check asserts the identities of a step.
func (r *StepResult) Check() error {
	if sum := r.Sent + r.Overflow + total(r.Deferred) + r.LateDropped + r.NotConnected; r.Scheduled != sum {
		return fmt.Errorf("identity broken: scheduled %d is not sent %d + overflow %d + deferred %d + late dropped %d + not connected %d = %d",
			r.Scheduled, r.Sent, r.Overflow, total(r.Deferred), r.LateDropped, r.NotConnected, sum)
	}
	if sum := r.Delivered + total(r.Errors) + r.Unanswered; r.Sent != sum {
		return fmt.Errorf("identity broken: sent %d is not delivered %d + errors %d + unanswered %d = %d",
			r.Sent, r.Delivered, total(r.Errors), r.Unanswered, sum)
	}
	return nil
}

func total(m map[string]uint64) uint64 {
	var sum uint64
	for _, n := range m {
		sum += n
	}
	return sum
}

func (r *StepResult) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// take fills in the counts.
func (r *StepResult) take(c counts) {
	r.Scheduled, r.Sent, r.Completed, r.Delivered = c.scheduled, c.sent, c.completed, c.delivered
	r.Errors, r.Deferred, r.Unanswered = c.errors, c.deferred, c.unanswered
	r.Overflow, r.LateDropped, r.NotConnected = c.overflow, c.lateDropped, c.notConnected
	r.ResponseMs, r.ServiceMs, r.LatenessMs = latency(c.response), latency(c.service), lateness(c.lateness)
	r.CapLimited = exceeds(r.Overflow, r.Scheduled, 0.01)
	r.Messages = c.messages
	r.PerConnection = perConnection(c.conns)
}

// perConnection is nil where there are too many connections to list.
func perConnection(conns []connCount) []ConnectionCounts {
	var all []ConnectionCounts
	if len(conns)-1 > maxPerConnection {
		return nil
	}
	for i, of := range conns[1:] {
		all = append(all, ConnectionCounts{i, of.delivered, of.failed, of.deferred, of.notConnected})
	}
	return all
}

func exceeds(part, whole uint64, share float64) bool {
	return float64(part) > share*float64(whole)
}

// judge adds the warnings that follow from the figures: what the service did
// and how far the client itself was the limit.
func (r *StepResult) judge() {
	if n := total(r.Errors); exceeds(n, r.Sent, 0.01) {
		r.warn("errors: %d of %d sent requests failed (%.1f %%)", n, r.Sent, 100*float64(n)/float64(r.Sent))
	}
	if r.Unanswered > 0 {
		r.warn("unanswered: %d requests when the drain ended; their response time is not in the quantiles", r.Unanswered)
	}
	change := math.Abs(float64(r.InFlightAtEnd) - float64(r.InFlightAtStart))
	if change > 1 && change > 0.01*float64(r.DeliveredInWindow) {
		r.warn("in flight: %d at the window's start, %d at its end, a change above 1 %% of what was delivered", r.InFlightAtStart, r.InFlightAtEnd)
	}
	if r.CapLimited {
		r.warn("cap-limited: %d of %d requests overflowed the in-flight cap; p50 and p99 are those of what it let through", r.Overflow, r.Scheduled)
	}
	if n := total(r.StreamsEnded); n > 0 {
		r.warn("streams: %d ended during the step: %v", n, r.StreamsEnded)
	}
	if n := total(r.Deferred) + r.LateDropped; exceeds(n, r.Scheduled, 0.005) {
		r.warn("sent below offered: %d of %d requests were deferred or dropped late", n, r.Scheduled)
	}
	r.ClientLimited = r.clientLimits()
	for _, l := range r.ClientLimited {
		r.warn("client-limited: %s", l.Why)
	}
}
