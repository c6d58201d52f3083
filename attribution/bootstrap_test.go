package attribution

import (
	"math"
	"math/rand/v2"
	"testing"
)

// burst is a service whose layer "codec" comes in bursts: a block is in a burst
// with probability p and then spends the share in of its samples there, else the
// share out. Blocks differ in how many samples they hold.
type burst struct {
	p, in, out float64
	perBlock   float64 // mean samples per block
	spread     float64 // relative spread of samples per block, 0..1
	heavier    float64 // factor on a burst block's samples
}

// share is the true share: the ratio of the expectations.
func (b burst) share() float64 {
	return (b.p*b.in*b.heavier + (1-b.p)*b.out) / (b.p*b.heavier + 1 - b.p)
}

func (b burst) profile(rng *rand.Rand, blocks int) *Profile {
	p := &Profile{Type: "cpu", Unit: "nanoseconds", PeriodNs: 1}
	codec := []Frame{{"encoding/json.Marshal", "/srv/arm"}}
	app := []Frame{{"main.main", "/srv/arm"}}
	for block := range blocks {
		mean, share := b.perBlock*(1+b.spread*(2*rng.Float64()-1)), b.out
		if rng.Float64() < b.p {
			mean, share = mean*b.heavier, b.in
		}
		n := int64(math.Round(mean))
		k := binomial(rng, n, share)
		p.Stacks = append(p.Stacks,
			Stack{Frames: codec, Block: block, Count: k, Value: k},
			Stack{Frames: app, Block: block, Count: n - k, Value: n - k})
	}
	return p
}

func binomial(rng *rand.Rand, n int64, p float64) (k int64) {
	for range n {
		if rng.Float64() < p {
			k++
		}
	}
	return k
}

func TestBootstrapCoverage(t *testing.T) {
	rules := mustPreset(t, "go")
	const trials, blocks = 300, 64
	for name, b := range map[string]burst{
		"steady":         {p: 0, out: 0.2, perBlock: 40, heavier: 1},
		"bursts":         {p: 0.3, in: 0.6, out: 0.1, perBlock: 40, spread: 0.5, heavier: 1},
		"heavy bursts":   {p: 0.2, in: 0.7, out: 0.05, perBlock: 30, spread: 0.5, heavier: 2},
		"rare bursts":    {p: 0.1, in: 0.5, out: 0.02, perBlock: 40, spread: 0.3, heavier: 1},
		"small and rare": {p: 0.15, in: 0.2, out: 0.005, perBlock: 15, spread: 0.3, heavier: 1},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 7))
			truth := b.share()
			covered, binomialCovered := 0, 0
			for range trials {
				table, err := Attribute(b.profile(rng, blocks), rules, Options{Blocks: blocks, Resamples: 500, TopFunctions: -1})
				if err != nil {
					t.Fatal(err)
				}
				row := rowOf(t, table, "codec")
				if iv := row.Share.Interval; iv.Lo <= truth && truth <= iv.Hi {
					covered++
				}
				if iv := wilson(row.Share.Value, table.Samples); iv.Lo <= truth && truth <= iv.Hi {
					binomialCovered++
				}
			}
			if c := float64(covered) / trials; c < 0.90 || c > 0.98 {
				t.Errorf("nominal 95 %% interval covers the true share in %.1f %% of trials, want 90 to 98", 100*c)
			}
			// The reason for blocks: independent samples would be a fiction.
			if c := float64(binomialCovered) / trials; b.p > 0 && c > 0.8 {
				t.Errorf("binomial interval covers %.1f %%: the workload has no bursts", 100*c)
			}
		})
	}
}

func TestBootstrapIsDeterministic(t *testing.T) {
	p := burst{p: 0.3, in: 0.6, out: 0.1, perBlock: 40, heavier: 1}.profile(rand.New(rand.NewPCG(1, 2)), 64)
	interval := func(seed uint64) Interval {
		table, err := Attribute(p, mustPreset(t, "go"), Options{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return *rowOf(t, table, "codec").Share.Interval
	}
	if a, b := interval(0), interval(1); a != b {
		t.Errorf("default seed gives %v, then %v", a, b)
	}
	if a, b := interval(1), interval(2); a == b {
		t.Errorf("seeds 1 and 2 both give %v", a)
	}
}

func TestTooFew(t *testing.T) {
	frames := []Frame{{"encoding/json.Marshal", "/srv/arm"}}
	block := func(blocks ...int) *Profile {
		p := &Profile{Unit: "nanoseconds"}
		for _, b := range blocks {
			p.Stacks = append(p.Stacks, Stack{Frames: frames, Block: b, Count: 20, Value: 20})
		}
		return p
	}
	for name, c := range map[string]struct {
		profile  *Profile
		blocks   int
		want     string
		interval bool
	}{
		"no labels":    {block(NoBlock), 0, "samples carry no block label", false},
		"some labels":  {block(1, NoBlock), 0, "samples carry no block label", false},
		"nothing":      {&Profile{}, 64, "no samples", false},
		"one block":    {block(0), 0, "one block", false},
		"three blocks": {block(0, 2), 0, "3 blocks, want 40", true},
		"empty blocks": {block(0, 2), 64, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			table, err := Attribute(c.profile, mustPreset(t, "go"), Options{Blocks: c.blocks})
			if err != nil {
				t.Fatal(err)
			}
			row := rowOf(t, table, "codec")
			if table.Bootstrap.TooFew != c.want || row.TooFew != c.want || (row.Share.Interval != nil) != c.interval {
				t.Errorf("table %q, row %q, interval %v; want %q, interval %v",
					table.Bootstrap.TooFew, row.TooFew, row.Share.Interval, c.want, c.interval)
			}
		})
	}
}

func TestRowWithoutSamplesHasUpperBound(t *testing.T) {
	p := burst{perBlock: 20, heavier: 1}.profile(rand.New(rand.NewPCG(1, 2)), 64)
	table, err := Attribute(p, mustPreset(t, "go"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	row := rowOf(t, table, "interrupt")
	if iv := row.Share.Interval; iv.Lo != 0 || iv.Hi < 0.001 || iv.Hi > 0.01 {
		t.Errorf("0 of 1,280 samples: interval %v, want (0, about 3/1280)", *iv)
	}
	if row.TooFew == "" {
		t.Error("0 samples are not marked too few")
	}
}

func mustPreset(t testing.TB, name string) *Rules {
	t.Helper()
	r, err := Preset(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func rowOf(t testing.TB, table *Table, layer string) Row {
	t.Helper()
	for _, r := range append(table.Rows[:len(table.Rows):len(table.Rows)], table.Unattributed...) {
		if r.Layer == layer {
			return r
		}
	}
	t.Fatalf("no row %q", layer)
	return Row{}
}
