package ladder

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Arm is one arm's ladder.
type Arm struct {
	Name  string
	Steps []Step
}

// Match is a matched rate and each arm's step at it.
type Match struct {
	// RateHz is the offered rate, 0 when there is none; Reason then says why.
	RateHz float64       `json:"rateHz"`
	Reason string        `json:"reason,omitempty"`
	Steps  []MatchedStep `json:"steps,omitempty"`
	// Excluded arms have no usable step at any rate.
	Excluded []ExcludedArm `json:"excluded,omitempty"`
	Warnings []string      `json:"warnings,omitempty"`
}

// MatchedStep is an arm's step at the matched rate.
type MatchedStep struct {
	Arm  string `json:"arm"`
	Step int    `json:"step"` // Step.Index
}

// ExcludedArm is an arm that cannot be compared.
type ExcludedArm struct {
	Arm    string `json:"arm"`
	Reason string `json:"reason"`
}

// sameRate is the relative difference up to which two offered rates are one.
const sameRate = 1e-3

// Matched picks the offered rate at which arms are compared. Of the rates that
// the most arms ran, at least two where there is more than one arm, it is the
// highest at which all of these keep the rule; where each is past the knee of
// some arm, it is the lowest, with a warning. An arm that did not run the rate
// is excluded. A step whose agent was missing does not count.
func Matched(arms []Arm, rule KneeRule) Match {
	var m Match
	var in []Arm
	for _, a := range arms {
		steps := candidates(a.Steps)
		if len(steps) == 0 {
			m.Excluded = append(m.Excluded, ExcludedArm{a.Name, "no step that is neither void nor without a record"})
			continue
		}
		in = append(in, Arm{a.Name, steps})
	}
	if len(in) == 0 {
		m.Reason = "no arm has a usable step"
		return m
	}
	rates, ran := common(in)
	if ran < min(2, len(in)) {
		m.Reason = "the arms have no offered rate in common"
		return m
	}
	m.RateHz = rates[0]
	for _, rate := range slices.Backward(rates) {
		if len(late(in, rate, rule)) == 0 {
			m.RateHz = rate
			break
		}
	}
	m.Steps = at(in, m.RateHz)
	if slow := late(in, m.RateHz, rule); len(slow) > 0 {
		m.Warnings = append(m.Warnings, fmt.Sprintf("at %.4g/s, the lowest common rate, these do not keep up: %s",
			m.RateHz, strings.Join(slow, "; ")))
	}
	for _, a := range in {
		if _, ok := find(a, m.RateHz); !ok {
			m.Excluded = append(m.Excluded, ExcludedArm{a.Name, fmt.Sprintf("it did not run %.4g/s", m.RateHz)})
		}
	}
	return m
}

// common gives the rates that the most arms ran, rising, and how many arms that is.
func common(arms []Arm) (rates []float64, ran int) {
	for _, a := range arms {
		for _, s := range a.Steps {
			n := len(at(arms, s.OfferedHz))
			if n > ran {
				rates, ran = nil, n
			}
			if n == ran && !slices.ContainsFunc(rates, func(r float64) bool { return same(r, s.OfferedHz) }) {
				rates = append(rates, s.OfferedHz)
			}
		}
	}
	slices.Sort(rates)
	return rates, ran
}

func candidates(steps []Step) []Step {
	return slices.DeleteFunc(usable(steps), func(s Step) bool { return s.Has(FlagAgentMissing) })
}

func same(a, b float64) bool { return math.Abs(a-b) <= sameRate*math.Max(a, b) }

// find returns the arm's first step at the rate.
func find(a Arm, rate float64) (Step, bool) {
	for _, s := range a.Steps {
		if same(s.OfferedHz, rate) {
			return s, true
		}
	}
	return Step{}, false
}

func at(arms []Arm, rate float64) []MatchedStep {
	var out []MatchedStep
	for _, a := range arms {
		if s, ok := find(a, rate); ok {
			out = append(out, MatchedStep{a.Name, s.Index})
		}
	}
	return out
}

// late lists the arms that do not keep up at the rate, with the reason.
func late(arms []Arm, rate float64, rule KneeRule) []string {
	var out []string
	for _, a := range arms {
		s, ran := find(a, rate)
		if !ran {
			continue
		}
		if ok, why := rule.Keeps(s); !ok {
			out = append(out, a.Name+" ("+why+")")
		}
	}
	return out
}
