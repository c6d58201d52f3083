package ladder

import (
	"cmp"
	"fmt"
	"slices"
)

// KneeRule says when a step still keeps up: it delivers what was offered,
// next to nothing overflows, and the median request does not queue.
type KneeRule struct {
	MinDelivered float64 `json:"minDelivered"` // delivered/s ÷ offered, at least
	MaxOverflow  float64 `json:"maxOverflow"`  // overflow/s ÷ offered, at most
	MaxP50Ms     float64 `json:"maxP50Ms"`
}

// DefaultKneeRule is 99 % delivered, 1 % overflow, p50 of 10 ms.
func DefaultKneeRule() KneeRule {
	return KneeRule{MinDelivered: 0.99, MaxOverflow: 0.01, MaxP50Ms: 10}
}

// String states the rule for people.
func (r KneeRule) String() string {
	return fmt.Sprintf("delivered >= %.4g %% of offered, overflow <= %.4g %%, p50 <= %.4g ms; "+
		"no two failing steps in a row below", 100*r.MinDelivered, 100*r.MaxOverflow, r.MaxP50Ms)
}

// Keeps reports whether the step keeps up, and else why not. One request at an
// edge of the window is not held against it, nor is an absent p50.
func (r KneeRule) Keeps(s Step) (bool, string) {
	if s.Has(FlagVoid) {
		return false, "void"
	}
	if edge := oneRequest(s); s.DeliveredHz+edge < r.MinDelivered*s.OfferedHz {
		return false, fmt.Sprintf("delivered %.1f %% of offered", 100*s.DeliveredHz/s.OfferedHz)
	}
	if s.OverflowHz > r.MaxOverflow*s.OfferedHz {
		return false, fmt.Sprintf("overflow %.1f %%", 100*s.OverflowHz/s.OfferedHz)
	}
	if s.P50Ms != nil && *s.P50Ms > r.MaxP50Ms {
		return false, fmt.Sprintf("p50 %.1f ms", *s.P50Ms)
	}
	return true, ""
}

// oneRequest is one request per window, in requests per second.
func oneRequest(s Step) float64 {
	if s.DeliveredInWindow == 0 {
		return 0
	}
	return s.DeliveredHz / float64(s.DeliveredInWindow)
}

// Knee is the highest step that keeps up.
type Knee struct {
	Step      int     `json:"step"` // Step.Index
	OfferedHz float64 `json:"offeredHz"`
	// NextHz is the next step's rate, which does not keep up: the knee lies
	// between the two. Absent when the ladder ends below its knee.
	NextHz *float64 `json:"nextHz,omitempty"`
	// Why the next step does not keep up.
	Why string `json:"why,omitempty"`
}

// Reading is what a ladder's steps say together.
type Reading struct {
	Rule KneeRule `json:"rule"`
	// Knee is absent when there are too few steps, or none keeps up; NoKnee
	// then says why.
	Knee   *Knee  `json:"knee,omitempty"`
	NoKnee string `json:"noKnee,omitempty"`
	// Plateau is absent with fewer than two steps past the knee.
	Plateau *Plateau `json:"plateau,omitempty"`
	// Cores is the fit of CPU over rate; absent with fewer than three steps
	// that keep up and have a usage.
	Cores    *Fit     `json:"cores,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// minSteps below which no knee is called.
const minSteps = 3

// Read finds knee and plateau. Warm-up, control and void steps are left out; the order of
// steps does not matter.
//
// The knee is the highest step that keeps the rule and has no two failing steps
// in a row below it: a single one (a compilation, a neighbour) is an outlier and
// named as such, two are the ceiling.
func Read(steps []Step, rule KneeRule) Reading {
	r := Reading{Rule: rule}
	use := usable(steps)
	if len(use) < minSteps {
		r.NoKnee = fmt.Sprintf("%d usable steps, want %d", len(use), minSteps)
		return r
	}
	knee, failed := -1, 0
	why := make([]string, len(use))
	for i, s := range use {
		ok := false
		if ok, why[i] = rule.Keeps(s); ok {
			knee, failed = i, 0
		} else if failed++; failed == 2 {
			break
		}
	}
	r.Cores = fitCores(use[:knee+1], rule)
	if knee < 0 {
		r.NoKnee = fmt.Sprintf("below %.4g/s: the lowest step has %s", use[0].OfferedHz, why[0])
		return r
	}
	r.Knee = &Knee{Step: use[knee].Index, OfferedHz: use[knee].OfferedHz}
	for i := range knee {
		if why[i] != "" {
			r.Warnings = append(r.Warnings, fmt.Sprintf(
				"step %s is an outlier: %s, while a higher step keeps up", use[i].Name, why[i]))
		}
	}
	if knee+1 == len(use) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the knee was not reached: the ladder ends at %.4g/s", use[knee].OfferedHz))
		return r
	}
	next := use[knee+1].OfferedHz
	r.Knee.NextHz, r.Knee.Why = &next, why[knee+1]
	r.Plateau = plateau(use, knee)
	return r
}

// usable are the steps that may be read, by rising rate.
func usable(steps []Step) []Step {
	var out []Step
	for _, s := range steps {
		if s.read() {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.OfferedHz, b.OfferedHz), cmp.Compare(a.Index, b.Index))
	})
	return out
}
