//go:build linux

package suite

import (
	"fmt"
	"math"

	"github.com/rungprof/rung/bpf"
)

// offNs is what a worker's account has off the CPU, but for the gate.
func offNs(th bpf.Thread) float64 {
	ns := th.RunQueueNs + th.ThrottledNs + th.StoppedNs
	for _, b := range th.Blocked {
		if b.Reason != gateReason {
			ns += b.Ns
		}
	}
	return float64(ns)
}

// blockedIn is the account's time and intervals in some reasons.
func blockedIn(th bpf.Thread, reasons ...bpf.Reason) (ns float64, intervals uint64) {
	for _, b := range th.Blocked {
		for _, r := range reasons {
			if b.Reason == r {
				ns += float64(b.Ns)
				intervals += b.Intervals
			}
		}
	}
	return ns, intervals
}

// everyCase holds the account against what is true of all: no thread is missing,
// states close, and the scheduler's own sums agree.
func (o *observed) everyCase() {
	o.add(o.closing(), o.present())
	o.add(o.schedstat()...)
	if len(o.worked("")) > 0 {
		o.add(o.onCPU(), o.switches())
	}
}

// closing: states sum to the lifetime. The account is made so; a broken sum tells
// that intervals overlap or are lost at an edge, a whole one proves little.
func (o *observed) closing() Figure {
	var gaps []gap
	for _, th := range o.list {
		sum := th.OnCPUWallNs + th.RunQueueNs + th.ThrottledNs + th.BlockedNs() + th.StoppedNs
		gaps = append(gaps, gap{name(th), float64(th.LifetimeNs), float64(sum), 2000, 2000, 0})
	}
	return worst("states = lifetime", "", gaps, "")
}

func name(th bpf.Thread) string { return fmt.Sprintf("%s %d", th.Comm, th.Tid) }

// present: threads that /proc shows at both edges are in the account, for all of the window.
func (o *observed) present() Figure {
	want, got := 0, 0
	for tid := range o.readings[0] {
		if _, still := o.readings[3][tid]; !still {
			continue
		}
		want++
		if th, ok := o.threads[tid]; ok && th.LifetimeNs == uint64(o.window.End-o.window.Start) {
			got++
		}
	}
	return exactly("threads there throughout", "threads", want, got, o.losses)
}

// schedstat: on-CPU and run-queue wait, on the run queue's clock, beside the
// kernel's sums. They are read outside and inside the edges: what lies between
// the two readings may be in the window.
func (o *observed) schedstat() []Figure {
	var run, charged, wait []gap
	waiting := 0
	for tid, last := range o.readings[2] {
		th, known := o.threads[tid]
		out, still := o.readings[3][tid]
		if !known || !still {
			continue
		}
		before, begun := o.readings[0][tid], o.readings[1][tid]
		if _, ok := o.readings[0][tid]; !ok && th.StartNs < uint64(o.window.Start) {
			continue // born between the first reading and the edge
		}
		compare := func(account, inner, outer uint64, skew int64, more, steal float64) gap {
			s := slack(oraclePart, float64(inner), th.Switches) + o.host.tickNs + more
			return gap{name(th), float64(inner), float64(int64(account) + skew), s, s + float64(outer-inner) + steal, th.Switches}
		}
		run = append(run, compare(th.OnCPUWallNs, last.runNs-begun.runNs, out.runNs-before.runNs, th.OnCPUSkewNs, 0, o.stolenNs))
		charged = append(charged, compare(th.OnCPUChargedNs, last.runNs-begun.runNs, out.runNs-before.runNs, 0, 0, 0))
		if last.waiting || out.waiting || before.waiting || begun.waiting {
			waiting++
			continue
		}
		wait = append(wait, compare(th.RunQueueNs+th.ThrottledNs, last.waitNs-begun.waitNs, out.waitNs-before.waitNs, th.RunQueueSkewNs, o.pardonNs, 0))
	}
	note := ""
	if waiting > 0 {
		note = fmt.Sprintf("%d threads left out: runnable at an edge", waiting)
	}
	stolen := ""
	if o.stolenNs > 0 {
		stolen = fmt.Sprintf("the hypervisor took %.0f ms", o.stolenNs/1e6)
	}
	return []Figure{
		worst("schedstat run", "switch", run, stolen),
		worst("schedstat run, charged", "switch", charged, ""),
		worst("schedstat wait", "switch", wait, note),
	}
}

// onCPU: on-CPU time on the run queue's clock is the thread's CPU clock. What a
// worker does to leave the gate and to enter it again is not on its own clock.
func (o *observed) onCPU() Figure {
	var gaps []gap
	for _, w := range o.worked("") {
		th := o.threads[w.Tid]
		account := float64(int64(th.OnCPUWallNs) + th.OnCPUSkewNs)
		s := slack(oraclePart, float64(w.CPUNs), th.Switches+2)
		outside := float64(gateCPUNs)
		if o.child.task.big() {
			// Each waits for the Go runtime, too, around its work: some for long, so
			// that only all of them together say something.
			outside = runtimeCPUNs
		}
		gaps = append(gaps, gap{who(w), float64(w.CPUNs), account, s, s + outside + o.stolenNs, th.Switches})
	}
	if o.child.task.big() {
		gaps = []gap{sum("all workers", gaps)}
	}
	return worst("on-CPU, own CPU clock", "switch", gaps, "")
}

// CPU time of leaving the gate and entering it, at most.
const (
	gateCPUNs    = 100e3
	runtimeCPUNs = 1e6 // the same with the Go runtime's help, on the mean
)

func who(w *worker) string { return fmt.Sprintf("%s %d", w.Role, w.Tid) }

// switches: as many as rusage counts, and those of the gate.
func (o *observed) switches() Figure {
	var want, got uint64
	n := 0
	for _, w := range o.worked("") {
		want += w.Switches
		got += o.threads[w.Tid].Switches
		n++
	}
	missed := float64(o.repairs)
	return newFigure("switches, rusage", "switches", float64(want), float64(got), -missed, float64(3*n)+missed,
		fmt.Sprintf("%d workers; %s", n, o.losses))
}

// offClock: all time off the CPU is the wall clock less the thread's CPU clock.
// The CPU clock charges a part of each switch, so the truth lies between that and
// that plus the CPU time in the calls that wait; the wait to begin is outside.
// Where a neighbour preempts it, the two clocks differ by the skew of its waits to run.
func (o *observed) offClock(role string) Figure {
	var gaps []gap
	for _, w := range o.worked(role) {
		th := o.threads[w.Tid]
		truth := float64(w.WallNs) - float64(w.CPUNs)
		n := max(w.Waits, th.Switches) // a worker that is preempted is off the CPU more often than it waits
		s := slack(clockPart, truth, n)
		skew := float64(th.RunQueueSkewNs)
		gaps = append(gaps, gap{who(w), truth, offNs(th), s + max(0, skew), s + max(0, -skew) + float64(w.InCPUNs) + float64(w.Began-w.Told), n})
	}
	return worst("blocked + run-queue wait", "interval", gaps, "wall - CPU clock")
}

// spunOff is the same for threads that never sleep: their switches are none of
// their own, and the run queue's clock is that of the CPU clock. outside gives
// what of the account lies before the work, nil for nothing.
func (o *observed) spunOff(role, what string, outside func(bpf.Thread) uint64) Figure {
	var gaps []gap
	for _, w := range o.worked(role) {
		th := o.threads[w.Tid]
		truth := float64(w.WallNs) - float64(w.CPUNs)
		account := offNs(th) + float64(th.RunQueueSkewNs)
		if outside != nil {
			account -= float64(outside(th))
		}
		s := slack(clockPart, truth, th.Switches)
		gaps = append(gaps, gap{who(w), truth, account, s + o.stolenNs, s + float64(w.Began-w.Told), th.Switches})
	}
	return worst(what, "switch", gaps, "wall - CPU clock")
}

// blocked: the time around a worker's calls is spent in their reason, but for
// the CPU time in them and the waits to run that are part of it.
func (o *observed) blocked(role string, reasons ...bpf.Reason) []Figure {
	var time, count []gap
	for _, w := range o.worked(role) {
		th := o.threads[w.Tid]
		ns, intervals := blockedIn(th, reasons...)
		inner := float64(w.InWallNs)
		s := slack(clockPart, inner, w.Waits) + o.pardonNs
		time = append(time, gap{who(w), inner, ns, s + float64(w.InCPUNs) + float64(th.RunQueueNs+th.ThrottledNs), s, w.Waits})
		n := float64(w.Waits)
		// A call that comes late, beside neighbours, finds what it waits for.
		count = append(count, gap{who(w), n * 1e6, float64(intervals) * 1e6, math.Ceil(n/10) * 1e6, math.Ceil(n/20) * 1e6, 0})
	}
	counted := worst("intervals in it", "", count, "")
	counted.Unit = "intervals"
	return []Figure{worst("blocked in its reason", "interval", time, "clock around the calls"), counted}
}
