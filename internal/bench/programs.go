//go:build linux

package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/rungprof/rung/bpf"
)

// Time in BPF programs by the kernel's own statistics, which add two clock reads
// to each run: to Rung's programs as to those they are held against, since all of
// them run at the same events.

// yardsticks are the programs to compare with, attached.
type yardsticks struct {
	objects yardstickObjects
	links   []link.Link
}

func attachYardsticks(fullOf uint32) (*yardsticks, error) {
	y := &yardsticks{}
	if err := loadYardstickObjects(&y.objects, nil); err != nil {
		return nil, fmt.Errorf("load the programs to compare with: %w", err)
	}
	if err := y.objects.FullTgid.Set(fullOf); err != nil {
		return nil, errors.Join(err, y.close())
	}
	for _, p := range []*ebpf.Program{y.objects.EmptySwitch, y.objects.EmptyWaking, y.objects.EmptyWakeup, y.objects.FullSwitch} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("attach %s: %w", p, err), y.close())
		}
		y.links = append(y.links, l)
	}
	return y, nil
}

func (y *yardsticks) close() error {
	var errs []error
	for _, l := range y.links {
		errs = append(errs, l.Close())
	}
	return errors.Join(append(errs, y.objects.Close())...)
}

// ran is what a program has run.
type ran struct{ runs, ns float64 }

func (r ran) since(o ran) ran { return ran{r.runs - o.runs, r.ns - o.ns} }
func (r ran) each() float64   { return r.ns / r.runs }

// programTimes reads all programs' times by name: Rung's, and the yardsticks'.
func programTimes(y *yardsticks, w *watcher) (map[string]ran, error) {
	out := map[string]ran{}
	for name, p := range map[string]*ebpf.Program{"empty_switch": y.objects.EmptySwitch, "empty_waking": y.objects.EmptyWaking,
		"empty_wakeup": y.objects.EmptyWakeup, "full_switch": y.objects.FullSwitch} {
		s, err := p.Stats()
		if err != nil {
			return nil, err
		}
		out[name] = ran{float64(s.RunCount), float64(s.Runtime)}
	}
	costs, err := w.Costs()
	if err != nil {
		return nil, err
	}
	for _, c := range costs {
		out[c.Name] = ran{float64(c.Runs), float64(c.RunTimeNs)}
	}
	return out, nil
}

// programRound is one measurement of all programs beside each other.
type programRound struct {
	perSwitch         float64 // Rung, per switch of the target: all programs
	empty, full       float64 // per run of a yardstick at a switch
	onSwitch          float64 // per run of Rung's program at a switch
	three, emptyThree float64 // at a switch, waking and wakeup together
}

// programs measures Rung's programs on a loop that is the target, and on one
// that is not while another process is.
func (b *bench) programs() error {
	rounds := pick(b, 12, 4)
	var target, other, group []programRound
	for i := range rounds {
		// Who is attached first runs first, and finds the caches cold.
		first := i%2 == 0
		for _, each := range []struct {
			out  *[]programRound
			what string
		}{{&target, "target"}, {&other, "tree"}, {&group, "cgroup"}} {
			r, err := b.programRound(each.what, first)
			if err != nil {
				return err
			}
			*each.out = append(*each.out, r)
		}
	}
	ratio := func(rounds []programRound, f func(programRound) float64) (median float64, note string) {
		var all []float64
		for _, r := range rounds {
			all = append(all, f(r))
		}
		slices.Sort(all)
		lo, hi := medianInterval(all)
		return quantile(all, 0.5), fmt.Sprintf("95 %% interval %.3g to %.3g of %d rounds", lo, hi, len(all))
	}
	ns, _ := ratio(target, func(r programRound) float64 { return r.perSwitch })
	emptyNs, _ := ratio(target, func(r programRound) float64 { return r.empty })
	fullNs, _ := ratio(target, func(r programRound) float64 { return r.full })
	b.state("all of Rung's programs per target switch", ns, "ns", "switch, waking, wakeup, migration, clock; the statistics' own two clock reads per run are in it")
	b.state("an empty program per run", emptyNs, "ns", "")
	b.state("full stacks at every switch, per run", fullNs, "ns", "kernel and user stack by id, start and sum in tables; the wakeups of Rung's account are not in it")
	v, note := ratio(target, func(r programRound) float64 { return r.perSwitch / r.empty })
	b.state("per target switch to an empty program", v, "×", note)
	v, note = ratio(target, func(r programRound) float64 { return r.perSwitch / r.full })
	b.judge("per target switch to full stacks", v, "×", "< 1", v < 1, note)
	for _, each := range []struct {
		name   string
		rounds []programRound
	}{{"process tree", other}, {"cgroup", group}} {
		v, note = ratio(each.rounds, func(r programRound) float64 { return r.onSwitch / r.empty })
		b.atMost("no target, switch, beside a "+each.name+", to an empty program", v, "×", 1.5, note)
		v, note = ratio(each.rounds, func(r programRound) float64 { return r.three / r.emptyThree })
		b.atMost("no target, switch and wakeup, beside a "+each.name+", to empty programs", v, "×", 1.5, note)
	}
	return nil
}

// programRound runs the loop at 20,000 switches/s as the target, or beside one
// that sleeps, which is a process tree or a cgroup.
func (b *bench) programRound(what string, yardsticksFirst bool) (r programRound, err error) {
	l, err := b.startLoop(nil, 20_000)
	if err != nil {
		return r, err
	}
	defer l.kill()
	var y *yardsticks
	attach := func() error { y, err = attachYardsticks(l.pid); return err }
	if yardsticksFirst {
		if err := attach(); err != nil {
			return r, err
		}
	}
	p, err := bpf.Load(bpf.Options{RateHz: 199})
	if err != nil {
		return r, err
	}
	defer p.Close()
	if !yardsticksFirst {
		if err := attach(); err != nil {
			return r, err
		}
	}
	defer y.close()
	w := &watcher{Profiler: p}
	if what == "target" {
		w.slot, err = p.AddTree(l.pid)
	} else {
		var done func()
		w.slot, done, err = b.sleepingTarget(p, what == "cgroup")
		if done != nil {
			defer done()
		}
	}
	if err != nil {
		return r, err
	}
	start := bpf.Now()
	if err := w.Arm(w.slot, bpf.Window{ID: 1, Start: start, BlockNs: uint64(100 * time.Millisecond)}); err != nil {
		return r, err
	}
	if _, err := l.slices(afterFirstDraws); err != nil {
		return r, err
	}
	before, err := programTimes(y, w)
	if err != nil {
		return r, err
	}
	s, err := l.slices(pick(b, 40, 20))
	if err != nil {
		return r, err
	}
	after, err := programTimes(y, w)
	if err != nil {
		return r, err
	}
	return newProgramRound(before, after, s), nil
}

func newProgramRound(before, after map[string]ran, all []slice) (r programRound) {
	d := map[string]ran{}
	var rungNs, switches float64
	for name := range after {
		d[name] = after[name].since(before[name])
		if strings.HasPrefix(name, "on_") {
			rungNs += d[name].ns
		}
	}
	for _, s := range all {
		switches += float64(s.Switches)
	}
	r.perSwitch = rungNs / switches
	r.empty, r.full, r.onSwitch = d["empty_switch"].each(), d["full_switch"].each(), d["on_switch"].each()
	r.three = d["on_switch"].each() + d["on_waking"].each() + d["on_wakeup"].each()
	r.emptyThree = d["empty_switch"].each() + d["empty_waking"].each() + d["empty_wakeup"].each()
	return r
}

// sleepingTarget adds a target that does nothing.
func (b *bench) sleepingTarget(p *bpf.Profiler, cgroup bool) (bpf.Slot, func(), error) {
	var dirs []string
	var g *benchGroup
	if cgroup {
		var err error
		if g, err = newGroup("bench-asleep"); err != nil {
			return 0, nil, err
		}
		dirs = g.dirs
	}
	c, err := startChild(dirs, "spin") // which nobody lets begin
	done := func() {
		if c != nil {
			c.kill()
		}
		if g != nil {
			g.remove()
		}
	}
	if err != nil {
		return 0, done, err
	}
	var s bpf.Slot
	if cgroup {
		s, err = p.AddCgroup(g.id)
	} else {
		s, err = p.AddTree(c.pid)
	}
	return s, done, err
}
