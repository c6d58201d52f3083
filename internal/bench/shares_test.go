//go:build linux

package main

import (
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

var update = flag.Bool("update", false, "record the populations in testdata anew, on this host")

func TestMain(m *testing.M) {
	if task := os.Getenv(workloadEnv); task != "" {
		runWorkload(strings.Fields(task))
		return
	}
	os.Exit(m.Run())
}

// recorded is a population of testdata, made by a workload on its own clock.
func recorded(t *testing.T, kind string, n int) population {
	t.Helper()
	path := filepath.Join("testdata", kind+".txt")
	if *update {
		p, err := record(kind, n, 3)
		if err == nil {
			err = os.WriteFile(path, p.text(), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePopulation(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// 95 % intervals of stack shares hold the truth as often as they say, and the
// shares are right in the mean: the short form of the figures.
func TestSharesCover(t *testing.T) {
	for kind, n := range map[string]int{"steady": 4000, "bursty": 6000} {
		const trials = 2000
		all, err := resample(recorded(t, kind, n), trials, 1)
		if err != nil {
			t.Fatal(err)
		}
		given, covered, most := 0, 0, 0
		for i := range all {
			c := &all[i]
			mean, stderr := c.bias()
			t.Logf("%s: %s", kind, c)
			if math.Abs(mean) > 4*stderr {
				t.Errorf("%s: the share of %s is %.4f off in the mean, standard error %.4f", kind, c.name, mean, stderr)
			}
			most = max(most, c.given)
			if c.given < trials/2 {
				continue // it has an interval in odd trials only
			}
			given += c.given
			covered += c.covered
			if c.rate() < 0.92 {
				t.Errorf("%s: intervals of %s cover in %.1f %%", kind, c.name, 100*c.rate())
			}
		}
		if rate := float64(covered) / float64(given); rate < 0.93 || rate > 0.97 {
			t.Errorf("%s: 95 %% intervals cover in %.2f %% of %d", kind, 100*rate, given)
		}
		if most < trials*9/10 {
			t.Errorf("%s: no place has an interval in most trials", kind)
		}
	}
}

// The mirror of the kernel side's draws: without chance while the budget lasts,
// unbiased after it, and a variance that is the spread of what it estimates.
func TestSampled(t *testing.T) {
	p := make(population, 3000)
	for i := range p {
		p[i] = interval{i % 2, uint64(100_000 + i%7*10_000)}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	if rows := p[:64].sampled(rng, 64); len(rows) != 2 || rows[0].Samples != 32 || rows[0].SquaresNs2 != 0 {
		t.Errorf("within the budget: %+v", rows)
	}
	_, total := p.shares()
	const trials = 3000
	var sum, squares, variance float64
	for range trials {
		var weight float64
		for _, r := range p.sampled(rng, 64) {
			weight += float64(r.WeightNs)
			variance += r.SquaresNs2 / trials
		}
		off := weight - float64(total)
		sum += off / trials
		squares += off * off / trials
	}
	if math.Abs(sum) > 4*math.Sqrt(squares/trials) {
		t.Errorf("weights are %.0f ns off in the mean of %d", sum, total)
	}
	if r := variance / squares; r < 0.9 || r > 1.1 {
		t.Errorf("the variance is estimated at %.3f of what it is", r)
	}
}

// The mirror against the kernel side itself: as many draws of a live stratum of
// as many intervals, and as much weight and variance for its total.
func TestSampledIsTheKernels(t *testing.T) {
	const n = 4000
	c, err := startChild(nil, "places", "steady", "4000", "5")
	if err != nil {
		t.Fatal(err)
	}
	defer c.kill()
	w, err := watch(c.pid, bpf.DefaultStackBudget)
	var missing *bpf.MissingError
	if errors.As(err, &missing) {
		t.Skipf("the kernel side cannot be loaded here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Arm(w.slot, bpf.Window{ID: 1, Start: bpf.Now(), BlockNs: 1e8}); err != nil {
		t.Fatal(err)
	}
	var p population
	if err := errors.Join(c.say("go"), c.hear(&p), w.SetEnd(w.slot, 1, bpf.Now())); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	live, err := w.read(1, c.tid)
	if err != nil {
		t.Fatal(err)
	}
	type sums struct{ draws, weight, squares float64 }
	add := func(rows []bpf.OffCPU) (s sums) {
		for _, r := range rows {
			s.draws += float64(r.Samples)
			s.weight += float64(r.WeightNs)
			s.squares += r.SquaresNs2
		}
		return s
	}
	rng := rand.New(rand.NewPCG(9, 9))
	var mean, sd sums
	const trials = 400
	for range trials {
		s := add(p.sampled(rng, bpf.DefaultStackBudget))
		mean.draws, sd.draws = mean.draws+s.draws/trials, sd.draws+s.draws*s.draws/trials
		mean.weight, sd.weight = mean.weight+s.weight/trials, sd.weight+s.weight*s.weight/trials
		mean.squares, sd.squares = mean.squares+s.squares/trials, sd.squares+s.squares*s.squares/trials
	}
	got := add(live.rows)
	for _, each := range []struct {
		name                   string
		got, mean, meanSquares float64
	}{{"draws", got.draws, mean.draws, sd.draws}, {"weight", got.weight, mean.weight, sd.weight}, {"squares", got.squares, mean.squares, sd.squares}} {
		spread := math.Sqrt(each.meanSquares - each.mean*each.mean)
		t.Logf("%s: %.4g, the mirror has %.4g ± %.2g", each.name, each.got, each.mean, spread)
		// The sleeper's own clock has the wait to run and the call itself in it, too.
		if math.Abs(each.got-each.mean) > 4.5*spread+0.1*each.mean {
			t.Errorf("%s of %d intervals: %.4g, the mirror has %.4g ± %.2g", each.name, n, each.got, each.mean, spread)
		}
	}
}

func TestParsePopulation(t *testing.T) {
	for _, text := range []string{"A\n", "G 1\n", "AB 1\n", "A x\n", "A 1 2\n"} {
		if p, err := parsePopulation(text); err == nil {
			t.Errorf("%q: %v", text, p)
		}
	}
	p, err := parsePopulation("A 7\nF 12\n")
	if err != nil || len(p) != 2 || p[1] != (interval{5, 12}) || string(p.text()) != "A 7\nF 12\n" {
		t.Errorf("%v, %v", p, err)
	}
}
