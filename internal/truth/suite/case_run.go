//go:build linux

package suite

import (
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// spinners share one CPU: each waits to run while another does.
func spinners(a *attempt, n int) error {
	o, err := a.observe(plan{task: task{Name: "spin", N: n, Length: pick(a, 1*time.Second, 4*time.Second), CPU: a.host.last()}, longest: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	o.everyCase()
	o.add(o.spunOff("spinner", "run-queue wait", nil))
	return nil
}

// migration: a thread moves itself from CPU to CPU while each is busy.
func migration(a *attempt) error {
	if len(a.host.cpus) < 2 {
		return fmt.Errorf("a thread cannot move between %d CPU; allow two, or leave the case out", len(a.host.cpus))
	}
	o, err := a.observe(plan{task: task{Name: "wander", N: 2, Length: pick(a, 1*time.Second, 4*time.Second)}, longest: 20 * time.Millisecond})
	if err != nil {
		return err
	}
	o.everyCase()
	w := o.worked("wanderer")[0]
	f := o.spunOff("", "run-queue wait", nil)
	f.Detail = join(f.Detail, fmt.Sprintf("%d moves", w.Waits))
	o.add(f, newFigure("moves", "moves", 100, float64(w.Waits), 0, math.Inf(1), "fewer would show nothing"))
	return nil
}

// rounds: two threads on one CPU pass a byte to and fro at a rate of switches.
func rounds(a *attempt, rate int) error {
	length := pick(a, 1*time.Second, 5*time.Second)
	perRound := 2
	if rate <= 2000 { // slow enough for the caller to sleep in between
		perRound = 3
	}
	n := int(float64(rate)*length.Seconds()) / perRound
	o, err := a.observe(plan{
		task:    task{Name: "rounds", N: n, Length: length, CPU: a.host.last()},
		longest: max(100*time.Microsecond, 2*time.Second/time.Duration(rate)),
	})
	if err != nil {
		return err
	}
	o.everyCase()
	var switches uint64
	for _, w := range o.worked("") {
		switches += o.threads[w.Tid].Switches
	}
	took := float64(o.worked("caller")[0].WallNs) / 1e9
	reached := float64(switches) / took
	// Neighbours add preemptions to the switches of a round.
	o.add(o.offClock(""), newFigure("rate of switches", "switches/s", float64(rate), reached, -float64(rate)/2, float64(rate),
		fmt.Sprintf("%d rounds in %.2f s", n, took)))
	return nil
}

// crowd is n threads, half of them parked throughout, half sleeping now and then.
func crowd(a *attempt, n int) error {
	length := max(50*time.Millisecond, time.Duration(n)*100*time.Microsecond) * pick(a, time.Duration(1), 2)
	o, err := a.observe(plan{task: task{Name: "crowd", N: n, Length: length}, longest: length * 3 / 2})
	if err != nil {
		return err
	}
	o.everyCase()
	o.add(o.offClock("sleeper"))
	if n > 1 {
		o.add(o.asleepThroughout())
	}
	have, lifetime := 0, 0.0
	for _, w := range o.report.Workers {
		if th, ok := o.threads[w.Tid]; ok {
			have++
			lifetime += float64(th.LifetimeNs)
		}
	}
	length = time.Duration(o.window.End - o.window.Start)
	o.add(exactly("workers", "threads", n, have, ""),
		newFigure("Σ lifetime", "s", float64(n)*length.Seconds(), lifetime/1e9, -1e-6, 1e-6, "workers × window"))
	return nil
}

// asleepThroughout: parked workers are blocked in the gate for exactly the window, without an event.
func (o *observed) asleepThroughout() Figure {
	want := bpf.Blocked{Reason: gateReason, Ns: uint64(o.window.End - o.window.Start), Intervals: 1}
	n, asleep := 0, 0
	for _, w := range o.report.Workers {
		if w.Began != 0 {
			continue
		}
		n++
		if th := o.threads[w.Tid]; th.NoEvent && len(th.Blocked) == 1 && th.Blocked[0] == want {
			asleep++
		}
	}
	return exactly("parked throughout", "threads", n, asleep, "blocked for all of the window, no event")
}

// nursery: threads born every 5 ms, which live for some.
func nursery(a *attempt) error {
	o, err := a.observe(plan{task: task{Name: "nursery", N: pick(a, 150, 600), Length: 5 * time.Millisecond}, longest: 5 * time.Millisecond})
	if err != nil {
		return err
	}
	o.everyCase()
	o.add(o.offClock("mother"))
	sleep := bpf.SyscallReason(unix.SYS_CLOCK_NANOSLEEP, bpf.ObjectNone, true)
	var cpu, lived, slept []gap
	found := 0
	for _, b := range o.report.Others {
		th, ok := o.ended(b)
		if !ok {
			continue
		}
		found++
		who := fmt.Sprintf("thread %d", b.Tid)
		// After its last stamp it ends, and may have to wait to run for that; its
		// life in the account begins when it can first run, a little after its start.
		born := max(bpf.MonoNs(th.StartNs), o.window.Start)
		lived = append(lived, gap{who, float64(b.Ended - born), float64(th.LifetimeNs), birthNs, endNs + float64(th.RunQueueNs) + 5e6, 1})
		s := slack(oraclePart, float64(b.CPUNs), th.Switches)
		if born > o.window.Start { // the runtime may have had the thread since before
			account := float64(int64(th.OnCPUWallNs) + th.OnCPUSkewNs)
			cpu = append(cpu, gap{who, float64(b.CPUNs), account, s, s + endNs + o.stolenNs, 1})
		}
		ns, n := blockedIn(th, sleep)
		s = slack(clockPart, float64(b.WaitNs), n) + o.pardonNs
		slept = append(slept, gap{who, float64(b.WaitNs), ns, s + float64(th.RunQueueNs) + 20e3, s, 1})
	}
	o.add(exactly("threads born and ended", "threads", len(o.report.Others), found, o.losses),
		worst("on-CPU, thread's own clock", "thread", cpu, "less its end"),
		worst("lifetime", "thread", lived, "less its end"),
		worst("blocked in its reason", "thread", slept, "clock around its sleep"))
	return nil
}

// endNs is what a thread of the Go runtime takes to end, of CPU time, at most.
const endNs = 500e3

// birthNs lies between a thread's start_time and when it can run: the rest of clone.
const birthNs = 5e6

// ended finds the thread that lived around what it says of itself: its number
// may have been used again.
func (o *observed) ended(b born) (bpf.Thread, bool) {
	for _, th := range o.list {
		died := max(th.StartNs, uint64(o.window.Start)) + th.LifetimeNs
		if th.Tid == b.Tid && th.Exited && th.StartNs <= uint64(b.Began) && died+birthNs >= uint64(b.Ended) {
			return th, true
		}
	}
	return bpf.Thread{}, false
}

// forkExec: a chain of processes, each started by the one before, the last of
// which becomes another program. All are in the tree, with all of their CPU time.
func forkExec(a *attempt) error {
	depth := pick(a, 3, 8)
	o, err := a.observe(plan{task: task{Name: "link", N: depth, Length: 40 * time.Millisecond}, longest: 40 * time.Millisecond})
	if err != nil {
		return err
	}
	o.everyCase()
	charged, switches := map[uint32]float64{}, map[uint32]uint64{}
	blocked := map[uint32]float64{}
	for _, th := range o.list {
		charged[th.Tgid] += float64(th.OnCPUChargedNs)
		switches[th.Tgid] += th.Switches
		ns, _ := blockedIn(th, bpf.SyscallReason(unix.SYS_CLOCK_NANOSLEEP, bpf.ObjectNone, true))
		blocked[th.Tgid] += ns
	}
	var cpu, slept []gap
	for _, b := range o.report.Others {
		who := fmt.Sprintf("process %d", b.Pid)
		s := slack(oraclePart, float64(b.CPUNs), 0) + 100e3
		// After it has read its clock it tells, and ends: all threads of it.
		cpu = append(cpu, gap{who, float64(b.CPUNs), charged[b.Pid], s, s + 10e6 + float64(b.CPUNs)/20, 1})
		// The Go runtime's own threads sleep so too, in between.
		s = slack(clockPart, float64(b.WaitNs), 1) + o.pardonNs
		slept = append(slept, gap{who, float64(b.WaitNs), blocked[b.Pid], s + 5e6, math.Inf(1), 1})
	}
	o.add(exactly("processes", "processes", depth, len(cpu), ""),
		worst("charged, process CPU clock", "process", cpu, "less its end"),
		worst("blocked in nanosleep", "process", slept, "at least its own sleep"))
	return nil
}

// convoy: who ends the waits for a lock is who held it, in the function that unlocks.
func convoy(a *attempt, kind string) error {
	o, err := a.observe(plan{task: task{Name: "convoy", Kind: kind, N: pick(a, 150, 600), Length: 5 * time.Millisecond}, rows: true, longest: 6 * time.Millisecond})
	if err != nil {
		return err
	}
	o.everyCase()
	futex := bpf.SyscallReason(unix.SYS_FUTEX, bpf.ObjectNone, false)
	holder := o.worked("holder")[0]
	o.add(o.offClock(""))
	var all, byHolder, inUnlock float64
	for _, r := range o.rows {
		if r.Reason != futex || r.State != bpf.StateBlocked || r.Tgid != o.child.Pid || !o.isWaiter(r.Tid) {
			continue
		}
		weight := float64(r.WeightNs)
		all += weight
		if r.WakerTid != holder.Tid {
			continue
		}
		byHolder += weight
		stack, _ := a.p.Stack(r.WakerStackHash)
		for _, f := range stack.Frames {
			if f.Kind == bpf.FrameNative && strings.HasSuffix(o.child.function(f.Value), "(*heldLock).unlock") {
				inUnlock += weight
				break
			}
		}
	}
	if all == 0 {
		return fmt.Errorf("no waiter has a drawn interval in its futex: %s", o.losses)
	}
	// Waiters pass the lock among themselves after each hold, shortly.
	o.add(newFigure("waits ended by the holder", "%", 100, 100*byHolder/all, -5, 0, "of the waiters' blocked time"),
		newFigure("its stack is in unlock", "%", 100, 100*inUnlock/byHolder, -2, 0, "of that"))
	var held []gap
	for _, w := range o.worked("waiter") {
		th := o.threads[w.Tid]
		ns, n := blockedIn(th, futex, bpf.SyscallReason(unix.SYS_CLOCK_NANOSLEEP, bpf.ObjectNone, true))
		s := slack(clockPart, float64(w.InWallNs), n) + o.pardonNs
		held = append(held, gap{who(w), float64(w.InWallNs), ns, s + float64(w.InCPUNs) + float64(th.RunQueueNs), s, n})
	}
	o.add(worst("blocked in futex and sleep", "interval", held, "clock around the calls"))
	return nil
}

func (o *observed) isWaiter(tid uint32) bool {
	for _, w := range o.worked("waiter") {
		if w.Tid == tid {
			return true
		}
	}
	return false
}
