//go:build linux

package suite

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// cases lists all, in the order in which they run.
func cases() []testCase {
	all := waitCases()
	all = append(all,
		testCase{"convoy-sleep", false, func(a *attempt) error { return convoy(a, "sleep") }},
		testCase{"convoy-burn", false, func(a *attempt) error { return convoy(a, "burn") }},
		testCase{"spinners-2", false, func(a *attempt) error { return spinners(a, 2) }},
		testCase{"spinners-3", false, func(a *attempt) error { return spinners(a, 3) }},
		testCase{"quota-10", false, func(a *attempt) error { return underQuota(a, 10) }},
		testCase{"quota-50", false, func(a *attempt) error { return underQuota(a, 50) }},
		testCase{"quota-herd", false, herdUnderQuota},
		testCase{"threads-1", false, func(a *attempt) error { return crowd(a, 1) }},
		testCase{"threads-10", false, func(a *attempt) error { return crowd(a, 10) }},
		testCase{"threads-1000", false, func(a *attempt) error { return crowd(a, 1000) }},
		testCase{"threads-10000", true, func(a *attempt) error { return crowd(a, 10000) }},
	)
	for _, rate := range []int{100, 1000, 10000, 50000} {
		all = append(all, testCase{fmt.Sprintf("switches-%d", rate), false, func(a *attempt) error { return rounds(a, rate) }})
	}
	return append(all,
		testCase{"born-and-dying", false, nursery},
		testCase{"parked", false, parked},
		testCase{"edges-in-a-sleep", false, edgesInASleep},
		testCase{"edges-while-running", false, edgesWhileRunning},
		testCase{"migration", false, migration},
		testCase{"fork-exec", false, forkExec},
		testCase{"sigstop", false, func(a *attempt) error { return stops(a, "signal", false) }},
		testCase{"sigstop-at-edge", false, func(a *attempt) error { return stops(a, "signal", true) }},
		testCase{"freezer", false, func(a *attempt) error { return stops(a, "freezer", false) }},
		testCase{"freezer-at-edge", false, func(a *attempt) error { return stops(a, "freezer", true) }},
	)
}

// waitCases are the waits for one reason each.
func waitCases() (all []testCase) {
	futex := func(limited bool) bpf.Reason { return bpf.SyscallReason(unix.SYS_FUTEX, bpf.ObjectNone, limited) }
	epoll := func(limited bool) bpf.Reason {
		return bpf.SyscallReason(unix.SYS_EPOLL_PWAIT, bpf.ObjectNone, limited)
	}
	on := func(nr int32, object bpf.Object) func(*host) []bpf.Reason {
		return func(h *host) []bpf.Reason {
			if !h.objects {
				object = bpf.ObjectNone // before v6.2 the kind of a file cannot be read
			}
			return []bpf.Reason{bpf.SyscallReason(nr, object, false)}
		}
	}
	just := func(r ...bpf.Reason) func(*host) []bpf.Reason { return func(*host) []bpf.Reason { return r } }
	fault := just(bpf.ReasonFault, bpf.ReasonDisk)
	for _, w := range []struct {
		kind    string
		reasons func(*host) []bpf.Reason
	}{
		{"futex-timeout", just(futex(true))},
		{"futex-woken", just(futex(false))},
		{"epoll-timeout", just(epoll(true))},
		{"epoll-woken", just(epoll(false))},
		{"pipe", on(unix.SYS_READ, bpf.ObjectPipe)},
		{"unix", on(unix.SYS_READ, bpf.ObjectSocket)},
		{"tcp", on(unix.SYS_READ, bpf.ObjectSocket)},
		{"nanosleep", just(bpf.SyscallReason(unix.SYS_CLOCK_NANOSLEEP, bpf.ObjectNone, true))},
		{"fsync", on(unix.SYS_FSYNC, bpf.ObjectFile)},
		{"fault-file", fault},
		{"fault-user", fault},
	} {
		all = append(all, testCase{w.kind, false, func(a *attempt) error { return waits(a, w.kind, w.reasons(a.host)...) }})
	}
	return all
}

// waits holds one worker's waits against its own clock.
func waits(a *attempt, kind string, reasons ...bpf.Reason) error {
	const length = 2 * time.Millisecond
	n := pick(a, 200, 1000)
	o, err := a.observe(plan{
		task:    task{Name: "wait", Kind: kind, N: n, Length: length, Dir: a.dir},
		longest: length * 14 / 10,
	})
	if err != nil {
		return err
	}
	o.everyCase()
	o.add(o.offClock("waiter"))
	switch kind {
	case "fsync", "fault-file":
		o.add(o.blockedOnDisk(reasons)...)
	default:
		o.add(o.blocked("waiter", reasons...)...)
	}
	return nil
}

// blockedOnDisk: how often and how long a disk blocks is not known ahead. The
// time around the calls, less the CPU time in them, is known, and what of it is
// blocked is so for one reason.
func (o *observed) blockedOnDisk(reasons []bpf.Reason) []Figure {
	w := o.worked("waiter")[0]
	th := o.threads[w.Tid]
	ns, intervals := blockedIn(th, reasons...)
	truth := float64(w.InWallNs) - float64(w.InCPUNs)
	s := slack(clockPart, truth, w.Waits+intervals) + o.pardonNs
	detail := fmt.Sprintf("%d calls blocked %d times, %.0f µs around a call, %d major faults", w.Waits, intervals,
		float64(w.InWallNs)/1e3/float64(w.Waits), w.MajorFlts)
	if ns < truth/100 {
		detail = "it does not block here; " + detail
	}
	figures := []Figure{worst("blocked in its reason", "call",
		[]gap{{who(w), truth, ns, s + float64(th.RunQueueNs+th.ThrottledNs), s + float64(w.InCPUNs), w.Waits}}, detail)}
	if w.MajorFlts > 0 {
		figures = append(figures, newFigure("faults that block", "faults", float64(w.MajorFlts), float64(intervals),
			-float64(w.MajorFlts)/2, float64(w.MajorFlts), "a fault that finds its page on the way does not"))
	}
	return figures
}
