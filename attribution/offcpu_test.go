package attribution

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// offCPUProfile makes a pprof of samples as the agent writes them.
type offCPUProfile struct {
	profile.Profile
	locations map[Frame]*profile.Location
	mappings  map[string]*profile.Mapping
}

func newOffCPUProfile() *offCPUProfile {
	return &offCPUProfile{
		Profile: profile.Profile{
			SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"},
				{Type: StateRunQueue, Unit: "nanoseconds"}, {Type: StateThrottled, Unit: "nanoseconds"}, {Type: StateBlocked, Unit: "nanoseconds"}},
			DurationNanos: 1000,
		},
		locations: map[Frame]*profile.Location{}, mappings: map[string]*profile.Mapping{},
	}
}

// frame reads "name" of the target's file, "[kernel.entry]name" and the like.
func (p *offCPUProfile) frame(text string) *profile.Location {
	f := Frame{text, "/app"}
	if cut := strings.Index(text, "]") + 1; strings.HasPrefix(text, "[k") || strings.HasPrefix(text, "[rung]") {
		f = Frame{text[cut:], text[:cut]}
	}
	if l := p.locations[f]; l != nil {
		return l
	}
	m := p.mappings[f.Mapping]
	if m == nil {
		m = &profile.Mapping{ID: uint64(len(p.Mapping) + 1), File: f.Mapping}
		p.mappings[f.Mapping] = m
		p.Mapping = append(p.Mapping, m)
	}
	fn := &profile.Function{ID: uint64(len(p.Function) + 1), Name: f.Function}
	l := &profile.Location{ID: fn.ID, Mapping: m, Line: []profile.Line{{Function: fn}}}
	p.Function, p.Location = append(p.Function, fn), append(p.Location, l)
	p.locations[f] = l
	return l
}

func (p *offCPUProfile) add(tid int64, group, state, reason, stack string, ns, draws, spread, largest int64) {
	s := &profile.Sample{
		Value:    make([]int64, 5),
		Label:    map[string][]string{"state": {state}, "thread_group": {group}, "thread": {group}},
		NumLabel: map[string][]int64{"tid": {tid}, "draws": {draws}, "spread_ns": {spread}, "largest_ns": {largest}},
	}
	if reason != "" {
		s.Label["reason"] = []string{reason}
	}
	s.Value[2+slices.Index(OffCPUStates, state)] = ns
	for _, f := range strings.Split(stack, ";") {
		s.Location = append(s.Location, p.frame(f))
	}
	p.Sample = append(p.Sample, s)
}

func (p *offCPUProfile) read(t *testing.T) *OffCPU {
	t.Helper()
	o, err := OffCPUFromPprof(&p.Profile)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	futexAt  = "[kernel.kallsyms]__schedule;[kernel.entry]syscall:futex;runtime.futex;"
	encodeAt = futexAt + "encoding/json.Marshal;main.main"
	serveAt  = futexAt + "net/http.(*conn).serve;main.main"
)

func layered(t *testing.T, o *OffCPU, state, layer string) OffCPURow {
	t.Helper()
	for _, l := range o.Layers(mustPreset(t, "go")) {
		for _, row := range append(l.Rows, l.Unattributed...) {
			if l.State == state && row.Layer == layer {
				return row
			}
		}
	}
	t.Fatalf("no layer %s in %s", layer, state)
	return OffCPURow{}
}

func TestOffCPULayers(t *testing.T) {
	p := newOffCPUProfile()
	p.add(1, "worker-*", StateBlocked, "futex", encodeAt, 600, 70, 60, 20)
	p.add(1, "worker-*", StateBlocked, "futex", serveAt, 400, 30, 40, 30)
	p.add(2, "worker-*", StateBlocked, "futex", encodeAt, 500, 5, 0, 400) // drawn in full
	p.add(3, "rung", StateBlocked, "futex", serveAt, 900, 3, 0, 900)      // idle by the rules
	p.add(4, "worker-*", StateBlocked, "read", "[rung][lost stack]", 50, 0, 0, 0)
	p.add(1, "worker-*", StateRunQueue, "", "[kernel.kallsyms]__schedule;[kernel.entry]interrupt;encoding/json.Marshal;main.main", 7, 2, 0, 4)
	p.Sample = append(p.Sample, &profile.Sample{Value: []int64{5, 50, 0, 0, 0}, Location: []*profile.Location{p.frame("main.main")}, NumLabel: map[string][]int64{"block": {3}}})
	o := p.read(t)
	for _, l := range o.Layers(mustPreset(t, "go")) {
		sum := l.Idle.Ns
		for _, row := range append(slices.Clone(l.Rows), l.Unattributed...) {
			sum += row.Ns
		}
		if want := map[string]int64{StateBlocked: 2450, StateRunQueue: 7, StateThrottled: 0}[l.State]; sum != l.TotalNs || sum != want {
			t.Errorf("%s: rows add up to %d of %d, want %d", l.State, sum, l.TotalNs, want)
		}
	}
	codec := layered(t, o, StateBlocked, "codec")
	sd := math.Sqrt(0.4*0.4*60*60+0.6*0.6*40*40) / 1000
	if codec.Ns != 1100 || codec.Draws != 75 || codec.MeanThreads != 1.1 || codec.StderrThreads == nil || math.Abs(*codec.StderrThreads-sd) > 1e-12 || codec.TooFew != "" {
		t.Errorf("codec %+v, want 1100 ns ± %f threads", codec.Estimated, sd)
	}
	if share := codec.Share; share.Value != 1100.0/1550 || share.Interval == nil || share.Interval.HalfWidth() < 1.96*sd*1000/1550 || share.Interval.HalfWidth() > 2.2*sd*1000/1550 {
		t.Errorf("share %+v, want about two standard errors of %f", share, sd*1000/1550)
	}
	if row := layered(t, o, StateBlocked, "transport"); row.Ns != 400 || math.Abs(*row.StderrThreads-sd) > 1e-12 {
		t.Errorf("transport %+v: two parts of one whole have one error", row.Estimated)
	}
	if row := layered(t, o, StateBlocked, NoteLost); row.Ns != 50 || row.Draws != 0 || *row.StderrThreads != 0 {
		t.Errorf("lost %+v", row.Estimated)
	}
	if row := layered(t, o, StateBlocked, "runtime"); row.Ns != 0 || row.TooFew == "" {
		t.Errorf("a layer without a draw among estimated ones: %+v", row.Estimated)
	}
	// Preempted by an interrupt: the thread waits for the CPU on its own behalf.
	if row := layered(t, o, StateRunQueue, "codec"); row.Ns != 7 || row.TooFew != "" || *row.StderrThreads != 0 {
		t.Errorf("run queue %+v", row.Estimated)
	}
	if left := o.WithoutIdle(mustPreset(t, "go")); len(left.Stacks) != len(o.Stacks)-1 {
		t.Errorf("%d of %d stacks are not idle", len(left.Stacks), len(o.Stacks))
	}
}

// Many even draws have the plain interval; few, or one that outweighs the rest, a
// wider one, which stays within 0 and 1 and reaches further up from a small share.
func TestDrawnInterval(t *testing.T) {
	lo, hi := drawnInterval(0.4, 0.001, 1e5)
	if math.Abs(lo-(0.4-0.00196)) > 2e-5 || math.Abs(hi-(0.4+0.00196)) > 2e-5 {
		t.Errorf("many draws: %f to %f", lo, hi)
	}
	evenLo, evenHi := drawnInterval(0.4, 0.03, 1e5)
	lo, hi = drawnInterval(0.4, 0.03, 2)
	if lo >= evenLo || hi <= evenHi || hi-lo < 2*2.3*0.03*0.95 {
		t.Errorf("one heavy draw: %f to %f; even ones: %f to %f", lo, hi, evenLo, evenHi)
	}
	lo, hi = drawnInterval(0.03, 0.02, 10)
	if lo <= 0 || hi >= 1 || hi-0.03 < 2*(0.03-lo) {
		t.Errorf("a small share: %f to %f", lo, hi)
	}
}

func TestTopStacks(t *testing.T) {
	p := newOffCPUProfile()
	p.add(1, "worker-*", StateBlocked, "futex", encodeAt, 600, 70, 60, 20)
	p.add(1, "worker-*", StateBlocked, "futex", serveAt, 380, 29, 40, 30)
	p.add(1, "worker-*", StateBlocked, "futex", "main.big", 20, 40, 15, 15)
	p.add(2, "loop-*", StateBlocked, "futex", encodeAt, 100, 5, 0, 40)
	p.add(2, "loop-*", StateBlocked, "read", encodeAt, 90, 5, 0, 40)
	p.add(3, "loop-*", StateBlocked, "write", "main.once", 10, 900, 9, 8)
	p.add(3, "loop-*", StateBlocked, "write", "main.twice", 6, 900, 9, 0)
	p.add(9, "loop-*", StateRunQueue, "", "main.other", 1e6, 5, 0, 1)
	top := TopStacks(p.read(t), StateBlocked, 0)
	if len(top) != 6 {
		t.Fatalf("%d stacks", len(top))
	}
	first := top[0]
	if first.Ns != 700 || !slices.Equal(first.ThreadGroups, []string{"loop-*", "worker-*"}) || first.Reason != "futex" ||
		first.TooFew != "" || first.Share.Value != 700.0/1206 || first.Share.Interval == nil {
		t.Errorf("first %+v", first)
	}
	for i, want := range map[int]string{1: "29 intervals drawn, want 30", 2: "", 4: "one drawn interval is 50 % of the time, want 10 at most", 3: "one drawn interval is 75 % of its stack's time, want 20 at most"} {
		if top[i].TooFew != want || (top[i].Share.Interval == nil) != (want != "") || (top[i].StderrThreads == nil) != (want != "") {
			t.Errorf("stack %d: %+v, want %q", i, top[i], want)
		}
	}
	if two := TopStacks(p.read(t), StateBlocked, 2); len(two) != 2 || two[1].Ns != 380 {
		t.Errorf("%+v", two)
	}
	if none := TopStacks(p.read(t), StateThrottled, 5); len(none) != 0 {
		t.Errorf("%+v", none)
	}
	x, _ := json.Marshal(top)
	y, _ := json.Marshal(TopStacks(p.read(t), StateBlocked, 0))
	if string(x) != string(y) {
		t.Error("same input, other bytes")
	}
}

// TestIntervalsCover draws as the kernel does, from strata whose truth is known,
// and counts how often the 95 % intervals hold it.
func TestIntervalsCover(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 3))
	const trials, threads = 2000, 3
	covered, given := 0, 0
	for range trials {
		p := newOffCPUProfile()
		var truth, all float64
		for tid := range int64(threads) {
			var weight, squares [2]float64
			var draws, largest [2]int64
			var exact float64
			for i := range 1500 {
				stack := 0
				if rng.Float64() < 0.3 {
					stack = 1
				}
				ns := 1e6 * rng.ExpFloat64() * float64(1+stack)
				exact += ns
				if stack == 0 {
					truth += ns
				}
				halvings := min(4, i/200)
				if chance := math.Pow(0.5, float64(halvings)); rng.Float64() < chance {
					w := ns / chance
					weight[stack] += w
					squares[stack] += (1 - chance) * w * w
					draws[stack]++
					largest[stack] = max(largest[stack], int64(w))
				}
			}
			all += exact
			scale := exact / (weight[0] + weight[1])
			for s, name := range []string{"main.a", "main.b"} {
				p.add(tid+1, "w", StateBlocked, "futex", name, int64(weight[s]*scale), draws[s], int64(math.Sqrt(squares[s])*scale), int64(float64(largest[s])*scale))
			}
		}
		for _, top := range TopStacks(p.read(t), StateBlocked, 0) {
			if top.Frames[0].Function == "main.a" && top.TooFew == "" {
				given++
				if i := top.Share.Interval; i.Lo <= truth/all && truth/all <= i.Hi {
					covered++
				}
			}
		}
	}
	if share := float64(covered) / float64(given); given < trials*9/10 || share < 0.93 || share > 0.97 {
		t.Errorf("%d of %d intervals hold the truth (%.3f), want 0.95", covered, given, share)
	} else {
		t.Logf("%d of %d intervals hold the truth (%.3f)", covered, given, share)
	}
}

func TestOffCPURefuses(t *testing.T) {
	for want, change := range map[string]func(*offCPUProfile){
		"has no duration":       func(p *offCPUProfile) { p.DurationNanos = 0 },
		"none of the sample":    func(p *offCPUProfile) { p.SampleType = p.SampleType[:2]; p.Sample = nil },
		"is malformed":          func(p *offCPUProfile) { p.Sample[0].Value = nil },
		"negative or overflows": func(p *offCPUProfile) { p.Sample[0].Value[4] = -1 },
		"blocked time is":       func(p *offCPUProfile) { p.add(1, "", StateBlocked, "", "a", math.MaxInt64, 1, 0, 0) },
		"":                      func(p *offCPUProfile) {},
	} {
		p := newOffCPUProfile()
		p.add(1, "", StateBlocked, "futex", "a", 5, 1, 0, 5)
		change(p)
		if _, err := OffCPUFromPprof(&p.Profile); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	p := newOffCPUProfile()
	p.add(1, "", StateBlocked, "futex", "a", 5, 1, 0, 5)
	delete(p.Sample[0].NumLabel, "draws")
	if o := p.read(t); len(o.Warnings) != 1 || o.Stacks[0].Draws != 0 {
		t.Errorf("%+v", o)
	}
}

func FuzzOffCPU(f *testing.F) {
	p := newOffCPUProfile()
	p.add(1, "worker-*", StateBlocked, "futex", encodeAt, 600, 70, 60, 20)
	p.add(1, "worker-*", StateRunQueue, "", serveAt, 400, 30, 40, 30)
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	rules := mustPreset(f, "go")
	f.Fuzz(func(t *testing.T, data []byte) {
		raw, err := profile.ParseData(data)
		if err != nil {
			return
		}
		o, err := OffCPUFromPprof(raw)
		if (err == nil) == (o == nil) {
			t.Fatalf("off-CPU %v, error %v", o, err)
		}
		if err != nil {
			return
		}
		for _, l := range o.Layers(rules) {
			sum := l.Idle.Ns
			for _, row := range append(slices.Clone(l.Rows), l.Unattributed...) {
				sum += row.Ns
				if v := row.Share.Value; math.IsNaN(v) || row.Share.Interval != nil && math.IsNaN(row.Share.Interval.Lo) {
					t.Fatalf("%s: %+v", l.State, row)
				}
			}
			if sum != l.TotalNs {
				t.Fatalf("%s: rows add up to %d of %d", l.State, sum, l.TotalNs)
			}
			TopStacks(o, l.State, 3)
		}
	})
}
