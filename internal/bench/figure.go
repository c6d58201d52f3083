//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
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

// missing adds a figure that could not be measured.
func (b *bench) missing(name, unit, goal string, reason error) {
	b.figures = append(b.figures, Figure{Name: b.group + "/" + name, Unit: unit, Goal: goal, Note: reason.Error()})
}

const tableWidth = 100

// printTable prints the figures in 100 columns, notes below them.
func printTable(w io.Writer, figures []Figure) {
	const nameWidth = 52
	fmt.Fprintf(w, "%-4s %-*s %12s %-8s %s\n", "", nameWidth, "figure", "value", "unit", "goal")
	for _, f := range figures {
		mark, value := "", "absent"
		switch {
		case f.Goal != "" && f.OK:
			mark = "ok"
		case f.Goal != "":
			mark = "MISS"
		}
		if f.Value != nil {
			value = readable(*f.Value)
		}
		name := f.Name
		if n := len([]rune(name)); n > nameWidth {
			fmt.Fprintf(w, "%-4s %s\n", mark, name)
			mark, name = "", ""
		}
		fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%-4s %-*s %12s %-8s %s", mark, nameWidth, name, value, f.Unit, f.Goal), " "))
		for _, line := range wrap(f.Note, tableWidth-7) {
			fmt.Fprintln(w, "       "+line)
		}
	}
}

// readable gives four significant digits without an exponent.
func readable(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e12 {
		return fmt.Sprintf("%.0f", v)
	}
	digits := 3 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", min(max(digits, 0), 9), v)
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
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
