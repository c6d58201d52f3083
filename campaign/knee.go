package campaign

import (
	"fmt"
	"math"
	"slices"

	"github.com/rungprof/rung/ladder"
)

// kneeRule is ladder's rule, applied to a finished step.
type kneeRule struct{ ladder.KneeRule }

// End says how a search for the knee ended.
type End string

// Ends of a search. Only one found a knee.
const (
	EndKnee          End = "knee"           // the highest rate that keeps up, to the precision asked for
	EndClientLimited End = "client-limited" // the driver was the limit before the arm was
	EndNotReached    End = "not reached"    // the highest rate allowed still keeps up
	EndBelow         End = "below"          // no rate keeps up
	EndSteps         End = "out of steps"
	EndVoid          End = "void step"
)

// Verdict is what a search found.
type Verdict struct {
	End End `json:"end"`
	// KeepsHz is the highest rate that kept up and was not client-limited: with
	// EndKnee the knee. 0 is none.
	KeepsHz float64 `json:"keepsHz,omitempty"`
	// FailsHz is the lowest rate that did not keep up while the driver did.
	FailsHz float64 `json:"failsHz,omitempty"`
	// ClientLimitedHz is the lowest rate at which the driver was the limit.
	ClientLimitedHz float64 `json:"clientLimitedHz,omitempty"`
	// Why the step at FailsHz or ClientLimitedHz counts as it does.
	Why   string `json:"why,omitempty"`
	Steps int    `json:"steps"`
}

// String says it to people.
func (v Verdict) String() string {
	switch v.End {
	case EndKnee:
		return fmt.Sprintf("knee %g/s: at %g/s %s", v.KeepsHz, v.FailsHz, v.Why)
	case EndClientLimited:
		return fmt.Sprintf("no knee: from %g/s on the driver is the limit (%s); %s", v.ClientLimitedHz, v.Why, v.keeps())
	case EndNotReached:
		return fmt.Sprintf("no knee up to %g/s, the highest rate of the search", v.KeepsHz)
	case EndBelow:
		return fmt.Sprintf("no knee: %g/s, the lowest rate tried, does not keep up (%s)", v.FailsHz, v.Why)
	case EndVoid:
		return fmt.Sprintf("no knee: %s; %s", v.Why, v.keeps())
	}
	return fmt.Sprintf("no knee within %d steps; %s", v.Steps, v.keeps())
}

func (v Verdict) keeps() string {
	if v.KeepsHz == 0 {
		return "no rate keeps up"
	}
	return fmt.Sprintf("%g/s keeps up", v.KeepsHz)
}

// search drives the search, and then what is to be profiled of it.
//
// It expands from the start until a step fails, or contracts until one keeps up,
// then bisects. A rate that fails is driven once more, and the second time counts.
// A step at which the driver was the limit says nothing about the
// arm: it bounds the search from above as a failure does, but a search that ends
// at such a bound has found no knee. So does one whose step is void.
func (w *walk) search(spec Spec) {
	v, kept, ok := w.bracket(*spec.Knee, spec.Profile.All, spec.Control.All)
	if !ok {
		return
	}
	w.verdict = &v
	slices.Sort(kept)
	kept = slices.Compact(kept)
	// With top:N the search itself is not profiled: its highest rates are driven
	// again, with the agent, and with a control where that is asked for.
	for i, hz := range kept {
		profile := spec.Profile.Top > 0 && spec.Profile.of(kept, i)
		control := spec.Control.of(kept, i)
		switch {
		case profile:
			_, ok = w.measure(hz, true, control)
		case spec.Profile.All && spec.Control.Top > 0 && control:
			_, ok = w.full(KindControl, hz, false)
		}
		if !ok {
			return
		}
	}
	w.complete = true
}

func (w *walk) bracket(k Search, profile, control bool) (v Verdict, kept []float64, ok bool) {
	fails, limited := math.Inf(1), math.Inf(1)
	var whyFails, whyLimited string
	hz := roundRate(k.StartHz)
	for ; v.Steps < k.MaxSteps; v.Steps++ {
		d, driven := w.measure(hz, profile, control)
		if !driven {
			return v, kept, false
		}
		keeps, why := w.ladder.rule.Keeps(d.Row)
		if !d.void() && (!keeps || d.ClientLimited != "") && v.Steps+1 < k.MaxSteps {
			// Once may be a neighbour's doing, of the arm's CPUs or the driver's.
			if d, driven = w.measure(hz, profile, control); !driven {
				return v, kept, false
			}
			v.Steps++
			keeps, why = w.ladder.rule.Keeps(d.Row)
		}
		switch {
		case d.void():
			v.End, v.Why = EndVoid, fmt.Sprintf("the step at %g/s stayed void", hz)
			v.Steps++
			return v.bounded(fails, limited), kept, true
		case d.ClientLimited != "":
			if hz < limited {
				limited, whyLimited = hz, d.ClientLimited
			}
		case keeps:
			kept = append(kept, hz)
			v.KeepsHz = max(v.KeepsHz, hz)
		case hz < fails:
			fails, whyFails = hz, why
		}
		var end End
		if hz, end = k.step(v.KeepsHz, min(fails, limited), hz); end != "" {
			v.Steps++
			v.End, v.Why = end, whyFails
			// The nearest bound above decides; a tie is the driver's.
			if limited <= fails && (end == EndKnee || end == EndBelow) {
				v.End, v.Why = EndClientLimited, whyLimited
			}
			return v.bounded(fails, limited), kept, true
		}
	}
	v.End = EndSteps
	return v.bounded(fails, limited), kept, true
}

func (v Verdict) bounded(fails, limited float64) Verdict {
	if !math.IsInf(fails, 1) {
		v.FailsHz = fails
	}
	if !math.IsInf(limited, 1) {
		v.ClientLimitedHz = limited
	}
	return v
}

// minRateHz is the lowest rate a search tries.
const minRateHz = 0.1

// step is the next rate after keeps and fails (0 and infinite: none yet), or how
// the search ends.
func (k Search) step(keeps, fails, last float64) (float64, End) {
	switch {
	case math.IsInf(fails, 1): // expand
		if last >= k.MaxHz {
			return 0, EndNotReached
		}
		return min(roundRate(last*k.Factor), k.MaxHz), ""
	case keeps == 0: // contract
		next := roundRate(fails / k.Factor)
		if next < minRateHz || next >= fails {
			return 0, EndBelow
		}
		return next, ""
	case fails <= keeps:
		// A higher rate kept up than one that failed: the service is not steady
		// to the precision asked for. The lower rate stands.
		return 0, EndKnee
	case fails <= keeps*(1+k.Precision):
		return 0, EndKnee
	}
	next := roundRate(math.Sqrt(keeps * fails))
	if next <= keeps || next >= fails {
		return 0, EndKnee
	}
	return next, ""
}

// roundRate keeps four significant digits, so that rates can be read and typed.
func roundRate(hz float64) float64 {
	if !(hz > 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(hz))-3)
	rounded := math.Round(hz/unit) * unit
	if unit >= 1 {
		return math.Round(rounded)
	}
	return math.Round(rounded/unit) / math.Round(1/unit)
}
