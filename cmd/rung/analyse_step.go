//go:build linux

package main

import (
	"cmp"
	"math"
	"slices"
	"strings"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// analyseStep puts together what client and agent saw of one step.
func analyseStep(d *rundir.Dir, s rundir.Step, opts analyseOptions) (report.Step, error) {
	state, err := stepState(d, s.Name)
	if err != nil {
		return report.Step{}, err
	}
	out := report.Step{
		Step:            ladder.New(observeDriven(s, state)),
		Absent:          map[string]string{},
		InFlightAtStart: s.Client.InFlightAtStart, InFlightAtEnd: s.Client.InFlightAtEnd,
		Checks:   loadChecks(s.Client),
		Warnings: slices.Clone(s.Client.Warnings),
	}
	if len(s.ProfileGz) > 0 {
		out.Profile = d.StepPath(s.Name) + "/" + rundir.ProfileFile
	}
	if s.Record != nil {
		out.Warnings = append(out.Warnings, s.Record.GetWarnings()...)
		if err := analyseRecord(&out, d, s, opts); err != nil {
			return report.Step{}, err
		}
	}
	if slices.Contains(s.Client.Unknown, rundir.UnknownOverflow) {
		out.Absent["overflowHz"] = "who drove the step did not say it"
	}
	if out.Others, err = analyseOthers(d, s, opts); err != nil {
		return report.Step{}, err
	}
	if state != nil && s.Record == nil && s.Client.Void == "" {
		explainCampaign(&out, state)
	}
	explainAbsent(&out, s)
	return out, nil
}

// observe takes from a step what package ladder reads.
func observe(s rundir.Step) ladder.Observed {
	c := s.Client
	o := ladder.Observed{
		Index: s.Index, Name: s.Name, Warmup: s.Warmup, OfferedHz: s.OfferedHz,
		WindowNs:  saturate(c.WindowEndMonoNs - c.WindowStartMonoNs),
		Scheduled: c.Scheduled, Sent: c.Sent, Completed: c.Completed, Delivered: c.Delivered, DeliveredInWindow: c.DeliveredInWindow,
		Errors: c.ErrorsTotal(), Unanswered: c.Unanswered, Overflow: c.Overflow, LateDropped: c.LateDropped,
		InFlightAtStart: c.InFlightAtStart, InFlightAtEnd: c.InFlightAtEnd,
		CapLimited: c.CapLimited, ClientVoid: c.Void,
	}
	// Without a delivery there is no latency, whatever the file says.
	if l := c.ResponseMs; l != nil && c.Delivered > 0 {
		o.P50Ms, o.P99Ms, o.P999Ms = &l.P50, &l.P99, &l.P999
	}
	if l := c.LatenessMs; l != nil {
		o.LatenessP99Ms = &l.P99
	}
	r := s.Record
	if r == nil {
		o.AgentMissing = noRecord(c)
		return o
	}
	o.Profiled, o.JITShare = true, jitShare(r)
	o.AgentVoid = r.GetVoidReason()
	w, n := r.GetWindow(), countersOf(r)
	o.UsageNs = usageNs(r)
	if v := n.ThrottledUsec; v != nil {
		o.ThrottledNs = ptrTo(saturate(microToNano(*v)))
	}
	o.Periods, o.PeriodsThrottled, o.RSSBytes = n.NrPeriods, n.NrThrottled, n.RssBytes
	o.StartBracketNs, o.EndBracketNs = saturate(n.GetStartBracketNs()), saturate(n.GetEndBracketNs())
	o.StartLateNs, o.EndLateNs = saturate(w.GetStartLateNs()), saturate(w.GetEndLateNs())
	o.Expired = w.GetExpired()
	if sampling := r.GetSampling(); sampling != nil {
		o.Samples = ptrTo(saturate(sampling.GetSamples()))
	}
	return o
}

// missingReason is why the driver has no part ("record", "profile") of a step:
// its warning that says so, "" when it gave none.
func missingReason(warnings []string, part string) string {
	for _, w := range warnings {
		if rest, ok := strings.CutPrefix(w, "missing: "+part+": "); ok {
			return "no " + part + ": " + rest
		}
	}
	return ""
}

func noRecord(c *rundir.ClientStep) string {
	return cmp.Or(missingReason(c.Warnings, "record"), c.Void, "no record, and the driver gave no reason")
}

// countersOf gives a record's counters, all of them absent where it has none.
func countersOf(r *rungv1.StepRecord) *rungv1.Counters {
	if c := r.GetCounters(); c != nil {
		return c
	}
	return &rungv1.Counters{}
}

// explainAbsent gives a reason for every figure that the step does not have.
func explainAbsent(out *report.Step, s rundir.Step) {
	absent := func(missing bool, reason string, figures ...string) {
		for _, f := range figures {
			if missing && out.Absent[f] == "" {
				out.Absent[f] = reason
			}
		}
	}
	if s.Client.WindowEndMonoNs == s.Client.WindowStartMonoNs {
		absent(true, "the window has no length", "deliveredHz", "cores", "cpuMsPerRequest")
	}
	latency := "no response time was recorded"
	if s.Client.Delivered == 0 {
		latency = "nothing was delivered"
	}
	absent(out.P50Ms == nil, latency, "p50Ms", "p99Ms", "p999Ms")
	if s.Record == nil {
		reason := noRecord(s.Client)
		absent(out.CPUMsPerRequest == nil, reason, "cpuMsPerRequest", "cores")
		absent(out.ThrottledCPUSeconds == nil, reason, "throttledCpuSeconds")
		absent(true, reason, "periodsThrottled", "rssBytes", "account", "layers")
		return
	}
	n, warnings := countersOf(s.Record), s.Record.GetWarnings()
	absent(n.UsageUsec == nil, agentReason(warnings, "usage_usec was not read", usageWords), "cores", "cpuMsPerRequest")
	absent(out.CPUMsPerRequest == nil, "nothing was delivered inside the window", "cpuMsPerRequest")
	throttling := agentReason(warnings, "throttling was not read", throttlingWords)
	absent(n.ThrottledUsec == nil, throttling, "throttledCpuSeconds")
	absent(n.NrPeriods == nil || n.NrThrottled == nil, throttling, "periodsThrottled")
	absent(out.PeriodsThrottled == nil, "no CFS period ended in the window", "periodsThrottled")
	absent(n.RssBytes == nil, agentReason(warnings, "resident memory was not read", []string{"no resident set"}), "rssBytes")
	absent(out.Account == nil, "the record holds no window", "account")
	absent(out.Layers == nil, cmp.Or(missingReason(s.Client.Warnings, "profile"),
		agentReason(warnings, "the step has no profile", []string{"no profile"})), "layers")
}

// What the agent's warnings on absent counters hold. They are for people, so a
// warning that is worded otherwise costs only the reason, not the note.
var (
	usageWords      = []string{"no cgroup figures", "no usage_usec", "read /"}
	throttlingWords = []string{"counts no periods", "no throttling", "no cgroup figures", "read /"}
)

// agentReason is the agent's own warning on a figure, where it gave one.
func agentReason(warnings []string, otherwise string, words []string) string {
	for _, word := range words {
		for _, w := range warnings {
			if strings.Contains(w, word) {
				return w
			}
		}
	}
	return otherwise
}

// usageNs is the cgroup's usage over the window, nil when it was not read.
func usageNs(r *rungv1.StepRecord) *int64 {
	if v := countersOf(r).UsageUsec; v != nil {
		return ptrTo(saturate(microToNano(*v)))
	}
	return nil
}

func microToNano(usec uint64) uint64 {
	if usec > math.MaxUint64/1000 {
		return math.MaxUint64
	}
	return usec * 1000
}

// saturate makes a signed figure of an unsigned one. A record with more than
// 2^63 ns is damaged; it must not turn negative.
func saturate(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

func ptrTo[T any](v T) *T { return &v }
