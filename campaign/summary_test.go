package campaign

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/rungprof/rung/ladder"
)

// results drives a plan's ladders against servers by arm; adjust may change what
// was measured.
func results(t *testing.T, p *Plan, servers map[string]server, adjust func(l Ladder, d *Done)) []Result {
	t.Helper()
	var out []Result
	for _, l := range schedule(t, p).Ladders {
		done, progress := drive(t, l, servers[l.ArmName])
		for i := range done {
			if adjust != nil {
				adjust(l, &done[i])
			}
		}
		out = append(out, Result{Ladder: l, Steps: done,
			State: &LadderState{Ladder: l.ID, Steps: len(done), Notes: progress.Notes, Search: progress.Search}})
	}
	return out
}

func setCost(d *Done, ms float64) { d.Row.CPUMsPerRequest = &ms }

// comparePlan has three arms, the first of them twice in each of two passes.
func comparePlan(t *testing.T) *Plan {
	return makePlan(t, 3, 1, 1, 2, OrderPlan, 1,
		"name: three arms\nagent: 'h:1'\nladder: {rates: [100, 200, 300, 400, 500], warmup: 2s, control_steps: top:1}")
}

func compareResults(t *testing.T, p *Plan) []Result {
	servers := map[string]server{"a0": {capacity: 350}, "a1": {capacity: 450}, "a2": {capacity: 1000, driver: 250}}
	r := results(t, p, servers, func(l Ladder, d *Done) {
		cost := map[string]float64{"a0": 0.100, "a1": 0.103, "a2": 0.150}[l.ArmName]
		if l.Twin {
			cost *= 1.02 + 0.02*float64(l.Repeat) // pairs differ by 4 % and 6 %
		}
		if d.Step.Profile {
			cost *= 1.05
		}
		setCost(d, cost)
	})
	r[0].Voids = 2
	r[1].Steps[5].Row.Flags = []ladder.Flag{{Kind: ladder.FlagVoid}}
	return r
}

func TestSummary(t *testing.T) {
	p := comparePlan(t)
	s := p.Summarise(compareResults(t, p))
	if len(s.Tables) != 1 || !s.Complete {
		t.Fatalf("%+v", s)
	}
	table := s.Tables[0]
	if table.MatchedHz == nil || *table.MatchedHz != 200 {
		t.Errorf("matched: %v %s", table.MatchedHz, table.NoMatch)
	}
	// 6 % in parts of the mean of 1 and 1.06.
	if want := 0.06 / 1.03; table.Noise == nil || math.Abs(*table.Noise-want) > 1e-9 || table.NoisePairs != 2 {
		t.Errorf("noise: %v of %d pairs, want %g", table.Noise, table.NoisePairs, want)
	}
	a0, a1, a2 := table.Rows[0], table.Rows[1], table.Rows[2]
	if a0.KneeHz == nil || *a0.KneeHz != 300 || a0.Repeats != 4 || a0.Redone != 2 || a0.Void != 0 {
		t.Errorf("a0: %+v", a0)
	}
	if a1.KneeHz == nil || *a1.KneeHz != 400 || a1.Void != 1 || !a1.WithinNoise {
		t.Errorf("a1: %+v", a1)
	}
	if a2.KneeHz != nil || !strings.Contains(a2.NoKnee, "the driver is the limit") || a2.ClientLimited != 6 || a2.WithinNoise {
		t.Errorf("a2: %+v", a2)
	}
	if a0.Overhead == nil || math.Abs(*a0.Overhead-0.05) > 1e-9 || a0.OverheadPairs != 4 {
		t.Errorf("overhead: %v of %d", a0.Overhead, a0.OverheadPairs)
	}
	var text, markdown bytes.Buffer
	if err := s.Text(&text); err != nil {
		t.Fatal(err)
	}
	checkWidth(t, text.String())
	golden(t, "testdata/summary.golden", text.Bytes())
	if err := s.Markdown(&markdown); err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/summary.md.golden", markdown.Bytes())
}

// TestSummaryOfParts: whatever is missing, the tables say what there is.
func TestSummaryOfParts(t *testing.T) {
	p := comparePlan(t)
	all := compareResults(t, p)
	for n := range len(all) {
		part := compareResults(t, p)
		for i := n; i < len(part); i++ {
			part[i].State = nil
			part[i].Steps = part[i].Steps[:min(len(part[i].Steps), i-n)]
		}
		s := p.Summarise(part)
		if s.Complete || s.Finished != n {
			t.Errorf("%d ladders: %d finished", n, s.Finished)
		}
		var b bytes.Buffer
		if err := s.Text(&b); err != nil {
			t.Fatal(err)
		}
		checkWidth(t, b.String())
		if strings.Contains(b.String(), "NaN") {
			t.Error(b.String())
		}
	}
}

// TestNoNoise: without A/A pairs no difference is called noise, however small.
func TestNoNoise(t *testing.T) {
	p := makePlan(t, 2, 0, 1, 2, OrderPlan, 1, "")
	s := p.Summarise(results(t, p, map[string]server{"a0": {capacity: 1e6}, "a1": {capacity: 1e6}}, nil))
	row := s.Tables[0].Rows[1]
	if s.Tables[0].Noise != nil || row.WithinNoise || row.Ratio == nil || *row.Ratio != 1 {
		t.Errorf("%+v", row)
	}
}

// TestControls: with controls at every rate the table has their cost beside that
// of the profiled steps, at the matched rate.
func TestControls(t *testing.T) {
	p := makePlan(t, 1, 0, 1, 2, OrderPlan, 1, "agent: 'h:1'\nladder: {rates: [100, 200, 300], control_steps: all}")
	s := p.Summarise(results(t, p, map[string]server{"a0": {capacity: 1e6}}, func(_ Ladder, d *Done) {
		if d.Step.Kind == KindControl {
			setCost(d, 0.08)
		}
	}))
	row := s.Tables[0].Rows[0]
	if row.ControlMs == nil || *row.ControlMs != 0.08 || row.OverheadPairs != 6 || math.Abs(*row.Overhead-0.25) > 1e-9 || row.KneeHz == nil {
		t.Errorf("%+v", row)
	}
	var b bytes.Buffer
	if err := s.Text(&b); err != nil || !strings.Contains(b.String(), "control ms/req") || !strings.Contains(b.String(), "0.0800   +25.0 %") {
		t.Errorf("%v\n%s", err, b.String())
	}
	checkWidth(t, b.String())
}

// TestFirstStep: a first step that costs more than the next one's cost allows is told.
func TestFirstStep(t *testing.T) {
	p := makePlan(t, 1, 0, 1, 2, OrderPlan, 1, "ladder: {rates: [200, 250, 300]}")
	r := results(t, p, map[string]server{"a0": {capacity: 1e6}}, func(l Ladder, d *Done) {
		if l.Repeat == 1 && d.Step.Index == 0 {
			setCost(d, 0.14)
		}
	})
	if row := p.Summarise(r).Tables[0].Rows[0]; row.FirstStep != 1 || !strings.Contains(row.FirstStepWhy, "0.14 ms of CPU per request, where the next step's 0.1 ms allow 0.125 ms") {
		t.Errorf("%+v", row)
	}
}

// TestSweepTables: one table for each point and protocol.
func TestSweepTables(t *testing.T) {
	p := makePlan(t, 2, 0, 3, 1, OrderPlan, 1, "")
	p.Arms[1].Load = []Setting{{"protocol", "rest-h2c"}}
	s := p.Summarise(results(t, p, map[string]server{"a0": {capacity: 1e6}, "a1": {capacity: 1e6}}, nil))
	if len(s.Tables) != 6 {
		t.Fatalf("%d tables", len(s.Tables))
	}
	for i, table := range s.Tables {
		protocol := []string{"rest-h1", "rest-h2c"}[i%2]
		if table.Protocol != protocol || len(table.Rows) != 1 || table.Sweep[0].Value != []string{"1", "2", "3"}[i/2] {
			t.Errorf("%d: %+v", i, table)
		}
	}
}

func TestReadState(t *testing.T) {
	v := Void{Step: "01-100", Reason: "x"}
	data, err := EncodeState(v)
	if err != nil {
		t.Fatal(err)
	}
	var back Void
	if err := ReadState(bytes.NewReader(data), &back); err != nil || back != v {
		t.Errorf("%+v, %v", back, err)
	}
	for text, want := range map[string]string{"": "empty", "{": "unexpected EOF", `{"speed":1}`: "unknown field", string(data) + "x": "something follows"} {
		if err := ReadState(strings.NewReader(text), &back); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
