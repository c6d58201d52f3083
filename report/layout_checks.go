package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/rungprof/rung/attribution"
)

// layoutChecks adds one row per arm and check: its worst step.
func layoutChecks(d *document, r *Report) {
	d.add(heading{2, "Checks"})
	t := tableBlock{repeat: 1, columns: []column{
		{head: []string{"check"}, left: true}, {head: []string{"arm"}, left: true},
		{head: []string{"figure"}}, {head: []string{"against"}}, {head: []string{"bound ±"}},
		{head: []string{"ok"}, left: true}, {head: []string{"worst step"}, left: true, wrap: true},
	}}
	var details []string
	for _, name := range checkNames(r) {
		label := name
		var reported []string
		for i := range r.Arms {
			arm := r.Arms[i].Name
			c, ok := worstCheck(&r.Arms[i], name)
			if !ok {
				continue
			}
			t.rows = append(t.rows, checkRow(label, arm, c))
			label = ""
			switch {
			case c.Absent != "":
				details = append(details, fmt.Sprintf("%s, %s, step %s: could not be made: %s", name, arm, c.step, c.Absent))
			case name == attribution.CheckWallCharged:
				reported = append(reported, arm+" "+c.Detail)
			case !c.OK && c.Detail != "":
				details = append(details, fmt.Sprintf("%s, %s, step %s: %s", name, arm, c.step, c.Detail))
			}
		}
		if len(reported) > 0 {
			details = append(details, name+": "+strings.Join(reported, "; "))
		}
	}
	if len(t.rows) == 0 {
		d.add(para{"No check could be made: no step has a result."})
		return
	}
	d.add(para{verdict(r)}, t)
	d.note(details)
	d.explain([]entry{
		{"figure, against, bound", "what was measured, what it is held against, and the allowed distance between both; of all steps of the arm that are not void the one nearest to its bound, or furthest beyond it"},
		{"ok", "yes: within the bound; NO: beyond it; " + absent + ": reported and not judged, or not made"},
	})
}

// verdict counts the bounds kept and broken over all steps that are not void.
func verdict(r *Report) string {
	kept, missed := 0, 0
	var names []string
	broken := map[string]int{}
	for _, a := range r.Arms {
		for _, s := range a.Steps {
			if s.Void() {
				continue
			}
			for _, c := range s.Checks {
				switch {
				case c.Absent != "":
					missed++
				case c.Bound == nil:
				case c.OK:
					kept++
				default:
					if broken[c.Name] == 0 {
						names = append(names, c.Name)
					}
					broken[c.Name]++
				}
			}
		}
	}
	text := fmt.Sprintf("All %d bounds are kept, over all steps", kept)
	if len(names) > 0 {
		var parts []string
		for _, name := range names {
			parts = append(parts, fmt.Sprintf("%s (%s)", name, plural(broken[name], "step")))
		}
		text = fmt.Sprintf("Bounds kept: %d, over all steps. Broken: %s", kept, strings.Join(parts, "; "))
	}
	if missed > 0 {
		text += fmt.Sprintf(". Not made: %s", plural(missed, "check"))
	}
	return text + "."
}

// checkNames is the union of all steps' checks, in the order they first appear.
func checkNames(r *Report) []string {
	var names []string
	seen := map[string]bool{}
	for _, a := range r.Arms {
		for _, s := range a.Steps {
			for _, c := range s.Checks {
				if !seen[c.Name] {
					seen[c.Name] = true
					names = append(names, c.Name)
				}
			}
		}
	}
	return names
}

type stepCheck struct {
	attribution.Check
	step string
}

// worstCheck picks the step whose check is furthest from what it is held
// against, measured in its bound. A check that could not be made counts only
// where none could.
func worstCheck(a *Arm, name string) (worst stepCheck, found bool) {
	badness := math.Inf(-1)
	for _, s := range a.Steps {
		if s.Void() {
			continue
		}
		for _, c := range s.Checks {
			if c.Name != name {
				continue
			}
			bad := math.Abs(c.Value - c.Want)
			switch {
			case c.Absent != "":
				bad = -1
			case c.Bound != nil && *c.Bound > 0:
				bad /= *c.Bound
			case c.Bound != nil && bad > 0:
				bad = math.Inf(1)
			}
			if !found || bad > badness {
				worst, badness, found = stepCheck{c, s.Name}, bad, true
			}
		}
	}
	return worst, found
}

func checkRow(label, arm string, c stepCheck) tableRow {
	row := tableRow{cells: []string{label, arm, absent, absent, absent, absent, c.step}}
	if c.Absent != "" {
		return row
	}
	scale, unit := checkUnit(c.Check)
	decimals := checkDecimals(c.Check, scale)
	row.cells[2] = number(c.Value/scale, decimals) + unit
	if c.Bound == nil {
		return row
	}
	row.cells[3] = number(c.Want/scale, decimals)
	row.cells[4] = number(*c.Bound/scale, decimals)
	row.cells[5] = "yes"
	if !c.OK {
		row.cells[5] = "NO"
		row.tone = toneBad
	}
	return row
}

// checkUnit picks milliseconds or microseconds for large times.
func checkUnit(c attribution.Check) (scale float64, unit string) {
	largest := math.Max(math.Abs(c.Value), math.Abs(c.Want))
	if c.Bound != nil {
		largest = math.Max(largest, *c.Bound)
	}
	switch {
	case c.Unit == "ns" && largest >= 1e6:
		return 1e6, " ms"
	case c.Unit == "ns" && largest >= 1e4:
		return 1e3, " µs"
	case c.Unit == "ratio" || c.Unit == "":
		return 1, ""
	}
	return 1, " " + c.Unit
}

// checkDecimals shows three digits of the bound, or of the figure without one.
func checkDecimals(c attribution.Check, scale float64) int {
	if c.Bound != nil && *c.Bound > 0 {
		return digitsFor(*c.Bound/scale, 3)
	}
	if v := c.Value / scale; v == math.Trunc(v) && c.Want/scale == math.Trunc(c.Want/scale) {
		return 0
	}
	return digitsFor(math.Max(math.Abs(c.Value), math.Abs(c.Want))/scale, 3)
}
