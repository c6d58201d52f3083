package agent

import (
	"fmt"
	"os"
	"time"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// wideBracket is the distance between an edge and the end of its reading above
// which the step is flagged, and also how long schedstat may take unflagged.
const wideBracket = 20 * time.Millisecond

// drain empties the kernel side of a closed window and makes its record.
func (a *Agent) drain(w *window, end bpf.MonoNs, first, last edge, parked *parking) (_ *rungv1.StepRecord, pprof []byte) {
	r := &rungv1.StepRecord{
		Run: w.step.run, Step: w.step.step, Target: w.message, Host: a.host,
		Window: a.recordWindow(w, first, end), Config: a.recordConfig(),
	}
	r.VoidReason = a.voidReason(w, first, last)
	r.Counters = a.counters(w, r, first, last)
	r.Cost = a.cost(first, last)

	threads, err := a.kernel.Threads(w.slot, w.spec.ID)
	if err != nil && r.VoidReason == "" {
		r.VoidReason = fmt.Sprintf("the account could not be read: %v", err)
	}
	a.recordThreads(r, threads, w.spec.Start, first.schedstat, last.schedstat)
	if warning := parked.wait(end); warning != "" {
		warn(r, "%s", warning)
	}
	r.Cost.ParkNs = uint64(parked.took)
	pprof, lost := a.sample(w, r, end, threads)
	if err := a.kernel.Release(w.slot, w.spec.ID); err != nil {
		warn(r, "the window could not be released in the kernel: %v", err)
	}
	r.Losses = append(losses(first.losses, last.losses), lost...)
	a.weigh(w, r, first, last)
	return r, pprof
}

func (a *Agent) recordWindow(w *window, first edge, end bpf.MonoNs) *rungv1.Window {
	a.mu.Lock() // endLate and ended are set by EndStep
	defer a.mu.Unlock()
	return &rungv1.Window{
		BootId: a.bootID, StartMonoNs: uint64(w.spec.Start), EndMonoNs: uint64(end),
		StartLateNs: w.startLate, EndLateNs: w.endLate,
		StartWallUnixNs: int64(w.spec.Start) + first.wallAheadNs, BlockNs: w.spec.BlockNs, Expired: !w.step.ended,
	}
}

// voidReason says why no figure of the window may be used, if so.
func (a *Agent) voidReason(w *window, first, last edge) string {
	if moved := last.suspendedNs - first.suspendedNs; moved > suspendDoubt || moved < -suspendDoubt {
		return fmt.Sprintf("the host was suspended for %v within the window (CLOCK_BOOTTIME against CLOCK_MONOTONIC)", time.Duration(moved))
	}
	for edge, late := range map[string]uint64{"opening": w.startLate, "closing": w.endLate} {
		if late := time.Duration(late); late > wideBracket {
			return fmt.Sprintf("the %s edge was armed %v late: the account missed it", edge, late.Round(100*time.Microsecond))
		}
	}
	identity, err := a.identify(w.target.Target)
	switch {
	case err != nil:
		return fmt.Sprintf("target %s vanished within the window: %v", w.target.Name, err)
	case identity != w.identity || last.counters.Gone:
		return fmt.Sprintf("target %s was replaced within the window by another of the same name", w.target.Name)
	}
	return ""
}

func (a *Agent) counters(w *window, r *rungv1.StepRecord, first, last edge) *rungv1.Counters {
	before, after := first.counters.CPU, last.counters.CPU
	c := &rungv1.Counters{
		UsageUsec:        after.UsageUsec.Since(before.UsageUsec).Ptr(),
		UserUsec:         after.UserUsec.Since(before.UserUsec).Ptr(),
		SystemUsec:       after.SystemUsec.Since(before.SystemUsec).Ptr(),
		NrPeriods:        after.NrPeriods.Since(before.NrPeriods).Ptr(),
		NrThrottled:      after.NrThrottled.Since(before.NrThrottled).Ptr(),
		ThrottledUsec:    after.ThrottledUsec.Since(before.ThrottledUsec).Ptr(),
		PressureSomeUsec: last.pressureUsec.Since(first.pressureUsec).Ptr(),
		StartBracketNs:   first.bracketNs, EndBracketNs: last.bracketNs,
		StartReadMonoNs: first.counters.EndNs, EndReadMonoNs: last.counters.EndNs,
	}
	if rss, ok := a.rss(w.target.Target); ok {
		c.RssBytes = &rss
		c.Sources = append(c.Sources, "proc stat rss")
	} else {
		warn(r, "no resident set: the target has no process left")
	}
	if w.reader == nil {
		warn(r, "no cgroup figures: a process tree has no cgroup counters of its own; name its cgroup as the target to have them")
		return c
	}
	c.MemoryCurrentBytes = w.reader.MemoryBytes().Ptr()
	if quota, ok := w.reader.Quota(); ok {
		cpus, period := quota.CPUs(), quota.PeriodUsec
		c.QuotaCpus, c.QuotaPeriodUsec = &cpus, &period
	}
	c.Sources = append(w.reader.Sources(), c.Sources...)
	r.Warnings = append(r.Warnings, w.reader.Warnings()...)
	return c
}

func (a *Agent) cost(first, last edge) *rungv1.Cost {
	c := &rungv1.Cost{AgentCpuNs: last.agentCPUNs - min(first.agentCPUNs, last.agentCPUNs), MapBytes: a.kernel.MapBytes()}
	if stat, err := a.stat(os.Getpid()); err == nil {
		c.AgentRssBytes = uint64(stat.RSS) * uint64(os.Getpagesize())
	}
	for _, err := range []error{first.costsErr, last.costsErr} {
		if err != nil {
			c.BpfUnavailable = err.Error()
			return c
		}
	}
	before := map[string]bpf.ProgramCost{}
	for _, program := range first.costs {
		before[program.Name] = program
	}
	for _, program := range last.costs {
		c.Programs = append(c.Programs, &rungv1.ProgramCost{
			Name:      program.Name,
			Runs:      program.Runs - min(program.Runs, before[program.Name].Runs),
			RunTimeNs: program.RunTimeNs - min(program.RunTimeNs, before[program.Name].RunTimeNs),
		})
	}
	return c
}

func recordThread(t bpf.Thread, start bpf.MonoNs, first, last map[int]Schedstat) *rungv1.Thread {
	throttledHi := t.ThrottledNs + t.ThrottledSlackNs
	m := &rungv1.Thread{
		Tid: t.Tid, Tgid: t.Tgid, Comm: symbol.Printable(t.Comm), StartNs: t.StartNs,
		LifetimeNs: t.LifetimeNs, OnCpuWallNs: t.OnCPUWallNs, OnCpuChargedNs: t.OnCPUChargedNs,
		RunQueueNs: t.RunQueueNs, ThrottledLoNs: &t.ThrottledNs, ThrottledHiNs: &throttledHi, StoppedNs: t.StoppedNs,
		OnCpuSkewNs: t.OnCPUSkewNs, RunQueueSkewNs: t.RunQueueSkewNs,
		Switches: t.Switches, Wakeups: t.Wakeups, Exited: t.Exited, NoEvent: t.NoEvent,
	}
	for _, b := range t.Blocked {
		reason := profile.NameReason(b.Reason)
		m.Blocked = append(m.Blocked, &rungv1.Blocked{
			Reason: reason.Name, Object: reason.Object, Limited: reason.Limited, Ns: b.Ns, Intervals: b.Intervals})
	}
	born := t.StartNs >= uint64(start)
	if oracle, ok := between(int(t.Tid), born, first, last); ok && !t.Exited {
		m.SchedstatRunNs = &oracle.RunNs
		if !oracle.Waiting {
			m.SchedstatWaitNs = &oracle.WaitNs
		}
	}
	return m
}

// weigh adds the warnings that follow from the window itself.
func (a *Agent) weigh(w *window, r *rungv1.StepRecord, first, last edge) {
	r.Warnings = append(r.Warnings, first.warnings...)
	for _, text := range last.warnings {
		warn(r, "%s", text)
	}
	for _, edge := range []struct {
		name            string
		late, bracketNs uint64
		schedstat       time.Duration
	}{
		{"opening", r.Window.StartLateNs, first.bracketNs, time.Duration(first.schedstatEnd - min(first.at, first.schedstatEnd))},
		{"closing", r.Window.EndLateNs, last.bracketNs, time.Duration(last.schedstatEnd - min(last.at, last.schedstatEnd))},
	} {
		if edge.late > 0 {
			warn(r, "the %s edge was armed %v late: events of that time are on its wrong side", edge.name, time.Duration(edge.late))
		}
		if d := time.Duration(edge.bracketNs); d > wideBracket {
			warn(r, "the counters were read up to %v after the %s edge: usage_usec is uncertain by up to %d times that", d, edge.name, a.host.Cpus)
		}
		if edge.schedstat > wideBracket {
			warn(r, "schedstat was read up to %v after the %s edge, and differs from the account by that", edge.schedstat, edge.name)
		}
	}
	waiting := 0
	for _, thread := range r.Threads {
		if thread.SchedstatRunNs != nil && thread.SchedstatWaitNs == nil {
			waiting++
		}
	}
	if waiting > 0 {
		warn(r, "schedstat gives no exact wait of %d threads: they were runnable at an edge, and the kernel adds a wait only when it ends", waiting)
	}
	if moved := last.wallAheadNs - first.wallAheadNs; moved > wallStep || moved < -wallStep {
		warn(r, "the wall clock was set by %+.3f s within the window: times of the day before and after do not compare; nothing measured depends on it", float64(moved)/1e9)
	}
	if r.Window.Expired {
		warn(r, "the window closed by itself: its driver did not end it")
	}
	if len(r.Threads) == 0 && r.VoidReason == "" {
		warn(r, "no thread of the target existed within the window")
	}
}

// warn adds a warning once.
func warn(r *rungv1.StepRecord, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	for _, known := range r.Warnings {
		if known == text {
			return
		}
	}
	r.Warnings = append(r.Warnings, text)
}
