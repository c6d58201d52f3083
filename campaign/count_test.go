package campaign

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// knowsSlots is a driver with 256 slots, or as many as the load says.
func knowsSlots() Known {
	k := known
	k.Slots = func(l Load) (int, error) {
		switch {
		case l.InFlight > 0 && l.InFlight < l.Connections:
			return 0, errors.New("in_flight: want one per connection")
		case l.InFlight > 0:
			return l.InFlight, nil
		case l.Protocol == "rest-h1":
			return l.Connections, nil
		}
		return 256, nil
	}
	return k
}

const countedPlan = `
arms: [{name: a, address: "127.0.0.1:1"}]
load: {protocol: rest-h1, connections: 8}
ladder: {rates: [100, 800], iterations_per_slot: 200, settle: 0s, warmup: 2s}
`

// TestCountedSteps: measured steps end after so many requests per slot, however
// long that takes at their rate; warm-ups keep their time.
func TestCountedSteps(t *testing.T) {
	p, err := Parse("plan.yaml", strings.NewReader(countedPlan), knowsSlots())
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.Schedule(knowsSlots())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		length   time.Duration
		requests int
	}{{2 * time.Second, 0}, {16 * time.Second, 1600}, {2 * time.Second, 1600}} {
		if got := s.Ladders[0].Steps[i]; got.Duration.Std() != want.length || got.Requests != want.requests {
			t.Errorf("step %d: %+v, want %+v", i, got, want)
		}
	}
	// A sweep over connections sweeps the slots, one over the count the steps.
	swept := strings.Replace(countedPlan, "ladder:", "sweep: {connections: [2, 4], iterations_per_slot: [50]}\nladder:", 1)
	if p, err = Parse("plan.yaml", strings.NewReader(swept), knowsSlots()); err != nil {
		t.Fatal(err)
	}
	if s, err = p.Schedule(knowsSlots()); err != nil {
		t.Fatal(err)
	}
	if a, b := s.Ladders[0].Steps[1], s.Ladders[1].Steps[1]; a.Requests != 100 || b.Requests != 200 || b.Duration.Std() != 2*time.Second {
		t.Errorf("swept: %+v and %+v", a, b)
	}
	for plan, want := range map[string]string{
		strings.Replace(countedPlan, "settle:", "step: 5s, settle:", 1):                                      "plan.yaml:4:55: ladder has step and iterations_per_slot",
		strings.Replace(countedPlan, "200", "0", 1):                                                          `ladder.iterations_per_slot: "0": want a whole number from 1 to 1000000`,
		strings.Replace(countedPlan, "200", "1000000", 1):                                                    "at 8/s a step of 8000000 requests takes longer than 24h",
		strings.Replace(countedPlan, "settle: 0s", "settle: 1s", 1):                                          "",
		strings.Replace(countedPlan, "settle: 0s", "settle: 1999ms", 1):                                      "at 800/s a step of 1600 requests, 200 for each of 8 slots, has fewer than two after settle 1.999s",
		strings.Replace(countedPlan, "connections: 8", "connections: 8, in_flight: 4", 1):                    "in_flight: want one per connection",
		strings.Replace(countedPlan, "ladder:", "sweep: {step: [3s], iterations_per_slot: [5]}\nladder:", 1): "sweep has step and iterations_per_slot",
	} {
		plan = strings.Replace(plan, "[100, 800], iterations_per_slot: 1000000", "[8], iterations_per_slot: 1000000", 1)
		_, err := Parse("plan.yaml", strings.NewReader(plan), knowsSlots())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	if _, err := Parse("plan.yaml", strings.NewReader(countedPlan), known); err == nil {
		t.Error("a count of slots that nobody knows")
	}
}
