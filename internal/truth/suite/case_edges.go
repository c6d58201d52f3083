//go:build linux

package suite

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// sleepReason is that of workers asleep for a time.
var sleepReason = bpf.SyscallReason(unix.SYS_CLOCK_NANOSLEEP, bpf.ObjectNone, true)

// parked: threads asleep from before the window until after it make no event,
// and have their stack.
func parked(a *attempt) error {
	o, err := a.observe(plan{task: task{Name: "crowd", N: 8, Length: 20 * time.Millisecond}, park: true, rows: true})
	if err != nil {
		return err
	}
	o.everyCase()
	n, whole := 0, 0
	for _, w := range o.report.Workers {
		if w.Began != 0 {
			continue
		}
		n++
		for _, r := range o.rows {
			if r.Tid == w.Tid && r.Reason == gateReason && r.WeightNs == uint64(o.window.End-o.window.Start) && o.child.holds(a.p, r.StackHash, "(*worker).gate") {
				whole++
			}
		}
	}
	o.add(o.offClock("sleeper"), o.asleepThroughout(),
		exactly("parked, with their stack", "threads", n, whole, "all of the window in the function that parks"))
	return nil
}

// holds says whether a stack goes through a function of the child.
func (c *child) holds(p *bpf.Profiler, hash uint64, function string) bool {
	stack, _ := p.Stack(hash)
	for _, f := range stack.Frames {
		if f.Kind == bpf.FrameNative && strings.HasSuffix(c.function(f.Value), function) {
			return true
		}
	}
	return false
}

// windows runs a child through windows edge to edge, its work beginning `lead`
// after the first opens, and gives their accounts and what the child says.
func (a *attempt) windows(t task, lead time.Duration, n int, length time.Duration, settle time.Duration) (ws []bpf.Window, accounts []map[uint32]bpf.Thread, r report, err error) {
	c, err := startChild(a.ctx, t, "")
	if err != nil {
		return nil, nil, r, err
	}
	defer c.close()
	if err := a.enter(c); err != nil {
		return nil, nil, r, err
	}
	s, err := a.p.AddTree(c.Pid)
	if err != nil {
		return nil, nil, r, err
	}
	defer a.p.Remove(s)
	start := bpf.Now() + 300e6
	arm := func(i int) error {
		w := bpf.Window{ID: uint32(i + 1), Start: start + bpf.MonoNs(i)*bpf.MonoNs(length), BlockNs: 100e6}
		w.End = w.Start + bpf.MonoNs(length)
		ws = append(ws, w)
		if err := a.p.Arm(s, w); err != nil {
			return err
		}
		if bpf.Now() >= w.Start {
			return errLate
		}
		return nil
	}
	if err := arm(0); err != nil {
		return nil, nil, r, err
	}
	until(start + bpf.MonoNs(lead))
	if err := c.begin(); err != nil {
		return nil, nil, r, err
	}
	for i := range n {
		if i+1 < n { // two at a time: the next is armed while this one runs
			if err := arm(i + 1); err != nil {
				return nil, nil, r, err
			}
		}
		until(ws[i].End)
		time.Sleep(settle)
		list, err := a.p.Threads(s, ws[i].ID)
		if err != nil {
			return nil, nil, r, err
		}
		accounts = append(accounts, byTid(list))
		if err := a.p.Release(s, ws[i].ID); err != nil {
			return nil, nil, r, err
		}
	}
	r, err = c.result()
	return ws, accounts, r, err
}

// edgesInASleep: windows across one sleep. The first is entered awake, the last
// left so; those in between see nothing but the sleep.
func edgesInASleep(a *attempt) error {
	const n = 8
	length := pick(a, 100*time.Millisecond, 400*time.Millisecond)
	nap := length * (n - 2)
	ws, accounts, r, err := a.windows(task{Name: "nap", Length: nap}, length/2, n, length, 5*time.Millisecond)
	if err != nil {
		return err
	}
	var exact, cut []gap
	events, sum, waited := 0, 0.0, 0.0
	var napper *worker
	for _, w := range r.Workers {
		if w.Role == "napper" {
			napper = w
		}
	}
	slept, woke := napper.Log[0].At, napper.Log[1].At
	for i, w := range ws {
		th := accounts[i][napper.Tid]
		ns, _ := blockedIn(th, sleepReason)
		sum += ns
		waited += float64(th.RunQueueNs)
		who := fmt.Sprintf("window %d", w.ID)
		if w.Start > slept+10e6 && w.End < slept+bpf.MonoNs(nap) {
			// Nothing but the sleep, to the nanosecond.
			exact = append(exact, gap{who, float64(w.End - w.Start), ns, 0, 0, 1})
			if !th.NoEvent || len(th.Blocked) != 1 {
				events++
			}
			continue
		}
		from, to := max(w.Start, slept), min(w.End, woke)
		truth := 0.0
		if to > from {
			truth = float64(to - from)
		}
		// Around the sleep it runs, or wants to, or waits for the runtime, in this
		// window: on the wall clock, which a machine that is itself stopped does not
		// charge.
		atGate, _ := blockedIn(th, gateReason)
		around := float64(th.OnCPUWallNs+th.RunQueueNs+th.BlockedNs()) - ns - atGate
		s := slack(clockPart, truth, 1)
		cut = append(cut, gap{who, truth, ns, s + around, s, 1})
	}
	a.add(worst("windows within the sleep", "window", exact, "blocked for exactly their length"),
		exactly("windows with an event", "windows", 0, events, ""),
		worst("windows at its ends", "window", cut, "own clock, cut at the edges"))
	whole := float64(napper.InWallNs)
	s := slack(clockPart, whole, 1)
	a.add(worst("Σ over windows", "sleep", []gap{{who(napper), whole, sum, s + float64(napper.InCPUNs) + waited, s, 1}}, "clock around the sleep"))
	a.add(closingOf(accounts))
	return nil
}

// closingOf is closing for several windows.
func closingOf(accounts []map[uint32]bpf.Thread) Figure {
	all := observed{}
	for _, threads := range accounts {
		for _, th := range threads {
			all.list = append(all.list, th)
		}
	}
	return all.closing()
}

// edgesWhileRunning: windows that cut through the turns of two spinners on one
// CPU. Their log of both clocks tells their CPU time up to each edge.
func edgesWhileRunning(a *attempt) error {
	n := pick(a, 10, 40)
	const length = 90700 * time.Microsecond // no multiple of a tick or of their turns
	ws, accounts, r, err := a.windows(task{Name: "spin", Kind: "log", N: 2, Length: length*time.Duration(n) + 500*time.Millisecond, CPU: a.host.last()}, -200*time.Millisecond, n, length, 0)
	if err != nil {
		return err
	}
	var run, wait []gap
	for i, w := range ws {
		for _, spinner := range r.Workers {
			if spinner.Began > w.Start {
				continue // not yet: its log does not hold the edge
			}
			th := accounts[i][spinner.Tid]
			low, high, ok := cpuBetween(spinner.Log, w.Start, w.End)
			if !ok {
				continue
			}
			who := fmt.Sprintf("window %d, thread %d", w.ID, th.Tid)
			account := float64(int64(th.OnCPUWallNs) + th.OnCPUSkewNs)
			s := slack(clockPart, low, th.Switches+1)
			run = append(run, gap{who, low, account, s, s + high - low, th.Switches + 1})
			off := float64(w.End-w.Start) - high
			wait = append(wait, gap{who, off, offNs(th) + float64(th.RunQueueSkewNs), s, s + high - low, th.Switches + 1})
		}
	}
	a.add(worst("on-CPU, own CPU clock", "switch", run, "per window"),
		worst("run-queue wait", "switch", wait, "per window"),
		newFigure("windows compared", "windows", float64(2*n), float64(len(run)), -float64(n)/2, 0, "two threads each"),
		closingOf(accounts))
	return nil
}

// cpuBetween bounds the CPU time between two instants by a log of both clocks:
// between two stamps the CPU clock advances at most as the wall clock does. It
// answers false where the log does not span them.
func cpuBetween(log []stamp, from, to bpf.MonoNs) (low, high float64, ok bool) {
	lowFrom, highFrom, ok1 := cpuAt(log, from)
	lowTo, highTo, ok2 := cpuAt(log, to)
	return max(0, lowTo-highFrom), highTo - lowFrom, ok1 && ok2
}

// cpuAt bounds the CPU clock at an instant.
func cpuAt(log []stamp, at bpf.MonoNs) (low, high float64, ok bool) {
	for i := 1; i < len(log); i++ {
		a, b := log[i-1], log[i]
		if a.At > at || at > b.At {
			continue
		}
		since, left, used := float64(at-a.At), float64(b.At-at), float64(b.CPUNs-a.CPUNs)
		base := float64(a.CPUNs)
		return base + max(0, used-left), base + min(used, since), true
	}
	return 0, 0, false
}
