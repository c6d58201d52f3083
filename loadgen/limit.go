package loadgen

import (
	"fmt"
	"math"
)

// LimitKind says by which evidence the driver was the limit of a step.
type LimitKind string

// The kinds of evidence. A cap that was hit while sends were on time is none of
// them: then the service was the limit, and the step is a valid measurement.
const (
	LimitSchedule LimitKind = "schedule"     // sends or goroutines were late
	LimitOwnCPU   LimitKind = "own-cpu"      // own CPU against what the process may use
	LimitThrottle LimitKind = "throttled"    // the quota of the driver's own cgroup
	LimitPressure LimitKind = "cpu-pressure" // of the driver's own cgroup, never the host's
	LimitGC       LimitKind = "gc"           // Go's garbage collector
	LimitUnsent   LimitKind = "unsent-bytes" // held in this host's sockets, not by the peer's window
)

// ClientLimit is one reason why a step measured the driver and not the service.
type ClientLimit struct {
	Kind LimitKind `json:"kind"`
	// Why is for people: the figure and the bound it passed.
	Why string `json:"why"`
}

// Bounds of the verdict. A lateness is judged by what it adds to the response
// time of half of the requests, but below a millisecond never.
const (
	limitLateMs       = 1.0   // ms
	limitLateShare    = 0.2   // of the median response time
	limitStallMs      = 100.0 // one send so late spoils the tail
	limitDropped      = 0.005 // of scheduled
	limitCPUShare     = 0.8   // of the allowance
	limitThrottled    = 0.01  // of the quota's periods
	limitPressure     = 0.2   // of the time
	limitGCShare      = 0.15  // of the allowance: a collector always at work takes 0.25
	limitUnsentShare  = 0.2   // of the samples
	limitUnsentBytes  = 64 << 10
	limitUnsentSample = 4 // fewer samples say nothing
)

// lateBound is how late in milliseconds the driver may be.
func (r *StepResult) lateBound() float64 {
	if r.ResponseMs == nil {
		return limitLateMs
	}
	return math.Max(limitLateMs, limitLateShare*r.ResponseMs.P50)
}

// clientLimits is the verdict on a step whose figures are complete. None says
// that the driver had headroom.
func (r *StepResult) clientLimits() []ClientLimit {
	var all []ClientLimit
	add := func(kind LimitKind, format string, args ...any) {
		all = append(all, ClientLimit{Kind: kind, Why: fmt.Sprintf(format, args...)})
	}
	bound, u := r.lateBound(), r.Driver
	switch l := r.LatenessMs; {
	case l == nil:
	case l.P99 > bound:
		add(LimitSchedule, "sends were late by %.2f ms at p99, bound %.2f ms; give the driver more CPU", l.P99, bound)
	case l.Max > limitStallMs:
		add(LimitSchedule, "sends were late by %.0f ms at most, bound %.0f ms: the driver stood still", l.Max, limitStallMs)
	}
	if exceeds(r.LateDropped, r.Scheduled, limitDropped) {
		add(LimitSchedule, "%d of %d requests were dropped as too late", r.LateDropped, r.Scheduled)
	}
	if w := u.RunnableMsP99; w != nil && *w > bound {
		add(LimitSchedule, "goroutines that were ready waited %.2f ms at p99, bound %.2f ms", *w, bound)
	}
	if u.AllowanceCPUs > 0 && u.Cores > limitCPUShare*u.AllowanceCPUs {
		add(LimitOwnCPU, "the driver used %.2f of its %.4g CPUs", u.Cores, u.AllowanceCPUs)
	}
	if u.ThrottledPeriods != nil && exceeds(*u.ThrottledPeriods, max(u.Periods, 1), limitThrottled) {
		add(LimitThrottle, "the quota of the driver's cgroup was spent in %d of %d periods", *u.ThrottledPeriods, u.Periods)
	}
	if p := u.CPUPressure; p != nil && *p > limitPressure {
		add(LimitPressure, "tasks of the driver's cgroup waited for a CPU %.0f %% of the time", 100**p)
	}
	switch {
	case u.GCPauseMsMax > bound:
		add(LimitGC, "a garbage collection stopped the driver for %.2f ms, bound %.2f ms", u.GCPauseMsMax, bound)
	case u.GCShare > limitGCShare:
		add(LimitGC, "the garbage collector used %.0f %% of the CPU that the driver may use", 100*u.GCShare)
	}
	if n := u.UnsentSamples; n >= limitUnsentSample && exceeds(uint64(u.UnsentAbove), uint64(n), limitUnsentShare) {
		add(LimitUnsent, "more than %d KiB lay unsent in this host's sockets in %d of %d samples, not held by the service's window",
			limitUnsentBytes>>10, u.UnsentAbove, n)
	}
	return all
}
