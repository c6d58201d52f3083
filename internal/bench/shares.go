//go:build linux

package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A population is kept as text, a line per interval: the place and its ns.

func (p population) text() []byte {
	var out []byte
	for _, i := range p {
		out = fmt.Appendf(out, "%s %d\n", placeName(i.Place), i.Ns)
	}
	return out
}

func parsePopulation(text string) (population, error) {
	var p population
	for line := range strings.Lines(text) {
		var name string
		var i interval
		if _, err := fmt.Sscanf(line, "%s %d\n", &name, &i.Ns); err != nil || len(name) != 1 {
			return nil, fmt.Errorf("line %d, %q: want a place and nanoseconds", len(p)+1, line)
		}
		if i.Place = int(name[0] - 'A'); i.Place < 0 || i.Place >= len(placeFuncs) {
			return nil, fmt.Errorf("line %d: place %q: want A to %s", len(p)+1, name, placeName(len(placeFuncs)-1))
		}
		p = append(p, i)
	}
	return p, nil
}

// record lets a workload log a population.
func record(kind string, n int, seed uint64) (population, error) {
	c, err := startChild(nil, "places", kind, strconv.Itoa(n), strconv.FormatUint(seed, 10))
	if err != nil {
		return nil, err
	}
	defer c.kill()
	if err := c.say("go"); err != nil {
		return nil, err
	}
	var p population
	return p, c.hear(&p)
}

// resampledShares records populations here and now, and resamples them.
func (b *bench) resampledShares() error {
	trials := pick(b, 4000, 300)
	for _, kind := range []string{"steady", "bursty"} {
		for _, n := range []int{1500, pick(b, 12000, 4000)} {
			p, err := record(kind, n, uint64(n))
			if err != nil {
				return err
			}
			all, err := resample(p, trials, 7)
			if err != nil {
				return err
			}
			b.judgeCoverage(fmt.Sprintf("%s, %d intervals", kind, n), all)
		}
	}
	return nil
}

// judgeCoverage adds the figures of one population: over all its places, and of
// the place that is farthest off.
func (b *bench) judgeCoverage(what string, all []coverage) {
	var given, covered, few int
	var notes []string
	worst, bias := 0.95, 0.0
	for i := range all {
		c := &all[i]
		if c.trials == 0 {
			continue
		}
		mean, stderr := c.bias()
		if math.Abs(mean) > math.Abs(bias)*stderr && stderr > 0 {
			bias = mean / stderr
		}
		few += c.trials - c.given
		// A place that seldom gets an interval gets it in odd trials only.
		if c.given < c.trials/2 {
			notes = append(notes, fmt.Sprintf("%s (%.1f %%): too few in %d of %d", c.name, 100*c.share, c.trials-c.given, c.trials))
			continue
		}
		given += c.given
		covered += c.covered
		if math.Abs(c.rate()-0.95) > math.Abs(worst-0.95) {
			worst = c.rate()
		}
		notes = append(notes, c.String())
	}
	rate := float64(covered) / float64(given)
	// Trials are shared by the places of a population: the noise of the mean is
	// that of the trials, not of all intervals.
	b.judge(what+": coverage", 100*rate, "%", "93–97", rate >= 0.93 && rate <= 0.97, strings.Join(notes, "; "))
	b.judge(what+": coverage of the worst place", 100*worst, "%", "93–97", worst >= 0.93 && worst <= 0.97, "")
	b.judge(what+": largest mean error", bias, "σ", "|x| ≤ 3.3", math.Abs(bias) <= 3.3, "in standard errors of the mean, of the place that is farthest off")
}
