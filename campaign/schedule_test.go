package campaign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func checkWidth(t *testing.T, text string) {
	t.Helper()
	for _, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// makePlan is a plan of n arms of which the first aa run twice, over points.
func makePlan(t testing.TB, arms, aa, points, repeats int, order Order, seed uint64, more string) *Plan {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "repeats: %d\norder: %s\nseed: %d\nload: {protocol: rest-h1}\narms:\n", repeats, order, seed)
	for i := range arms {
		fmt.Fprintf(&b, "  - {name: a%d, address: '127.0.0.1:%d'}\n", i, 1+i)
	}
	if aa > 0 {
		b.WriteString("aa: [")
		for i := range aa {
			fmt.Fprintf(&b, "a%d, ", i)
		}
		b.WriteString("]\n")
	}
	if points > 1 {
		b.WriteString("sweep: {connections: [")
		for i := range points {
			fmt.Fprintf(&b, "%d, ", i+1)
		}
		b.WriteString("]}\n")
	}
	if more == "" {
		more = "ladder: {rates: [100, 200], warmup: 2s}\n"
	}
	b.WriteString(more)
	p, err := Parse("plan.yaml", strings.NewReader(b.String()), known)
	if err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	return p
}

func schedule(t testing.TB, p *Plan) Schedule {
	t.Helper()
	s, err := p.Schedule(known)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestABBA: in any plan each unit runs once a pass, and over an even number of
// passes all units stand at the same mean position.
func TestABBA(t *testing.T) {
	for arms := 1; arms <= 4; arms++ {
		for aa := 0; aa <= min(arms, 2); aa++ {
			for points := 1; points <= 3; points++ {
				for _, repeats := range []int{1, 2, 3, 4} {
					for _, order := range []Order{OrderPlan, OrderShuffled} {
						p := makePlan(t, arms, aa, points, repeats, order, uint64(arms*7+repeats), "")
						checkBalance(t, p, schedule(t, p), (arms+aa)*points)
					}
				}
			}
		}
	}
}

func checkBalance(t *testing.T, p *Plan, s Schedule, units int) {
	t.Helper()
	if len(s.Ladders) != units*p.Repeats {
		t.Fatalf("%d ladders, want %d", len(s.Ladders), units*p.Repeats)
	}
	sums, counts, ids := map[string]int{}, map[string]int{}, map[string]bool{}
	for i, l := range s.Ladders {
		unit := fmt.Sprintf("%s %v %d", l.ArmName, l.Twin, l.Point)
		sums[unit] += l.Ordinal
		counts[unit]++
		if l.Ordinal != i+1 || l.Repeat != i/units+1 || ids[l.ID] {
			t.Fatalf("ladder %d: %+v", i, l)
		}
		ids[l.ID] = true
	}
	want := 0
	for unit, n := range counts {
		if n != p.Repeats {
			t.Errorf("%s runs %d times in %d repeats", unit, n, p.Repeats)
		}
		if want == 0 {
			want = sums[unit]
		}
		if p.Repeats%2 == 0 && sums[unit] != want {
			t.Errorf("%s stands at %d, another at %d: %v", unit, sums[unit], want, sums)
		}
	}
}

func TestScheduleIsAFunctionOfPlanAndSeed(t *testing.T) {
	make := func(seed uint64) []byte {
		data, err := json.Marshal(schedule(t, makePlan(t, 4, 1, 2, 4, OrderShuffled, seed, "")))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if !bytes.Equal(make(3), make(3)) {
		t.Error("one seed, two schedules")
	}
	if bytes.Equal(make(3), make(4)) {
		t.Error("two seeds, one schedule")
	}
}

// TestSeeds: arms and twins of one repeat get the same arrivals, repeats others.
func TestSeeds(t *testing.T) {
	s := schedule(t, makePlan(t, 2, 1, 1, 2, OrderPlan, 1, ""))
	byRepeat := map[int][]uint64{}
	for _, l := range s.Ladders {
		for _, step := range l.Steps {
			if step.OfferedHz == 100 && step.Kind == KindMeasured {
				byRepeat[l.Repeat] = append(byRepeat[l.Repeat], step.Seed)
			}
		}
	}
	for repeat, seeds := range byRepeat {
		if slices.Min(seeds) != slices.Max(seeds) || seeds[0] == 0 {
			t.Errorf("repeat %d: %v", repeat, seeds)
		}
	}
	if byRepeat[1][0] == byRepeat[2][0] {
		t.Error("both repeats have the same arrivals")
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct{ ladder, first, second string }{
		{"ladder: {rates: [100, 200, 150], warmup: 2s}", "warm 100 100 200 150", "warm 100 100 200 150"},
		{"ladder: {rates: [100:600:100, 650]}", "100:600:100 650", "100:600:100 650"},
		{"ladder: {rates: [100, 200, 210], rewarm: {jump: 1.5, for: 1s}}", "100 re-warm 200 210", "100 re-warm 200 210"},
		{"agent: 'h:1'\nladder: {rates: [100, 200, 300], profile_steps: top:2, control_steps: top:1}", "100 200* 300* 300(off)", "100 200* 300(off) 300*"},
		{"agent: 'h:1'\nladder: {rates: [100], warmup: {adaptive: {max: 4}}}", "probe 100* ×4 100*", "probe 100* ×4 100*"},
		{"agent: 'h:1'\nladder: {knee: {start: 100, max_steps: 5}, warmup: 1s, profile_steps: top:2, control_steps: all}",
			"warm 100 ? ×5 ?* ×2 ?(off) ×2", "warm 100 ? ×5 ?* ×2 ?(off) ×2"},
	} {
		s := schedule(t, makePlan(t, 1, 0, 1, 2, OrderPlan, 1, c.ladder))
		for i, want := range []string{c.first, c.second} {
			if got := stepsText(s.Ladders[i].Steps); got != want {
				t.Errorf("%s, repeat %d: %s, want %s", c.ladder, i+1, got, want)
			}
		}
	}
}

func TestDryRun(t *testing.T) {
	p := makePlan(t, 2, 1, 2, 2, OrderPlan, 1, "name: small\nladder: {rates: 100:3000:100, warmup: 30s}\n")
	s := schedule(t, p)
	var b bytes.Buffer
	if err := s.Print(&b, p); err != nil {
		t.Fatal(err)
	}
	checkWidth(t, b.String())
	golden(t, "testdata/dry-run.golden", b.Bytes())
	var sum Duration
	for _, l := range s.Ladders {
		sum += l.Length
	}
	if sum != s.Length {
		t.Errorf("total %s, sum %s", s.Length, sum)
	}
}
