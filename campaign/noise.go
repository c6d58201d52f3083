package campaign

import (
	"fmt"
	"math"
)

// noise holds all A/A pairs of a campaign: ladders of one arm at one point in one
// repeat, which differ in nothing that the plan names.
type noise struct{ pairs []pair }

type pair struct{ first, twin Result }

func newNoise(results []Result) noise {
	var n noise
	for _, twin := range results {
		if !twin.Ladder.Twin {
			continue
		}
		for _, r := range results {
			if l := r.Ladder; !l.Twin && l.ArmName == twin.Ladder.ArmName && l.Point == twin.Ladder.Point && l.Repeat == twin.Ladder.Repeat {
				n.pairs = append(n.pairs, pair{r, twin})
			}
		}
	}
	return n
}

// floor is the largest difference of cost within a pair: of those at the rate
// among the given ladders, else of all pairs at all rates that both of a pair
// drove. from names which.
func (n noise) floor(results []Result, hz float64) (floor *float64, pairs int, from string) {
	point := -1
	if len(results) > 0 {
		point = results[0].Ladder.Point
	}
	var here, all []float64
	for _, p := range n.pairs {
		for _, d := range p.first.Steps {
			if d.Step.Kind != KindMeasured || d.void() || d.Row.CPUMsPerRequest == nil {
				continue
			}
			twin, ok := p.twin.at(d.Step.OfferedHz, KindMeasured)
			if !ok || twin.Row.CPUMsPerRequest == nil {
				continue
			}
			v := difference(*d.Row.CPUMsPerRequest, *twin.Row.CPUMsPerRequest)
			all = append(all, v)
			if p.first.Ladder.Point == point && math.Abs(d.Step.OfferedHz-hz) <= 1e-3*hz {
				here = append(here, v)
			}
		}
	}
	use := here
	from = fmt.Sprintf("A/A pairs at %g/s", hz)
	if len(use) == 0 {
		use, from = all, "A/A pairs at other rates or points"
	}
	if len(use) == 0 {
		return nil, 0, ""
	}
	_, _, high := median(use)
	return &high, len(use), from
}
