//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
)

// Figure is one measured number and what it should be.
type Figure struct {
	Name string `json:"name"` // group/what
	// Value is absent where it could not be measured: Note says why.
	Value *float64 `json:"value,omitempty"`
	Unit  string   `json:"unit"`
	Goal  string   `json:"goal"` // empty: stated, not judged
	// OK is false where the goal was missed, or the value is absent. A stated
	// figure is always OK.
	OK   bool   `json:"ok"`
	Note string `json:"note,omitempty"`
}

// state adds a figure without a goal.
func (b *bench) state(name string, value float64, unit, note string) {
	b.figures = append(b.figures, Figure{Name: b.group + "/" + name, Value: &value, Unit: unit, OK: true, Note: note})
}

// judge adds a figure that meets its goal or does not.
func (b *bench) judge(name string, value float64, unit, goal string, ok bool, note string) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		b.missing(name, unit, goal, fmt.Errorf("no number came of it (%v); %s", value, note))
		return
	}
	b.figures = append(b.figures, Figure{Name: b.group + "/" + name, Value: &value, Unit: unit, Goal: goal, OK: ok, Note: note})
}

// atMost adds a figure whose goal is an upper bound.
func (b *bench) atMost(name string, value float64, unit string, bound float64, note string) {
	b.judge(name, value, unit, fmt.Sprintf("≤ %.4g", bound), value <= bound, note)
}

// near adds a figure whose goal is a prediction within a share of it.
func (b *bench) near(name string, value, predicted, share float64, unit, note string) {
	b.judge(name, value, unit, fmt.Sprintf("%.5g ± %g %%", predicted, 100*share), math.Abs(value-predicted) <= share*predicted, note)
}

// missing adds a figure that could not be measured.
func (b *bench) missing(name, unit, goal string, reason error) {
	b.figures = append(b.figures, Figure{Name: b.group + "/" + name, Unit: unit, Goal: goal, Note: reason.Error()})
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func printTable(w io.Writer, figures []Figure) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "\tfigure\tvalue\tunit\tgoal")
	for _, f := range figures {
		mark, value := "", "absent"
		switch {
		case f.Goal != "" && f.OK:
			mark = "ok"
		case f.Goal != "":
			mark = "MISS"
		}
		if f.Value != nil {
			value = fmt.Sprintf("%.5g", *f.Value)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", mark, f.Name, value, f.Unit, f.Goal)
	}
	_ = t.Flush()
	for _, f := range figures {
		if f.Note != "" {
			fmt.Fprintf(w, "%s: %s\n", f.Name, f.Note)
		}
	}
}

func writeJSON(path string, figures []Figure) error {
	text, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
