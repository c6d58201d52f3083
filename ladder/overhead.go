package ladder

import "slices"

// Overhead is what profiling cost the arm at one rate: a step's cost beside that
// of its control, the same step without the profiler.
type Overhead struct {
	Step      string  `json:"step"`
	Control   string  `json:"control"`
	OfferedHz float64 `json:"offeredHz"`
	// WithMs and WithoutMs are CPU per request, both read in the same way.
	WithMs    float64 `json:"withMs"`
	WithoutMs float64 `json:"withoutMs"`
	// Share is WithMs ÷ WithoutMs − 1. Below 0 it is noise.
	Share float64 `json:"share"`
}

// Overheads pairs each control with the profiled step of its rate; of several
// with the nearest in the order of driving. Void steps are in no pair.
func Overheads(steps []Step) []Overhead {
	var out []Overhead
	for _, c := range steps {
		if !c.Has(FlagControl) || c.Has(FlagVoid) {
			continue
		}
		best := -1
		for i, s := range steps {
			if s.read() && s.Profiled && same(s.OfferedHz, c.OfferedHz) &&
				(best < 0 || abs(s.Index-c.Index) < abs(steps[best].Index-c.Index)) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		with, without, ok := costs(steps[best], c)
		if !ok {
			continue
		}
		out = append(out, Overhead{
			Step: steps[best].Name, Control: c.Name, OfferedHz: c.OfferedHz, WithMs: with, WithoutMs: without, Share: with/without - 1,
		})
	}
	return out
}

// costs are those of the reader that read both steps, which is the driver's own
// where it did: the agent's record has none of a control.
func costs(s, control Step) (with, without float64, ok bool) {
	a, b := s.OwnCPUMsPerRequest, control.OwnCPUMsPerRequest
	if a == nil || b == nil {
		a, b = s.CPUMsPerRequest, control.CPUMsPerRequest
	}
	if a == nil || b == nil || *b <= 0 {
		return 0, 0, false
	}
	return *a, *b, true
}

// MedianShare is the median of several overheads, nil of none.
func MedianShare(pairs []Overhead) *float64 {
	if len(pairs) == 0 {
		return nil
	}
	shares := make([]float64, len(pairs))
	for i, p := range pairs {
		shares[i] = p.Share
	}
	slices.Sort(shares)
	m := (shares[(len(shares)-1)/2] + shares[len(shares)/2]) / 2
	return &m
}

func abs(n int) int { return max(n, -n) }
