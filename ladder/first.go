package ladder

import (
	"fmt"
	"math"
)

// Thresholds of the first step. Taken from ladders of JVMs, whose compilers were
// still at work in the first step after a warm-up at a low rate: its p99 was 3 to
// 20 times that of the steps after it, at a lower rate; where it was warm, below
// 1.5 times.
const (
	firstP99      = 2    // times the larger p99 of the next two steps
	firstP99Ms    = 10.0 // and above this, which a neighbour's slice can make of anything
	firstCost     = 0.10 // above what the next step's cost allows
	firstJITShare = 0.05 // of the arm's CPU, above the larger of the next two steps'
)

// FirstStep says why the first measured step that a ladder drove is an outlier,
// in which the arm was not warm yet: index is its place in steps, which are in the
// order in which they were driven. why is "" when it is none, or when that
// cannot be told: the ladder does not rise, or has one step.
//
// Cost per request falls with the rate, but not faster than if all of it were
// paid per second: a first step that costs more than that of the second step
// times the ratio of their rates paid for something else.
func FirstStep(steps []Step) (index int, why string) {
	var at []int
	for i, s := range steps {
		if s.read() {
			at = append(at, i)
		}
	}
	if len(at) < 2 {
		return 0, ""
	}
	first, next := steps[at[0]], []Step{steps[at[1]]}
	if len(at) > 2 {
		next = append(next, steps[at[2]])
	}
	for _, s := range next {
		if s.OfferedHz < first.OfferedHz {
			return 0, ""
		}
	}
	worst := func(figure func(Step) *float64) (of float64, after float64, ok bool) {
		v := figure(first)
		if v == nil {
			return 0, 0, false
		}
		for _, s := range next {
			w := figure(s)
			if w == nil {
				return 0, 0, false
			}
			after = math.Max(after, *w)
		}
		return *v, after, true
	}
	if v, after, ok := worst(func(s Step) *float64 { return s.JITShare }); ok && v > after+firstJITShare {
		return at[0], fmt.Sprintf("first step: the JIT took %.1f %% of the arm's CPU, in the steps after it at most %.1f %%: warm up longer", 100*v, 100*after)
	}
	if v, after, ok := worst(func(s Step) *float64 { return s.P99Ms }); ok && v > firstP99*after && v > firstP99Ms {
		return at[0], fmt.Sprintf("first step: p99 is %.4g ms, in the steps after it at most %.4g ms: warm up longer", v, after)
	}
	a, b := first.CPUMsPerRequest, next[0].CPUMsPerRequest
	if a != nil && b != nil && *b > 0 {
		if most := *b * next[0].OfferedHz / first.OfferedHz; *a > (1+firstCost)*most {
			return at[0], fmt.Sprintf("first step: %.4g ms of CPU per request, where the next step's %.4g ms allow %.4g ms: warm up longer", *a, *b, most)
		}
	}
	return 0, ""
}

// read tells the steps that a ladder is read by from the others.
func (s Step) read() bool {
	return !s.Warmup && !s.Has(FlagVoid) && !s.Has(FlagControl) && s.OfferedHz > 0
}
