//go:build linux

package bpf

import (
	"strings"
	"testing"
	"time"
)

// rowsLeft counts the off-CPU intervals of all windows of a target.
func rowsLeft(t *testing.T, p *Profiler, s Slot) int {
	t.Helper()
	rows, err := p.readStrata(s, 0)
	if err != nil {
		t.Fatal(err)
	}
	return len(rows.keys)
}

// A thread that wakes after its window was read, and before that is released,
// leaves nothing behind.
func TestReleasedWindowLeavesNothing(t *testing.T) {
	p := load(t, 99)
	c := startWorkload(t, "", "sleep", "1", "600ms")
	s := tree(t, p, c)
	c.start()
	time.Sleep(100 * time.Millisecond)
	w := arm(t, p, s, 1)
	if err := p.Park(s); err != nil {
		t.Fatal(err)
	}
	finish(t, p, s, &w)
	if _, err := p.OffCPU(s, 1); err != nil {
		t.Fatal(err)
	}
	c.result() // it has woken
	if rowsLeft(t, p, s) == 0 {
		t.Error("no interval ended late: the test shows nothing")
	}
	if err := p.Release(s, 1); err != nil {
		t.Fatal(err)
	}
	if n := rowsLeft(t, p, s); n != 0 {
		t.Errorf("%d intervals of a released window are left", n)
	}
	if err := p.Remove(s); err != nil {
		t.Fatal(err)
	}
	var accounts uint32
	if err := p.objects.ThreadCount.Get(&accounts); err != nil || accounts != 0 {
		t.Errorf("%d threads have an account after their target was removed, %v", accounts, err)
	}
}

// A full table of intervals costs stacks, counted; the long ones have theirs and
// the account is whole.
func TestStratumTableFull(t *testing.T) {
	p := loadWith(t, Options{RateHz: 99, MaxStrata: 8, StackBudget: 1 << 20})
	c := startWorkload(t, "", "manysleeps")
	s := tree(t, p, c)
	w := arm(t, p, s, 1)
	c.start()
	want := c.result()
	th := finish(t, p, s, &w)[c.tid]
	rows, err := p.OffCPU(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	if counters["stratum_lost"] == 0 {
		t.Error("nothing was lost: the test shows nothing")
	}
	var long uint64
	for _, r := range rows {
		if r.Tid == c.tid && strings.Contains(functions(t, p, r.StackHash), "sleepSecond") {
			long += r.WeightNs
		}
	}
	if err := within(long, want.SecondNs, want.SecondNs/50+2e6); err != nil {
		t.Errorf("the long sleeps: %v", err)
	}
	var slept uint64
	for _, b := range th.Blocked {
		if b.Reason == waitReason(t, "sleep") {
			slept += b.Ns
		}
	}
	// Its own clocks hold the wait to run after each sleep, and the calls, too.
	all := want.FirstNs + want.SecondNs
	if slept > all+all/100 || slept+th.RunQueueNs+th.OnCPUWallNs < all-all/100 {
		t.Errorf("slept for %d ns in the account, %d by its own clock; %+v", slept, all, th)
	}
}

// A full table of samples costs samples, counted: none is missing silently.
func TestSampleTableFull(t *testing.T) {
	p := loadWith(t, Options{RateHz: 999, MaxSamples: 4})
	c := startWorkload(t, "", "manyplace")
	s := tree(t, p, c)
	w := arm(t, p, s, 1)
	c.start()
	c.result()
	th := finish(t, p, s, &w)[c.tid]
	samples, err := p.Samples(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	all := counters["sample_lost"]
	if all == 0 {
		t.Error("nothing was lost: the test shows nothing")
	}
	for _, sample := range samples {
		all += sample.Count
	}
	checkCount(t, all, th)
}

// Ended threads beyond the bound are counted.
func TestEndedTableFull(t *testing.T) {
	p := loadWith(t, Options{RateHz: 99, MaxEnded: 8})
	c := startWorkload(t, "", "threads", "500ms")
	s := tree(t, p, c)
	w := arm(t, p, s, 1)
	c.start()
	want := c.result()
	exited := uint64(0)
	for _, th := range finish(t, p, s, &w) {
		if th.Exited {
			exited++
		}
	}
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	lost := counters["ended_thread_lost"]
	if all := exited + lost; lost == 0 || all+2 < uint64(want.Waits) || all > uint64(want.Waits)+5 {
		t.Errorf("%d ended threads and %d lost, the workload ended %d", exited, lost, want.Waits)
	}
}

// Threads beyond the bound have no account, and their events are counted; those
// that have one are right.
func TestThreadsFull(t *testing.T) {
	for range 5 {
		if spinnerHasTheOnlyAccount(t) || t.Failed() {
			return
		}
		t.Log("another thread of the process was first")
	}
	t.Error("the spinner never had an account: the test shows nothing")
}

func spinnerHasTheOnlyAccount(t *testing.T) bool {
	p := loadWith(t, Options{RateHz: 99, MaxThreads: 1})
	first := startWorkload(t, "", "spin", "300ms")
	s := tree(t, p, first)
	w := arm(t, p, s, 1)
	first.start()
	want := first.result()
	threads := finish(t, p, s, &w)
	if n := counted(t, p)["threads_full"]; n == 0 {
		t.Error("no event of a thread beyond the bound was counted")
	}
	if len(threads) != 1 {
		t.Errorf("%d threads in the account of one", len(threads))
	}
	th, ok := threads[first.tid]
	if ok && th.OnCPUWallNs < want.CPUNs*9/10 {
		t.Errorf("the thread: %+v", th)
	}
	return ok
}
