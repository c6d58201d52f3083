//go:build linux

package main

import (
	"fmt"
	"math"

	pprof "github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/profile"
)

// A stack's off-CPU time is estimated from drawn intervals. In each stratum, one
// thread's time in one state for one reason, the sum over all stacks is exact, so
// the error of a part of it follows from its share R = ns ÷ sum and the squares of
// the draws' spread within it and beside it:
//
//	variance = (1−R)² · squares + R² · (squares of the stratum − squares)
//
// Strata are drawn independently of each other: their variances add up.

// profileStratum tells strata apart within one state.
type profileStratum struct {
	tid     int64
	reason  string
	object  string
	limited string
}

// drawSums are the draws of one stack, by stratum.
type drawSums map[profileStratum]*drawSum

type drawSum struct {
	ns, draws, largest int64
	squares            float64 // of the spread, ns²
}

func (d *drawSum) add(s *pprof.Sample, ns, draws int64) {
	spread := float64(labelNumber(s, profile.LabelSpread))
	d.ns += ns
	d.draws += draws
	d.largest = max(d.largest, labelNumber(s, profile.LabelLargest))
	d.squares += spread * spread
}

// strataSums are the draws of all stacks, by stratum.
type strataSums map[profileStratum]*drawSum

func (all strataSums) add(stack drawSums, s *pprof.Sample, ns, draws int64) {
	key := profileStratum{
		labelNumber(s, profile.LabelTid), label(s, profile.LabelReason), label(s, profile.LabelObject), label(s, profile.LabelLimited),
	}
	for _, sums := range []map[profileStratum]*drawSum{all, stack} {
		if sums[key] == nil {
			sums[key] = &drawSum{}
		}
		sums[key].add(s, ns, draws)
	}
}

// What an interval needs: simulated, those of less cover far too seldom.
const (
	minDraws        = 30
	maxLargestShare = 0.1
)

// normal95 is the 97.5 % quantile of the normal distribution.
const normal95 = 1.96

// interval gives half of a stack's 95 % interval in ns, or why there is none.
// Where every interval of its strata was drawn its time is exact.
func (all strataSums) interval(stack drawSums) (plusMinusNs *int64, tooFew string) {
	var draws, largest, total int64
	var variance, squares float64
	for key, part := range stack {
		whole := all[key]
		draws += part.draws
		largest = max(largest, part.largest)
		total += whole.ns
		squares += whole.squares
		r := float64(part.ns) / float64(whole.ns)
		variance += (1-r)*(1-r)*part.squares + r*r*max(0, whole.squares-part.squares)
	}
	switch share := float64(largest) / float64(total); {
	case draws == 0:
		return nil, "no interval was drawn"
	case squares == 0:
		return ptrTo(int64(0)), ""
	case draws < minDraws:
		return nil, fmt.Sprintf("%d intervals drawn, want %d", draws, minDraws)
	case share > maxLargestShare:
		return nil, fmt.Sprintf("one drawn interval is %.0f %% of the time, want %.0f at most", 100*share, 100*maxLargestShare)
	}
	return ptrTo(int64(math.Round(normal95 * math.Sqrt(variance)))), ""
}
