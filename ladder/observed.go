package ladder

import (
	"fmt"
	"math"
)

// Observed is what client and agent saw of one step. Pointers are nil where a
// figure was not measured.
type Observed struct {
	Index     int
	Name      string
	Warmup    bool
	OfferedHz float64
	// WindowNs is the length of the window.
	WindowNs int64

	// Of the client. Counts are of the whole step, except DeliveredInWindow.
	Scheduled, Sent, Completed, Delivered uint64
	DeliveredInWindow                     uint64
	Errors, Unanswered, Overflow          uint64
	LateDropped                           uint64
	InFlightAtStart, InFlightAtEnd        uint64
	P50Ms, P99Ms, P999Ms                  *float64 // response time
	LatenessP99Ms                         *float64
	CapLimited                            bool
	ClientVoid                            string // why no figure may be used; "" when sound

	// Of the agent.
	AgentMissing                 string // why there is no record; "" when there is one
	AgentVoid                    string // why no figure may be used; "" when sound
	UsageNs                      *int64
	ThrottledNs                  *int64 // Σ over CPUs
	Periods, PeriodsThrottled    *uint64
	RSSBytes                     *uint64
	StartBracketNs, EndBracketNs int64
	StartLateNs, EndLateNs       int64
	Expired                      bool
	Samples                      *int64
	JITShare                     *float64
	Profiled                     bool

	// Of a campaign. OwnUsageNs is the arm's CPU time over the window as the
	// campaign read it; Control that the step is a profiled one's twin without.
	OwnUsageNs *int64
	Control    bool
}

// Thresholds of the flags.
const (
	maxBracketNs = 20e6
	maxShare     = 0.01 // in-flight change, errors, overflow, late dropped
	// A client that sends late by more than this and more than a tenth of the
	// p99 it reports is part of what it measures.
	maxLatenessMs    = 1.0
	maxLatenessShare = 0.1
	// Fewer make every quotient of the step a guess.
	minDelivered = 100
	minSamples   = 100
)

// New derives a step's row from what was observed.
func New(o Observed) Step {
	s := Step{
		Index: o.Index, Name: o.Name, Warmup: o.Warmup, OfferedHz: o.OfferedHz,
		DeliveredInWindow: o.DeliveredInWindow,
		P50Ms:             o.P50Ms, P99Ms: o.P99Ms, P999Ms: o.P999Ms,
		OverflowHz: o.OfferedHz * share(o.Overflow, o.Scheduled),
		RSSBytes:   o.RSSBytes,
		CapLimited: o.CapLimited || share(o.Overflow, o.Scheduled) > maxShare,
		JITShare:   o.JITShare,
		Profiled:   o.Profiled,
		Flags:      flags(o),
	}
	seconds := float64(o.WindowNs) / 1e9
	if o.WindowNs > 0 {
		s.DeliveredHz = float64(o.DeliveredInWindow) / seconds
		s.Cores = quotient(o.UsageNs, float64(o.WindowNs))
	}
	if o.DeliveredInWindow > 0 {
		s.CPUMsPerRequest = quotient(o.UsageNs, 1e6*float64(o.DeliveredInWindow))
		s.OwnCPUMsPerRequest = quotient(o.OwnUsageNs, 1e6*float64(o.DeliveredInWindow))
		if o.Delivered > 0 && failedShare(o) > maxShare {
			// Attempts are counted per step, CPU per window: they are brought
			// to the window by its part of the step's deliveries.
			attempts := float64(o.DeliveredInWindow) * float64(o.Completed) / float64(o.Delivered)
			s.CPUMsPerAttempt = quotient(o.UsageNs, 1e6*attempts)
		}
	}
	s.ThrottledCPUSeconds = quotient(o.ThrottledNs, 1e9)
	if o.Periods != nil && o.PeriodsThrottled != nil && *o.Periods > 0 {
		v := share(*o.PeriodsThrottled, *o.Periods)
		s.PeriodsThrottled = &v
	}
	return s
}

func flags(o Observed) []Flag {
	var out []Flag
	add := func(kind FlagKind, format string, args ...any) {
		out = append(out, Flag{kind, fmt.Sprintf(format, args...)})
	}
	switch {
	case o.ClientVoid != "":
		add(FlagVoid, "client: %s", o.ClientVoid)
	case o.AgentVoid != "":
		add(FlagVoid, "agent: %s", o.AgentVoid)
	case o.WindowNs <= 0:
		add(FlagVoid, "the window has no length")
	}
	if o.Control {
		add(FlagControl, "driven without the profiler, as a control")
	}
	if o.AgentMissing != "" {
		add(FlagAgentMissing, "%s", o.AgentMissing)
	}
	if b := max(o.StartBracketNs, o.EndBracketNs); b > maxBracketNs {
		add(FlagBracket, "counters were read %.1f ms off the edge, want at most 20", float64(b)/1e6)
	}
	if late := max(o.StartLateNs, o.EndLateNs); late > 0 {
		add(FlagEdgeLate, "an edge was armed %.1f ms late", float64(late)/1e6)
	}
	if o.Expired {
		add(FlagExpired, "the window closed by itself: its driver never ended it")
	}
	change := math.Abs(float64(o.InFlightAtEnd) - float64(o.InFlightAtStart))
	if change > 1 && change > maxShare*float64(o.DeliveredInWindow) {
		add(FlagInFlight, "in flight %d at the start, %d at the end: more than 1 %% of %d completions",
			o.InFlightAtStart, o.InFlightAtEnd, o.DeliveredInWindow)
	}
	if f := failedShare(o); f > maxShare {
		add(FlagErrors, "%d errors and %d unanswered: %.1f %% of %d sent", o.Errors, o.Unanswered, 100*f, o.Sent)
	}
	if f := share(o.Overflow, o.Scheduled); f > maxShare || o.CapLimited {
		add(FlagCapLimited, "%d of %d (%.1f %%) never sent: latency is that of the cap", o.Overflow, o.Scheduled, 100*f)
	}
	if detail := lateness(o); detail != "" {
		add(FlagClientLate, "%s", detail)
	}
	switch {
	case o.DeliveredInWindow < minDelivered:
		add(FlagTooFew, "%d delivered in the window, want %d", o.DeliveredInWindow, minDelivered)
	case o.Samples != nil && *o.Samples < minSamples:
		add(FlagTooFew, "%d samples, want %d", *o.Samples, minSamples)
	}
	return out
}

func lateness(o Observed) string {
	if f := share(o.LateDropped, o.Scheduled); f > maxShare {
		return fmt.Sprintf("%d of %d (%.1f %%) dropped: the client was behind schedule", o.LateDropped, o.Scheduled, 100*f)
	}
	if o.LatenessP99Ms == nil || o.P99Ms == nil {
		return ""
	}
	if l := *o.LatenessP99Ms; l > maxLatenessMs && l > maxLatenessShare**o.P99Ms {
		return fmt.Sprintf("p99 of sending behind schedule is %.1f ms, of the response %.1f ms", l, *o.P99Ms)
	}
	return ""
}

func failedShare(o Observed) float64 { return share(o.Errors+o.Unanswered, o.Sent) }

func share(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

func quotient(v *int64, by float64) *float64 {
	if v == nil {
		return nil
	}
	f := float64(*v) / by
	return &f
}
