//go:build linux

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/rungprof/rung/bpf"
)

// off is a host without any profiler: nothing loaded.
func off() state {
	return state{name: "off", enter: func() (func() error, error) { return func() error { return nil }, nil }}
}

// rungOn is what `rung profile` and the agent do to a target, by default: loaded,
// the target added, a window armed, sampling at 199 Hz, the kernel's statistics
// of BPF programs on.
func rungOn(pid uint32) state {
	return state{name: "rung", warm: afterFirstDraws, enter: func() (func() error, error) {
		w, err := watch(pid, bpf.DefaultStackBudget)
		if err != nil {
			return nil, err
		}
		now := bpf.Now()
		if err := w.Arm(w.slot, bpf.Window{ID: 1, Start: now, BlockNs: uint64(100 * time.Millisecond)}); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		if err := w.Park(w.slot); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		return w.Close, nil
	}}
}

// afterFirstDraws is about a second's slices: a window draws most of its stacks
// when it begins, which is nothing beside a step's length, and would be much of
// such a short one.
const afterFirstDraws = 35

// rungIdle is loaded without a target, as an agent is between runs.
func rungIdle() state {
	return state{name: "rung without a target", enter: func() (func() error, error) {
		p, err := bpf.Load(bpf.Options{RateHz: 199})
		if err != nil {
			return nil, err
		}
		return p.Close, nil
	}}
}

// cost is the loss of throughput of the closed loop while it is a target.
func (b *bench) cost() error {
	for _, c := range []struct {
		rate  int
		bound float64
	}{{20_000, 2}, {5_000, 1}} {
		if err := b.costAt(c.rate, c.bound); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) costAt(rate int, bound float64) error {
	l, err := b.startLoop(nil, rate)
	if err != nil {
		return err
	}
	defer l.kill()
	rounds := pick(b, 40, 6)
	c, err := b.compare(l, []state{off(), rungOn(l.pid), rungIdle()}, rounds, 10)
	if err != nil {
		return err
	}
	median, lo, hi := c.loss(1)
	b.atMost(fmt.Sprintf("loss at %d switches/s", rate), median, "%", bound,
		fmt.Sprintf("95 %% interval %.2f to %.2f, of %d rounds off-on-on-off; off: not loaded; on: after the first second of a window; the loop switches %.0f times per s of CPU time", lo, hi, rounds, l.rate))
	median, lo, hi = c.loss(2)
	b.state(fmt.Sprintf("loss at %d switches/s, no target", rate), median, "%", fmt.Sprintf("95 %% interval %.2f to %.2f; loaded, no target added", lo, hi))
	return nil
}
