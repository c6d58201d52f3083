//go:build linux

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/rungprof/rung/attribution"
)

// printTable prints one profile's layers: a line each, its functions below it.
func printTable(w io.Writer, t *attribution.Table) error {
	fmt.Fprintf(w, "%s\n%s %s in %d samples", t.Title(), quantity(t.TotalNs, t.Unit), unitName(t.Unit), t.Samples)
	if t.MsPerRequest != nil {
		fmt.Fprintf(w, ", %.4g ms/req over %d requests", *t.MsPerRequest, t.Requests)
	}
	fmt.Fprint(w, "\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	head := "share\t± 95 %\t"
	if t.MsPerRequest != nil {
		head += "ms/req\t"
	}
	fmt.Fprintf(tw, "%s%s\t  layer\n", head, unitName(t.Unit))
	for _, row := range append(t.Rows[:len(t.Rows):len(t.Rows)], t.Unattributed...) {
		printRow(tw, t, row)
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("print the table: %w", err)
	}
	var notes []string
	if t.Bootstrap.TooFew != "" {
		notes = append(notes, "no reliable intervals: "+t.Bootstrap.TooFew)
	} else {
		notes = append(notes, fmt.Sprintf("intervals: bootstrap over %d blocks, %d resamples; * fewer than %d samples",
			t.Bootstrap.Blocks, t.Bootstrap.Resamples, attribution.MinSamples))
	}
	notes = append(notes, t.Warnings...)
	for _, n := range notes {
		if _, err := fmt.Fprintf(w, "\n%s", n); err != nil {
			return fmt.Errorf("print the table: %w", err)
		}
	}
	_, err := fmt.Fprintln(w)
	return err
}

func printRow(w io.Writer, t *attribution.Table, row attribution.Row) {
	plusMinus := "–"
	if iv := row.Share.Interval; iv != nil {
		plusMinus = fmt.Sprintf("%.1f", 100*iv.HalfWidth())
		if row.TooFew != "" {
			plusMinus += "*"
		}
	}
	fmt.Fprintf(w, "%.1f %%\t%s\t", 100*row.Share.Value, plusMinus)
	if t.MsPerRequest != nil {
		fmt.Fprintf(w, "%.4f\t", row.MsPerRequest.Value)
	}
	fmt.Fprintf(w, "%s\t  %s\n", quantity(row.Ns, t.Unit), printable(row.Layer))
	for _, f := range row.Functions {
		fmt.Fprintf(w, "%.1f %%\t\t", 100*f.Share)
		if t.MsPerRequest != nil {
			fmt.Fprintf(w, "%.4f\t", *f.MsPerRequest)
		}
		fmt.Fprintf(w, "%s\t      %s\n", quantity(f.Ns, t.Unit), printable(short(f.Name)))
	}
}

func unitName(unit string) string {
	if unit == "nanoseconds" {
		return "ms"
	}
	return printable(unit)
}

func quantity(v int64, unit string) string {
	if unit == "nanoseconds" {
		return fmt.Sprintf("%.1f", float64(v)/1e6)
	}
	return strconv.FormatInt(v, 10)
}

// printable keeps a hostile name from steering the terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.QuoteToGraphic(s)
	}
	return s
}

// maxName bounds a function's name on the terminal, in runes.
const maxName = 80

// short leaves out the type arguments of Go's generics, which may fill a screen,
// and cuts what is still too long. JSON has the full names.
func short(name string) string {
	var b strings.Builder
	depth := 0
	for _, r := range name {
		switch {
		case r == '[':
			if depth++; depth == 1 && b.Len() > 0 {
				b.WriteString("[...]")
				continue
			}
		case r == ']' && depth > 0:
			if depth--; depth == 0 && strings.HasSuffix(b.String(), "[...]") {
				continue
			}
		}
		if depth == 0 || !strings.HasSuffix(b.String(), "[...]") {
			b.WriteRune(r)
		}
	}
	if out := []rune(b.String()); len(out) > maxName {
		return string(out[:maxName-1]) + "…"
	}
	return b.String()
}
