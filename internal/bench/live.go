//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// Live trials: two kernel sides watch one thread over the same windows. One has
// the default budget and gives intervals; the other draws every interval, so
// that its shares are the truth, by the same clock and the same edges.

// drawnWindow is one window of one kernel side, kept until its stacks are named.
type drawnWindow struct {
	rows    []bpf.OffCPU
	threads []bpf.Thread
	stacks  map[uint64]bpf.Stack
}

// watcher is one kernel side on one target.
type watcher struct {
	*bpf.Profiler
	slot bpf.Slot
}

func watch(pid uint32, budget int) (*watcher, error) {
	p, err := bpf.Load(bpf.Options{RateHz: 199, StackBudget: budget})
	if err != nil {
		return nil, err
	}
	s, err := p.AddTree(pid)
	if err != nil {
		p.Close()
		return nil, err
	}
	return &watcher{p, s}, nil
}

// read takes what an ended window has of the sleeps of one thread.
func (w *watcher) read(id, tid uint32) (drawnWindow, error) {
	out := drawnWindow{stacks: map[uint64]bpf.Stack{}}
	threads, err := w.Threads(w.slot, id)
	if err != nil {
		return out, err
	}
	for _, t := range threads {
		if t.Tid == tid {
			blocked := slices.DeleteFunc(slices.Clone(t.Blocked), func(b bpf.Blocked) bool { return b.Reason != sleepReason })
			out.threads = append(out.threads, bpf.Thread{Tgid: t.Tgid, Tid: tid, Blocked: blocked})
		}
	}
	rows, err := w.OffCPU(w.slot, id)
	if err != nil {
		return out, err
	}
	for _, r := range rows {
		if r.Tid != tid || r.State != bpf.StateBlocked || r.Reason != sleepReason {
			continue
		}
		out.rows = append(out.rows, r)
		if stack, ok := w.Stack(r.StackHash); ok {
			out.stacks[r.StackHash] = stack
		}
	}
	if _, err := w.Samples(w.slot, id); err != nil {
		return out, err
	}
	return out, w.Release(w.slot, id)
}

// totalNs is the stratum's exact total.
func (d drawnWindow) totalNs() float64 {
	var ns uint64
	for _, t := range d.threads {
		for _, b := range t.Blocked {
			ns += b.Ns
		}
	}
	return float64(ns)
}

// places is the product's answer by place.
func (d drawnWindow) places(symbols func(uint32) (profile.Process, error), kernel symbol.KernelNamer) (map[string]attribution.Estimated, error) {
	p, _, err := profile.Build(profile.Input{
		OffCPU: d.rows, Threads: d.threads, Kernel: kernel, Process: symbols, RateHz: 199,
		Stack: func(hash uint64) (bpf.Stack, bool) { s, ok := d.stacks[hash]; return s, ok },
		Start: time.Unix(0, 0), Length: time.Second,
	})
	if err != nil {
		return nil, err
	}
	off, err := attribution.OffCPUFromPprof(p)
	if err != nil {
		return nil, err
	}
	// One place is one stack to the product, whatever the kernel did below it.
	for i := range off.Stacks {
		frames := off.Stacks[i].Frames
		at := slices.IndexFunc(frames, func(f attribution.Frame) bool { return strings.Contains(f.Function, ".place") })
		if at < 0 {
			off.Stacks[i].Frames = []attribution.Frame{{Function: "elsewhere"}}
			continue
		}
		_, place, _ := strings.Cut(frames[at].Function, ".place")
		off.Stacks[i].Frames = []attribution.Frame{{Function: place}}
	}
	out := map[string]attribution.Estimated{}
	for _, s := range attribution.TopStacks(off, attribution.StateBlocked, 0) {
		out[s.Frames[0].Function] = s.Estimated
	}
	return out, nil
}

// liveShares counts how often live intervals hold the truth: one place of each
// window, in turn among those with an interval, so that trials are independent.
func (b *bench) liveShares() error {
	for _, kind := range []string{"steady", "bursty"} {
		if err := b.liveTrials(kind, pick(b, 280, 24), pick(b, 500*time.Millisecond, 400*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) liveTrials(kind string, windows int, length time.Duration) error {
	c, err := startChild(nil, "places", kind, "0", "11")
	if err != nil {
		return err
	}
	defer c.kill()
	sampled, err := watch(c.pid, bpf.DefaultStackBudget)
	if err != nil {
		return err
	}
	defer sampled.Close()
	full, err := watch(c.pid, 1<<20)
	if err != nil {
		return err
	}
	defer full.Close()
	if err := c.say("go"); err != nil {
		return err
	}
	estimates, truths, err := b.windows(c, sampled, full, windows, length)
	if err != nil {
		return err
	}
	lost, err := full.Counters()
	if err != nil {
		return err
	}
	symbols := symbol.New(symbol.Options{})
	defer symbols.Close()
	trials, shifts, err := liveCoverage(estimates, truths, profile.Processes(symbols), sampled, full)
	if err != nil {
		return err
	}
	b.judgeLive(fmt.Sprintf("%s, %d windows", kind, windows), trials, fmt.Sprintf("%d draws of the truth lost, its intervals shorter by %.0f ns",
		lost["stack_table_full"]+lost["stratum_lost"], quantile(shifts, 0.5)))
	return nil
}

// windows measures windows that follow each other without a gap on both kernel sides.
func (b *bench) windows(c *child, sampled, full *watcher, n int, length time.Duration) (estimates, truths []drawnWindow, err error) {
	start := bpf.Now() + bpf.MonoNs(200*time.Millisecond)
	at := func(i int) bpf.MonoNs { return start + bpf.MonoNs(i)*bpf.MonoNs(length) }
	arm := func(i int) error {
		for _, w := range []*watcher{sampled, full} {
			if err := w.Arm(w.slot, bpf.Window{ID: uint32(i + 1), Start: at(i), End: at(i + 1), BlockNs: uint64(length)}); err != nil {
				return err
			}
		}
		return nil
	}
	read := func(i int) error {
		for w, out := range map[*watcher]*[]drawnWindow{sampled: &estimates, full: &truths} {
			d, err := w.read(uint32(i+1), c.tid)
			if err != nil {
				return err
			}
			*out = append(*out, d)
		}
		return nil
	}
	if err := arm(0); err != nil {
		return nil, nil, err
	}
	for i := range n {
		if err := b.sleepUntil(at(i)); err != nil {
			return nil, nil, err
		}
		for _, w := range []*watcher{sampled, full} { // as the agent does after an opening edge
			if err := w.Park(w.slot); err != nil {
				return nil, nil, err
			}
		}
		if i > 0 {
			if err := read(i - 1); err != nil {
				return nil, nil, err
			}
		}
		if i+1 < n {
			if err := arm(i + 1); err != nil {
				return nil, nil, err
			}
		}
	}
	if err := b.sleepUntil(at(n)); err != nil {
		return nil, nil, err
	}
	if err := read(n - 1); err != nil {
		return nil, nil, err
	}
	return estimates, truths, nil
}

// liveTrial is one window's estimate of one place.
type liveTrial struct {
	place   string
	chosen  bool // for the count of intervals that cover
	covered bool
	off     float64 // share less true share
}

func liveCoverage(estimates, truths []drawnWindow, symbols func(uint32) (profile.Process, error), estimator, truth symbol.KernelNamer) (trials []liveTrial, shifts []float64, err error) {
	for i := range estimates {
		got, err := estimates[i].places(symbols, estimator)
		if err != nil {
			return nil, nil, err
		}
		want, err := truths[i].places(symbols, truth)
		if err != nil {
			return nil, nil, err
		}
		// The two sides stamp one after the other, so that intervals of the truth are
		// shorter or longer by a microsecond, each alike: short ones weigh less.
		total, seen := estimates[i].totalNs(), 0.0
		for _, w := range want {
			seen += float64(w.Draws)
		}
		later := (total - truths[i].totalNs()) / seen
		shifts = append(shifts, later)
		var given []int
		for place := range placeFuncs {
			name := placeName(place)
			e, is := got[name], (float64(want[name].Ns)+later*float64(want[name].Draws))/total
			if is == 0 && e.Share.Value == 0 {
				continue
			}
			t := liveTrial{place: name, off: e.Share.Value - is}
			if in := e.Share.Interval; in != nil {
				t.covered = in.Lo <= is && is <= in.Hi
				given = append(given, len(trials))
			}
			trials = append(trials, t)
		}
		if len(given) > 0 {
			trials[given[i%len(given)]].chosen = true
		}
	}
	slices.Sort(shifts)
	return trials, shifts, nil
}

func (b *bench) judgeLive(what string, trials []liveTrial, note string) {
	chosen, covered := 0, 0
	byPlace := map[string]*coverage{}
	for _, t := range trials {
		if t.chosen {
			chosen++
			if t.covered {
				covered++
			}
		}
		if byPlace[t.place] == nil {
			byPlace[t.place] = &coverage{name: t.place}
		}
		c := byPlace[t.place]
		c.trials++
		c.sum += t.off
		c.squares += t.off * t.off
	}
	bias := 0.0
	var notes []string
	for place := range placeFuncs {
		c := byPlace[placeName(place)]
		if c == nil || c.trials < 3 {
			continue
		}
		mean, stderr := c.bias()
		notes = append(notes, fmt.Sprintf("%s %+.3f ± %.3f points", c.name, 100*mean, 100*stderr))
		if stderr > 0 && math.Abs(mean/stderr) > math.Abs(bias) {
			bias = mean / stderr
		}
	}
	p := binomialP(covered, chosen, 0.95)
	goal := "95 %, p > 0.01"
	b.judge(what+": coverage", 100*float64(covered)/float64(chosen), "%", goal, p > 0.01,
		fmt.Sprintf("%d of %d intervals, one per window; binomial p = %.3f; %s", covered, chosen, p, note))
	b.judge(what+": largest mean error", bias, "σ", "|x| ≤ 3.3", math.Abs(bias) <= 3.3, strings.Join(notes, ", "))
}

// binomialP is the two-sided probability of k of n, or farther off, at the
// chance given: twice the smaller tail.
func binomialP(k, n int, chance float64) float64 {
	tail := func(from, to int) float64 {
		sum := 0.0
		for i := from; i <= to; i++ {
			a, _ := math.Lgamma(float64(n + 1))
			b, _ := math.Lgamma(float64(i + 1))
			c, _ := math.Lgamma(float64(n - i + 1))
			sum += math.Exp(a - b - c + float64(i)*math.Log(chance) + float64(n-i)*math.Log1p(-chance))
		}
		return sum
	}
	return min(1, 2*min(tail(0, k), tail(k, n)))
}
