//go:build linux

package main

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMatchedRate(t *testing.T) {
	for _, c := range []struct {
		capacities []float64
		want       float64
	}{
		{[]float64{4820, 9100, 3011.7, 21000}, 1000},
		{[]float64{1000}, 350},
		{[]float64{16.7}, 5.8},
		{[]float64{2.1, 300}, 0.73},
		{[]float64{0.9}, 0.31},
		{[]float64{1e6}, 350000},
	} {
		got := matchedRate(c.capacities)
		if got != c.want {
			t.Errorf("%v: %v, want %v", c.capacities, got, c.want)
		}
		if lowest := slices.Min(c.capacities); got > matchedFraction*lowest {
			t.Errorf("%v: %v is above %v of the lowest", c.capacities, got, matchedFraction)
		}
	}
}

func TestStepRates(t *testing.T) {
	for _, c := range []struct {
		name              string
		capacity, matched float64
		fractions         []float64
		atLeast           int
		want              []float64
	}{
		{"lowest arm", 3000, 1000, defaultFractions, 4, []float64{1000, 1500, 2400, 4200}},
		{"fast arm", 21000, 1000, defaultFractions, 4, []float64{1000, 10000, 16000, 29000}},
		{"matched on 0.5: filled up", 3000, 1500, defaultFractions, 4, []float64{1500, 2400, 3000, 4200}},
		{"matched within 10 % of a fraction", 3400, 1800, []float64{0.5}, 1, []float64{1800}},
		{"no matched rate", 500, 0, shortFractions, 1, []float64{300, 700}},
		{"the user's ladder is not filled", 3600, 1800, []float64{0.9}, 1, []float64{1800, 3200}},
		{"twice the same", 1000, 0, []float64{0.5, 0.5, 0.52}, 1, []float64{500}},
		{"unsorted", 1000, 0, []float64{1.2, 0.3}, 1, []float64{300, 1200}},
		{"no capacity", 0, 0, defaultFractions, 4, nil},
	} {
		got := stepRates(c.capacity, c.matched, c.fractions, c.atLeast)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestLadderByOptions(t *testing.T) {
	codec, loop := demoArms[0], demoArms[4]
	for _, c := range []struct {
		name    string
		change  func(*demoOptions)
		arm     demoArm
		matched float64
		want    []float64
	}{
		{"default", nil, codec, 350, []float64{350, 500, 800, 1400}},
		{"default of loop", nil, loop, 350, []float64{600, 1400}},
		{"fractions", func(o *demoOptions) { o.Fractions = []float64{1.5} }, codec, 350, []float64{350, 1500}},
		{"fractions of loop", func(o *demoOptions) { o.Fractions = []float64{1.5} }, loop, 350, []float64{1500}},
		{"rates", func(o *demoOptions) { o.RatesHz = []float64{1234, 777} }, codec, 777, []float64{777, 1234}},
		{"rates of loop", func(o *demoOptions) { o.RatesHz = []float64{1234, 777} }, loop, 777, []float64{777, 1234}},
	} {
		o := defaultDemoOptions()
		if c.change != nil {
			c.change(&o)
		}
		if got := o.matchedRate([]float64{1000, 3000}); got != c.matched {
			t.Errorf("%s: matched %v, want %v", c.name, got, c.matched)
		}
		if got := o.ladder(c.arm, 1000, c.matched); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Whatever the capacities, every compared arm has four steps or more, rising
// past its capacity, the matched rate among them and below all capacities.
func TestStepRatesOfAnyCapacity(t *testing.T) {
	for low := 1.0; low < 1e6; low *= 1.37 {
		for high := low; high < 100*low; high *= 1.21 {
			matched := matchedRate([]float64{low, high})
			for _, capacity := range []float64{low, high} {
				rates := stepRates(capacity, matched, defaultFractions, minDefaultSteps)
				if len(rates) < minDefaultSteps || !slices.IsSorted(rates) || !slices.Contains(rates, matched) ||
					rates[len(rates)-1] < 1.25*capacity || matched >= low {
					t.Fatalf("capacities %g and %g: matched %g, ladder of %g is %v", low, high, matched, capacity, rates)
				}
				for i := 1; i < len(rates); i++ {
					if rates[i] < stepSpacing*rates[i-1] {
						t.Fatalf("capacity %g: steps %g and %g are nearer than 10 %%", capacity, rates[i-1], rates[i])
					}
				}
			}
		}
	}
}

func TestRoundDown(t *testing.T) {
	for in, want := range map[float64]float64{
		1234: 1200, 1200: 1200, 99.9: 99, 0.123: 0.12, 7: 7, 7.77: 7.7, 0: 0, -3: 0,
		29: 29, 0.29: 0.29, 290: 290, 2.9e7: 2.9e7, math.NaN(): 0,
	} {
		if got := roundDown(in); got != want {
			t.Errorf("%v: %v, want %v", in, got, want)
		}
	}
}

func TestClientShape(t *testing.T) {
	for _, c := range []struct {
		protocol                          string
		asked, cap, connections, atFlight int
	}{
		{"rest-h1", 0, 64, 64, 64},
		{"rest-h1", 8, 64, 8, 8},
		{"rest-h1", 64, 8, 64, 8},
		{"rest-h2c", 0, 64, 2, 64},
		{"grpc-unary", 0, 1, 1, 1},
		{"grpc-stream", 5, 64, 5, 64},
	} {
		connections, inFlight := clientShape(c.protocol, c.asked, c.cap)
		if connections != c.connections || inFlight != c.atFlight {
			t.Errorf("%+v: %d connections, %d in flight", c, connections, inFlight)
		}
	}
}

func TestDemoOptions(t *testing.T) {
	if err := defaultDemoOptions().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
	if w := defaultDemoOptions().warnings(); len(w) != 0 {
		t.Errorf("defaults warn: %v", w)
	}
	for _, c := range []struct {
		change func(*demoOptions)
		want   string // parts of the error
	}{
		{func(o *demoOptions) { o.Arms = nil }, "--arms names no arm; choose from rest-h1"},
		{func(o *demoOptions) { o.Arms = []string{"rest"} }, `unknown arm "rest"; the arms are rest-h1, `},
		{func(o *demoOptions) { o.Arms = []string{"loop", "loop"} }, "loop twice"},
		{func(o *demoOptions) { o.Fractions = []float64{0.5, 0} }, "--steps: 0 is not"},
		{func(o *demoOptions) { o.Fractions = []float64{math.NaN()} }, "--steps: NaN"},
		{func(o *demoOptions) { o.Fractions = make([]float64, 51) }, "--steps"},
		{func(o *demoOptions) { o.RatesHz = []float64{0} }, "--rates: 0 is outside"},
		{func(o *demoOptions) { o.RatesHz, o.Fractions = []float64{9}, []float64{1} }, "exclude each other"},
		{func(o *demoOptions) { o.Duration = time.Millisecond }, "--duration 1ms is outside"},
		{func(o *demoOptions) { o.Settle = o.Duration }, "--settle 5s must be"},
		{func(o *demoOptions) { o.Warmup = 400 * time.Millisecond }, "--settle 500ms must be"},
		{func(o *demoOptions) { o.Body = "huge" }, `--body "huge": the tiers are tiny and realistic`},
		{func(o *demoOptions) { o.QuotaCPUs = -1 }, "--quota -1"},
		{func(o *demoOptions) { o.QuotaCPUs = math.NaN() }, "--quota NaN"},
		{func(o *demoOptions) { o.RateHz = 10000 }, "--rate 10000 is outside 1 to 9999"},
		{func(o *demoOptions) { o.OnVoid = "panic" }, `--on-void "panic": give continue or stop`},
		{func(o *demoOptions) { o.MaxInFlight = 0 }, "--max-in-flight 0"},
		{func(o *demoOptions) { o.CodecPasses = -1 }, "--codec-passes -1"},
		{func(o *demoOptions) { o.Connections = 65536 }, "--arms rest-h1: --connections 65536: want 1 to 10000"},
		{func(o *demoOptions) { o.MaxInFlight = 20000 }, "--arms rest-h1: --connections 20000: want 1 to 10000"},
		{func(o *demoOptions) { o.Arms, o.Connections = []string{"grpc-stream"}, 65536; o.MaxInFlight = 65536 }, "--connections 65536: want"},
		{func(o *demoOptions) { o.RatesHz = []float64{0.1} }, "--duration 5s: want long enough"},
		{func(o *demoOptions) { o.Groups = []string{"x"} }, "write NAME=REGEXP"},
	} {
		o := defaultDemoOptions()
		c.change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	o := defaultDemoOptions()
	o.Duration = 3 * time.Second
	if w := o.warnings(); len(w) != 1 || !strings.Contains(w[0], "too few") {
		t.Errorf("short windows: %v", w)
	}
}
