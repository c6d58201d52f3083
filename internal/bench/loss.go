//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rungprof/rung/bpf"
)

// kernelMissed are counters of what the kernel did not show, which the account
// repairs; all others are losses by Rung.
var kernelMissed = []string{"switch_in_missed", "switch_out_missed"}

// loss watches the loop at 20,000 switches/s over windows back to back.
func (b *bench) loss() error {
	length, windows := pick(b, time.Minute, 5*time.Second), pick(b, 10, 4)
	l, err := b.startLoop(nil, 20_000)
	if err != nil {
		return err
	}
	defer l.kill()
	l.turns = 5_000 // half a second: between slices the pair waits, uncounted by itself
	w, err := watch(l.pid, bpf.DefaultStackBudget)
	if err != nil {
		return err
	}
	defer w.Close()
	before, err := w.Counters()
	if err != nil {
		return err
	}
	start := bpf.Now() + bpf.MonoNs(50*time.Millisecond)
	at := func(i int) bpf.MonoNs { return start + bpf.MonoNs(i)*bpf.MonoNs(length) }
	arm := func(i int) error {
		return w.Arm(w.slot, bpf.Window{ID: uint32(i + 1), Start: at(i), End: at(i + 1), BlockNs: uint64(length) / 64})
	}
	if err := errors.Join(arm(0), arm(1), b.sleepUntil(at(0))); err != nil {
		return err
	}
	done := make(chan error, 1)
	var own int64
	go func() { // within the windows, so that its switches are theirs
		err := b.sleepUntil(at(0) + bpf.MonoNs(20*time.Millisecond))
		for err == nil && bpf.Now()+bpf.MonoNs(2*time.Second) < at(windows) {
			var s []slice
			s, err = l.slices(1)
			for _, each := range s {
				own += each.Switches
			}
		}
		done <- err
	}()
	var seen, draws uint64
	var drain time.Duration
	for i := range windows {
		if err := errors.Join(w.Park(w.slot), b.sleepUntil(at(i+1))); err != nil {
			return err
		}
		began := time.Now()
		threads, err := w.Threads(w.slot, uint32(i+1))
		rows, err2 := w.OffCPU(w.slot, uint32(i+1))
		_, err3 := w.Samples(w.slot, uint32(i+1))
		if err := errors.Join(err, err2, err3, w.Release(w.slot, uint32(i+1))); err != nil {
			return err
		}
		drain = max(drain, time.Since(began))
		for _, t := range threads {
			seen += pairSwitches(t)
		}
		for _, r := range rows {
			draws += r.Samples
		}
		if i+2 < windows {
			if err := arm(i + 2); err != nil {
				return err
			}
		}
	}
	after, err := w.Counters()
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	b.judgeLoss(before, after, seen, own, fmt.Sprintf("%d windows of %v, %.0f switches per s of CPU time, %d draws; slowest draining %v",
		windows, length, l.rate, draws, drain.Round(time.Microsecond)))
	return nil
}

// pairSwitches is a thread's, if it is one of the pair: the others of the process
// switch a few times per slice.
func pairSwitches(t bpf.Thread) uint64 {
	if t.Switches < 1000 {
		return 0
	}
	return t.Switches
}

func (b *bench) judgeLoss(before, after bpf.Counters, seen uint64, own int64, note string) {
	var lost, missed uint64
	var names []string
	for _, name := range bpf.CounterNames() {
		n := after[name] - before[name]
		if n > 0 {
			names = append(names, fmt.Sprintf("%s %d", name, n))
		}
		if slices.Contains(kernelMissed, name) {
			missed += n
		} else {
			lost += n
		}
	}
	b.judge("events lost by Rung", float64(lost), "", "0", lost == 0, strings.Join(append([]string{note}, names...), "; "))
	b.state("events that the kernel did not show", float64(missed), "", "each repaired from the scheduler's own stamps")
	// By rusage, a thread that waits for its next slice has switched too.
	off := 100 * (float64(seen)/float64(own) - 1)
	b.judge("switches counted less the threads' own count", off, "%", "|x| ≤ 0.1", math.Abs(off) <= 0.1, fmt.Sprintf("%d of %d by getrusage", seen, own))
}
