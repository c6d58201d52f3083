package report

import (
	"fmt"
	"strings"

	"github.com/rungprof/rung/ladder"
)

// readingText is one arm's knee, plateau and fit as sentences, and what was in flight.
func readingText(a *Arm) string {
	r := &a.Reading
	var s []string
	switch k := r.Knee; {
	case k == nil:
		s = append(s, "Knee: none named; "+orElse(r.NoKnee, "the steps were not read"))
	case k.NextHz == nil:
		s = append(s, fmt.Sprintf("Knee: at or above %s/s, where the ladder ends", offered(k.OfferedHz)))
	default:
		s = append(s, fmt.Sprintf("Knee: %s/s; the next step, %s/s, does not keep up: %s", offered(k.OfferedHz), offered(*k.NextHz), k.Why))
	}
	if p := r.Plateau; p != nil {
		s = append(s, fmt.Sprintf("Plateau: %s, %s/s delivered on average past the knee (%s to %s in %s)",
			p.Shape, rate(p.MeanHz), rate(p.MinHz), rate(p.MaxHz), plural(p.Steps, "step")))
	}
	if f := r.Cores; f != nil {
		s = append(s, fmt.Sprintf("Fit: %s cores without load and %s ms of CPU per request, off by %s cores at most",
			number(f.InterceptCores, 3), perRequest(f.MsPerRequest), number(f.MaxResidualCores, 3)))
	}
	if len(a.Steps) > 0 && a.Imported == "" {
		var edges []string
		for _, step := range a.Steps {
			edges = append(edges, fmt.Sprintf("%d→%d", step.InFlightAtStart, step.InFlightAtEnd))
		}
		s = append(s, "In flight at the windows' edges, step by step: "+strings.Join(edges, ", "))
	}
	return strings.Join(s, ". ") + "."
}

// readingLegend states the rule of the knee, and explains what was found.
func readingLegend(r *Report) []entry {
	var entries []entry
	plateau, fit := false, false
	for i := range r.Arms {
		reading := &r.Arms[i].Reading
		if reading.Rule != (ladder.KneeRule{}) && len(entries) == 0 {
			entries = append(entries, entry{"knee", "the highest step that keeps up, by this rule: " + reading.Rule.String()})
		}
		plateau = plateau || reading.Plateau != nil
		fit = fit || reading.Cores != nil
	}
	if plateau {
		entries = append(entries, entry{"plateau", "the steps past the knee: flat within 5 % of the most that any step delivered, falling below that, collapse under 75 %"})
	}
	if fit {
		entries = append(entries, entry{"fit", "least squares over the steps that keep up: CPU without load, and the cost of one more request"})
	}
	return entries
}
