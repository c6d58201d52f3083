//go:build linux

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// A population is every interval of one stratum in order, as the thread itself
// logged it. A trial draws from it as the kernel side would, and estimates the
// places' shares by the product's own path: profile.Build, then attribution.

type population []interval

// sampled is the rows that the kernel side would give of a stratum. It mirrors
// draw and add_drawn of bpf/src/stratum.h, which a live test holds it against.
func (p population) sampled(rng *rand.Rand, budget uint32) []bpf.OffCPU {
	var rows [len(placeFuncs)]bpf.OffCPU
	taken := uint32(0)
	for _, i := range p {
		halvings := min(taken/budget, 20)
		if rng.Uint32()&(1<<halvings-1) != 0 {
			continue
		}
		taken++
		weight := i.Ns << halvings
		us := weight / 1000
		square := us * us
		square -= square >> halvings
		r := &rows[i.Place]
		r.Samples++
		r.WeightNs += weight
		r.LargestNs = max(r.LargestNs, weight)
		r.SquaresNs2 += 1e6 * float64(square)
	}
	var out []bpf.OffCPU
	for place, r := range rows {
		if r.Samples > 0 {
			r.Tgid, r.Tid, r.State, r.Reason = 1, 1, bpf.StateBlocked, sleepReason
			r.StackHash = uint64(place) + 1
			out = append(out, r)
		}
	}
	return out
}

var sleepReason = bpf.SyscallReason(sysClockNanosleep, bpf.ObjectNone, true)

// shares are the true ones.
func (p population) shares() (shares [len(placeFuncs)]float64, totalNs uint64) {
	for _, i := range p {
		totalNs += i.Ns
	}
	for _, i := range p {
		shares[i.Place] += float64(i.Ns) / float64(totalNs)
	}
	return shares, totalNs
}

// placeNames names the frames of a resampled stack, whose address is its place.
type placeNames struct{}

func placeName(place int) string { return string(rune('A' + place)) }

func (placeNames) Lookup(addr uint64) symbol.Location {
	return symbol.Location{Mapping: symbol.Mapping{File: "places"}, Address: addr,
		Lines: []symbol.Line{{Function: placeName(int(addr / 16))}}}
}

// estimates is the product's answer: its share of each place.
func estimates(rows []bpf.OffCPU, totalNs uint64) (map[string]attribution.Estimated, error) {
	p, _, err := profile.Build(profile.Input{
		OffCPU:  rows,
		Threads: []bpf.Thread{{Tgid: 1, Tid: 1, Blocked: []bpf.Blocked{{Reason: sleepReason, Ns: totalNs}}}},
		Stack: func(hash uint64) (bpf.Stack, bool) {
			return bpf.Stack{Frames: []bpf.Frame{{Kind: bpf.FrameNative, Value: (hash-1)*16 + 1}}}, true
		},
		Process: func(uint32) (profile.Process, error) { return placeNames{}, nil },
		RateHz:  99, Start: time.Unix(0, 0), Length: time.Second,
	})
	if err != nil {
		return nil, err
	}
	off, err := attribution.OffCPUFromPprof(p)
	if err != nil {
		return nil, err
	}
	out := map[string]attribution.Estimated{}
	for _, s := range attribution.TopStacks(off, attribution.StateBlocked, 0) {
		out[s.Frames[len(s.Frames)-1].Function] = s.Estimated
	}
	return out, nil
}

// coverage counts how often intervals hold what they are intervals of.
type coverage struct {
	name           string
	share          float64
	trials         int
	given, covered int // of them: with an interval, and one that holds the truth
	below          int // intervals that lie wholly below the truth
	sum, squares   float64
}

// add counts one estimate against the true share.
func (c *coverage) add(e attribution.Estimated, truth float64) {
	c.trials++
	off := e.Share.Value - truth
	c.sum += off
	c.squares += off * off
	if i := e.Share.Interval; i != nil {
		c.given++
		if i.Lo <= truth && truth <= i.Hi {
			c.covered++
		} else if i.Hi < truth {
			c.below++
		}
	}
}

// rate is the share of intervals that cover.
func (c *coverage) rate() float64 { return float64(c.covered) / float64(c.given) }

// bias is the mean signed error of the share, and its standard error.
func (c *coverage) bias() (mean, stderr float64) {
	n := float64(c.trials)
	mean = c.sum / n
	return mean, math.Sqrt(max(0, c.squares/n-mean*mean) / (n - 1))
}

func (c *coverage) String() string {
	mean, stderr := c.bias()
	return fmt.Sprintf("%s (%.1f %%): %.1f %% of %d, %d below; error %+.3f ± %.3f points",
		c.name, 100*c.share, 100*c.rate(), c.given, c.below, 100*mean, 100*stderr)
}

// resample repeats trials of a population; one coverage per place that has time.
func resample(p population, trials int, seed uint64) ([]coverage, error) {
	shares, total := p.shares()
	var out []coverage
	for place, share := range shares {
		out = append(out, coverage{name: placeName(place), share: share})
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	for range trials {
		got, err := estimates(p.sampled(rng, bpf.DefaultStackBudget), total)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].add(got[out[i].name], out[i].share)
		}
	}
	return out, nil
}
