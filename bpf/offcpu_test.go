//go:build linux

package bpf

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
)

// functions names the user part of a stack of this very binary, leaf first.
func functions(t *testing.T, p *Profiler, hash uint64) string {
	t.Helper()
	stack, ok := p.Stack(hash)
	if !ok {
		return ""
	}
	var names []string
	for _, f := range stack.Frames {
		if f.Kind != FrameNative {
			continue
		}
		// The function that holds the code: at its entry, nothing is inlined.
		if fn := runtime.FuncForPC(uintptr(f.Value) - 1); fn != nil {
			name := runtime.FuncForPC(fn.Entry()).Name()
			names = append(names, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	return strings.Join(names, " ")
}

// lostStacks is how many stacks the kernel side says it could not keep or take.
func lostStacks(t *testing.T, p *Profiler) uint64 {
	t.Helper()
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return counters["stack_table_full"] + counters["stack_failed"]
}

// Two places that sleep 70 % and 30 % of the time: the sampled stacks say so,
// within the interval of their own variance, at chances below 1 too.
func TestOffCPUShares(t *testing.T) {
	p := load(t, 99)
	c := startWorkload(t, "", "places")
	s := tree(t, p, c)
	w := arm(t, p, s, 1)
	c.start()
	want := c.result()
	threads := finish(t, p, s, &w)
	rows, err := p.OffCPU(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	var first, all, squaresFirst, squares float64
	var samples, unseen uint64
	for _, r := range rows {
		if r.Tid != c.tid || r.State != StateBlocked || r.Reason != waitReason(t, "sleep") {
			continue
		}
		all += float64(r.WeightNs)
		squares += r.SquaresNs2
		samples += r.Samples
		switch names := functions(t, p, r.StackHash); {
		case strings.Contains(names, "sleepFirst"):
			first += float64(r.WeightNs)
			squaresFirst += r.SquaresNs2
		case !strings.Contains(names, "sleepSecond"):
			t.Errorf("a sleep at %q", names)
		}
		if r.WakerTid != 0 && r.WakerStackHash == 0 {
			unseen += r.Samples
		}
	}
	if lost := lostStacks(t, p); unseen > lost {
		t.Errorf("%d wakers without a stack, and %d stacks said to be lost", unseen, lost)
	}
	got, truth := first/all, float64(want.FirstNs)/float64(want.FirstNs+want.SecondNs)
	sd := math.Sqrt((1-got)*(1-got)*squaresFirst+got*got*(squares-squaresFirst)) / all
	t.Logf("sleepFirst %.2f ± %.2f %% of %d samples, %.2f %% by its own clock", 100*got, 196*sd, samples, 100*truth)
	tellTruth(t, "off-CPU shares", 100*math.Abs(got-truth))
	if math.Abs(got-truth) > 3.3*sd+0.01 {
		t.Errorf("sleepFirst has %.4f of the time, its own clock says %.4f, standard deviation %.4f", got, truth, sd)
	}
	var exact uint64
	for _, b := range threads[c.tid].Blocked {
		if b.Reason == waitReason(t, "sleep") {
			exact = b.Ns
		}
	}
	// One long sleep, of a machine that stood still, may stand for many.
	if r, sd := all/float64(exact), math.Sqrt(squares)/float64(exact); math.Abs(r-1) > 3.3*sd+0.02 {
		t.Errorf("samples stand for %.3f of the exact total, standard deviation %.3f", r, sd)
	}
	if samples >= uint64(want.Waits) || samples < 64 {
		t.Errorf("%d samples of %d intervals: the chance never fell", samples, want.Waits)
	}
}

// A thread asleep since before the window has a stack with all of its time.
func TestParkedThreadHasAStack(t *testing.T) {
	p := load(t, 99)
	c := startWorkload(t, "", "sleep", "1", "1500ms")
	s := tree(t, p, c)
	c.start()
	time.Sleep(300 * time.Millisecond)
	w := arm(t, p, s, 1)
	if err := p.Park(s); err != nil {
		t.Fatal(err)
	}
	time.Sleep(200 * time.Millisecond)
	finish(t, p, s, &w)
	rows, err := p.OffCPU(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Tid != c.tid {
			continue
		}
		if names := functions(t, p, r.StackHash); !strings.Contains(names, "sleepWait") || r.WeightNs != uint64(w.End-w.Start) ||
			r.Reason != waitReason(t, "sleep") || r.Samples != 1 {
			t.Errorf("%+v at %q: want all of the window in sleepWait", r, names)
		}
		return
	}
	t.Errorf("the parked thread has no stack: %+v", rows)
}

// Who ends a wait on a pipe is the thread that writes it.
func TestWaker(t *testing.T) {
	p := load(t, 99)
	c := startWorkload(t, "", "pipe", "100", "2ms")
	s := tree(t, p, c)
	w := arm(t, p, s, 1)
	c.start()
	c.result()
	finish(t, p, s, &w)
	rows, err := p.OffCPU(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	var all, byWriter uint64
	for _, r := range rows {
		if r.Tid != c.tid || r.Reason != waitReason(t, "pipe") || r.WakerTid == 0 {
			continue
		}
		all += r.Samples
		if names := functions(t, p, r.WakerStackHash); r.WakerTgid == c.pid && strings.Contains(names, "pipeWait") {
			byWriter += r.Samples
		}
	}
	if all < 60 || byWriter < all*9/10 {
		t.Errorf("%d of %d drawn waits were ended by the writer", byWriter, all)
	}
}
