//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
)

// state is a way for the host to be while the loop runs: a profiler on, or none.
type state struct {
	name  string
	enter func() (leave func() error, err error)
	warm  int // slices before it is measured, beside the first
}

// comparison is what the loop's turns cost in each state, by rounds: a round
// visits the states forth and back, so that what drifts falls on all alike.
type comparison struct {
	names  []string
	rounds [][]float64 // by round, by state: ns per turn
}

func (b *bench) compare(l *loopChild, states []state, rounds, slicesEach int) (comparison, error) {
	var out comparison
	for _, s := range states {
		out.names = append(out.names, s.name)
	}
	for range rounds {
		sums := make([]float64, len(states))
		for step := range 2 * len(states) {
			i := min(step, 2*len(states)-1-step)
			leave, err := states[i].enter()
			if err != nil {
				return out, fmt.Errorf("%s: %w", states[i].name, err)
			}
			// The first slice warms up what the other state left cold.
			s, err := l.slices(1 + states[i].warm + slicesEach)
			if err2 := leave(); err == nil {
				err = err2
			}
			if err != nil {
				return out, fmt.Errorf("%s: %w", states[i].name, err)
			}
			sums[i] += medianOf(s[len(s)-slicesEach:]) / 2
			if err := b.ctx.Err(); err != nil {
				return out, err
			}
		}
		out.rounds = append(out.rounds, sums)
	}
	return out, nil
}

func medianOf(all []slice) float64 {
	var each []float64
	for _, s := range all {
		each = append(each, s.cost())
	}
	slices.Sort(each)
	return quantile(each, 0.5)
}

// loss is the part of the loop's throughput that state i takes from that of
// state 0: the median over rounds, with its 95 % interval, in percent.
func (c comparison) loss(i int) (median, lo, hi float64) {
	var all []float64
	for _, r := range c.rounds {
		all = append(all, 100*(1-r[0]/r[i]))
	}
	slices.Sort(all)
	lo, hi = medianInterval(all)
	return quantile(all, 0.5), lo, hi
}

// medianInterval is between order statistics, whatever the distribution: the
// narrowest pair that holds the median with 95 %, all of it where n is small.
func medianInterval(sorted []float64) (lo, hi float64) {
	n := len(sorted)
	k := int(math.Floor(float64(n)/2 - 0.98*math.Sqrt(float64(n))))
	k = max(k, 0)
	return sorted[k], sorted[n-1-k]
}

// quantile of sorted values, linear between neighbours.
func quantile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	x := p * float64(len(sorted)-1)
	i := int(x)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (x-float64(i))*(sorted[i+1]-sorted[i])
}
