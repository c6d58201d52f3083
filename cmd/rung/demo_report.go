//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rungprof/rung/report"
)

// Files of the report in a demo's directory.
const (
	demoMarkdown = "report.md"
	demoJSON     = "report.json"
)

// report reads the runs back, writes the report beside them and prints it.
func (d *demo) report(ctx context.Context, stdout io.Writer) error {
	r, err := d.analyse()
	if err != nil {
		return fmt.Errorf("read the runs in %s: %w", d.dir, err)
	}
	r.Warnings = append(r.Warnings, d.record.Failures...)
	r.Warnings = append(r.Warnings, d.record.Warnings...)
	if err := ctx.Err(); err != nil {
		return err
	}
	asJSON := func(w io.Writer) error { return report.JSON(w, &r) }
	for file, render := range map[string]func(io.Writer) error{
		demoMarkdown: func(w io.Writer) error { return report.Markdown(w, &r) },
		demoJSON:     asJSON,
	} {
		if err := reportToFile(filepath.Join(d.dir, file), render); err != nil {
			return err
		}
	}
	if d.options.JSON {
		return asJSON(stdout)
	}
	return report.Terminal(stdout, &r, report.TerminalOptions{Colour: reportColour(stdout)})
}

// analyse reads the runs together.
func (d *demo) analyse() (report.Report, error) {
	var dirs []string
	for _, a := range d.runs() {
		dirs = append(dirs, d.armDir(a))
	}
	r, err := analyse(dirs, analyseOptions{Title: "Rung demo"})
	r.Dir = d.dir
	return r, err
}
