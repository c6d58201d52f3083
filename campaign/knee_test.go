package campaign

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rungprof/rung/ladder"
)

// server is a simulated arm behind a simulated driver.
type server struct {
	capacity float64 // requests per second; above, it delivers this and queues
	driver   float64 // the driver's own limit; 0 is none
	voidAt   int     // index of a step that stays void; 0 is none
	costs    []float64
	// shares are those of the JIT by step, of a JVM; blind steps have no record.
	shares []float64
	blind  int
}

func (s server) answer(step Step) Done {
	delivered := math.Min(step.OfferedHz, s.capacity)
	d := Done{Step: step}
	p50, cost := 0.5, 0.1
	if step.OfferedHz > s.capacity {
		p50 = 500
	}
	if step.Index < len(s.costs) {
		cost = s.costs[step.Index]
	}
	if s.driver > 0 && step.OfferedHz > s.driver {
		delivered = math.Min(delivered, s.driver)
		d.ClientLimited = "the driver used 1.98 of its 2 CPUs"
	}
	d.Row = ladder.Step{Index: step.Index, Name: step.Name(), Warmup: step.Unmeasured(), OfferedHz: step.OfferedHz, DeliveredHz: delivered,
		DeliveredInWindow: uint64(delivered), P50Ms: &p50, P99Ms: &p50, CPUMsPerRequest: &cost}
	if d.Row.Profiled = step.Profile && step.Index >= s.blind; d.Row.Profiled && step.Index < len(s.shares) {
		d.Row.JITShare = &s.shares[step.Index]
	}
	if step.Kind == KindControl {
		d.Row.Flags = []ladder.Flag{{Kind: ladder.FlagControl}}
	}
	if s.voidAt > 0 && step.Index == s.voidAt {
		d.Row.Flags = []ladder.Flag{{Kind: ladder.FlagVoid}}
	}
	return d
}

// drive runs a ladder to its end against a server. At each step it also asks anew
// from the start, as a resumed campaign does.
func drive(t *testing.T, l Ladder, s server) ([]Done, Progress) {
	t.Helper()
	var done []Done
	for range 500 {
		p, err := l.Next(done)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := l.Next(slices.Clone(done)); err != nil || again.Next != p.Next {
			t.Fatalf("asked again: %+v, %v; first %+v", again, err, p)
		}
		if p.Complete {
			return done, p
		}
		done = append(done, s.answer(p.Next))
	}
	t.Fatal("no end")
	return nil, Progress{}
}

func search(t *testing.T, more string, s server) ([]Done, Verdict) {
	t.Helper()
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1, "ladder: {knee: {start: 400"+more+"}}")).Ladders[0]
	done, p := drive(t, l, s)
	if p.Search == nil {
		t.Fatal("no verdict")
	}
	return done, *p.Search
}

// TestKneeSearch: for any capacity the knee is found to the precision asked for.
func TestKneeSearch(t *testing.T) {
	for capacity := 3.0; capacity < 200_000; capacity *= 1.37 {
		done, v := search(t, ", max_steps: 80", server{capacity: capacity})
		if v.End != EndKnee || v.KeepsHz > capacity/0.99 || v.FailsHz <= capacity || v.FailsHz > v.KeepsHz*1.0501 {
			t.Errorf("capacity %g: %+v", capacity, v)
		}
		if v.Steps != len(done) {
			t.Errorf("capacity %g: %d steps said, %d driven", capacity, v.Steps, len(done))
		}
	}
}

// TestKneeSearchClientLimit: whatever the driver's limit, no step above it is the
// knee, and a search that ends at it has found none.
func TestKneeSearchClientLimit(t *testing.T) {
	for driver := 20.0; driver < 50_000; driver *= 1.21 {
		for capacity := 31.0; capacity < 50_000; capacity *= 1.43 {
			_, v := search(t, ", max_steps: 120", server{capacity: capacity, driver: driver})
			if v.KeepsHz > driver {
				t.Fatalf("driver %g, capacity %g: %g/s above the driver's limit counts as kept: %+v", driver, capacity, v.KeepsHz, v)
			}
			switch {
			case driver > 1.06*capacity:
				if v.End != EndKnee || v.KeepsHz > capacity/0.99 || v.KeepsHz*1.0501 < capacity {
					t.Errorf("driver %g, capacity %g: %+v", driver, capacity, v)
				}
			case driver < capacity:
				if v.End != EndClientLimited || v.ClientLimitedHz <= driver || v.Why == "" {
					t.Errorf("driver %g, capacity %g: %+v", driver, capacity, v)
				}
			}
		}
	}
}

func TestKneeSearchEnds(t *testing.T) {
	for _, c := range []struct {
		more string
		s    server
		end  End
		text string
	}{
		{", max: 1000", server{capacity: 1e6}, EndNotReached, "no knee up to 1000/s, the highest rate of the search"},
		{", max_steps: 80", server{capacity: 0}, EndBelow, "does not keep up"},
		{", max_steps: 3", server{capacity: 1e6}, EndSteps, "no knee within 3 steps; 900/s keeps up"},
		{"", server{capacity: 1e6, voidAt: 2}, EndVoid, "the step at 900/s stayed void; 600/s keeps up"},
		{"", server{capacity: 5000, driver: 700}, EndClientLimited, "the driver is the limit (the driver used 1.98 of its 2 CPUs)"},
	} {
		_, v := search(t, c.more, c.s)
		if v.End != c.end || !strings.Contains(v.String(), c.text) {
			t.Errorf("%+v: %+v, %s", c.s, v, v)
		}
	}
}

// TestKneeSearchForgivesOnce: a single step that a neighbour spoilt, for the arm or
// for the driver, moves no knee.
func TestKneeSearchForgivesOnce(t *testing.T) {
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1, "ladder: {knee: {start: 400}}")).Ladders[0]
	_, clean := drive(t, l, server{capacity: 5000})
	for spoilt := range 8 {
		for _, by := range []server{{capacity: 1}, {capacity: 5000, driver: 1}} {
			var done []Done
			p, err := l.Next(done)
			for ; err == nil && !p.Complete; p, err = l.Next(done) {
				s := server{capacity: 5000}
				if p.Next.Index == spoilt {
					s = by
				}
				done = append(done, s.answer(p.Next))
			}
			if err != nil || p.Search.End != EndKnee || p.Search.KeepsHz != clean.Search.KeepsHz {
				// Where the knee's own bound was driven twice anyway, the second counts.
				if len(done) > spoilt && done[spoilt].Step.OfferedHz > 5000 && p.Search.End == EndClientLimited {
					continue
				}
				t.Errorf("step %d spoilt by %+v: %+v, want %+v", spoilt, by, p.Search, clean.Search)
			}
		}
	}
}

// TestProfileAfterSearch: with top:N the highest rates that kept up are driven
// again, profiled, each with its control.
func TestProfileAfterSearch(t *testing.T) {
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1,
		"agent: 'h:1'\nladder: {knee: {start: 400}, profile_steps: top:2, control_steps: top:1}")).Ladders[0]
	done, p := drive(t, l, server{capacity: 1000})
	var kept []float64
	for _, d := range done[:p.Search.Steps] {
		if d.Step.Profile || d.Step.Kind != KindMeasured {
			t.Errorf("the search drives %+v", d.Step)
		}
		if d.Step.OfferedHz <= 1000 {
			kept = append(kept, d.Step.OfferedHz)
		}
	}
	slices.Sort(kept)
	var got []string
	for _, d := range done[p.Search.Steps:] {
		got = append(got, fmt.Sprintf("%g %s %v", d.Step.OfferedHz, d.Step.Kind, d.Step.Profile))
	}
	top, next := kept[len(kept)-1], kept[len(kept)-2]
	want := []string{fmt.Sprintf("%g measured true", next), fmt.Sprintf("%g measured true", top), fmt.Sprintf("%g control false", top)}
	if !slices.Equal(got, want) {
		t.Errorf("after the search %q, want %q", got, want)
	}
}

func TestAdaptiveWarmup(t *testing.T) {
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1,
		"ladder: {rates: 100, warmup: {adaptive: {within: 5%, over: 3, max: 8}}}")).Ladders[0]
	for _, c := range []struct {
		costs  []float64
		probes int
		note   string
	}{
		{[]float64{0.1, 0.1, 0.1}, 3, ""},
		{[]float64{0.9, 0.4, 0.2, 0.101, 0.1, 0.099}, 6, ""},
		{[]float64{1, 2, 1, 2, 1, 2, 1, 2}, 8, "was not flat after 8 probes"},
	} {
		done, p := drive(t, l, server{capacity: 1e6, costs: c.costs})
		probes := 0
		for _, d := range done {
			if d.Step.Kind == KindProbe {
				probes++
			}
		}
		if probes != c.probes || strings.Join(p.Notes, "") == "" != (c.note == "") || !strings.Contains(strings.Join(p.Notes, ""), c.note) {
			t.Errorf("%v: %d probes, notes %q; want %d, %q", c.costs, probes, p.Notes, c.probes, c.note)
		}
	}
}

// TestJITWarmup: a JVM is warm when its JIT share is flat too; who is one, the
// record of a probe tells.
func TestJITWarmup(t *testing.T) {
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1,
		"agent: 'h:1'\nladder: {rates: 100, warmup: {adaptive: {within: 5%, over: 3, max: 8, jit_within: 2%}}}")).Ladders[0]
	even := []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}
	for name, c := range map[string]struct {
		server
		probes   int
		profiled string // by probe
		note     string
	}{
		"no JVM":        {server{costs: even}, 3, "*--", ""},
		"warm JVM":      {server{costs: even, shares: []float64{0.01, 0.02, 0.01, 0, 0, 0, 0, 0}}, 3, "***", ""},
		"cold JVM":      {server{costs: even, shares: []float64{0.5, 0.3, 0.12, 0.03, 0.01, 0.01, 0, 0}}, 6, "******", ""},
		"even, then no": {server{costs: even, shares: []float64{0.4, 0.2, 0.4, 0.2, 0.4, 0.2, 0.4, 0.2}}, 8, "********", "after 8 probes the JIT still took 26.7 % of the arm's CPU, the mean of the last 3, want 10.0 %"},
		"backlog":       {server{costs: even, shares: []float64{0.4, 0.4, 0.4, 0.4, 0.1, 0.05, 0.05, 0.05}}, 8, "********", ""},
		"not flat":      {server{costs: even, shares: []float64{0, 0.05, 0, 0.05, 0, 0.05, 0, 0.06}}, 8, "********", "the JIT share was not flat after 8 probes: the last 3 lie up to 3.7 % of the arm's CPU off their mean of 3.7 %, want 2.0 %"},
		"late record":   {server{costs: even, shares: []float64{0, 0, 0.5, 0.01, 0.01, 0.01, 0, 0}, blind: 2}, 6, "******", ""},
		"void probe":    {server{costs: even, shares: make([]float64, 8), voidAt: 2}, 6, "******", ""},
		"no cost":       {server{costs: []float64{1, 2, 1, 2, 1, 2, 1, 2}, shares: make([]float64, 8)}, 8, "********", "cost per request was not flat after 8"},
	} {
		c.capacity = 1e6
		done, p := drive(t, l, c.server)
		marks := ""
		for _, d := range done {
			if d.Step.Kind == KindProbe {
				marks += map[bool]string{true: "*", false: "-"}[d.Step.Profile]
			}
		}
		if marks != c.profiled || len(marks) != c.probes || !strings.Contains(strings.Join(p.Notes, ""), c.note) || c.note == "" && len(p.Notes) > 0 {
			t.Errorf("%s: probes %s, notes %q; want %s, %q", name, marks, p.Notes, c.profiled, c.note)
		}
	}
	// Who wants no step profiled has no agent in a probe.
	l.Setting.Spec.Profile = Choice{}
	if p, err := l.Next(nil); err != nil || p.Next.Profile {
		t.Errorf("%+v, %v", p.Next, err)
	}
}

// TestForeignSteps: steps that are not this ladder's are refused, not driven on.
func TestForeignSteps(t *testing.T) {
	l := schedule(t, makePlan(t, 1, 0, 1, 1, OrderPlan, 1, "")).Ladders[0]
	done, _ := drive(t, l, server{capacity: 1e6})
	other := slices.Clone(done)
	other[1].Step.OfferedHz = 150
	if _, err := l.Next(other); err == nil || !strings.Contains(err.Error(), "01-150") {
		t.Errorf("another rate: %v", err)
	}
	if _, err := l.Next(append(done, done[0])); err == nil || !strings.Contains(err.Error(), "ends with step 2") {
		t.Errorf("one too many: %v", err)
	}
}

func TestRoundRate(t *testing.T) {
	for in, want := range map[float64]float64{123456: 123500, 1234.56: 1235, 12.3456: 12.35, 0.123456: 0.1235, 0: 0, 999.96: 1000} {
		if got := roundRate(in); got != want {
			t.Errorf("%g: %g, want %g", in, got, want)
		}
	}
}
