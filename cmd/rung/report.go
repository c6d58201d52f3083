//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// reportOptions are the flags of rung report.
type reportOptions struct {
	JSON, Markdown bool
	Output         string
	Presets        []string
	Charge         string
	Groups         []string
	logs           logOptions
}

func newReportCommand() *cobra.Command {
	o := reportOptions{Presets: []string{defaultPreset}, Charge: string(attribution.Leaf)}
	cmd := &cobra.Command{
		Use:   "report DIR|LOG",
		Short: "Print what a run, or a directory of runs, measured",
		Long: `Print the ladders, layers, accounts and checks of the runs in DIR: a directory
that rung load wrote, or one that holds several of them, as rung demo's does.

DIR may also be a log of another load generator, or a directory of such logs,
gzipped or not: Nighthawk's JSON or text, the summaries of k6, wrk and wrk2, each a
step, parted by marker lines where a log holds several (--marker). What a tool
does not say is shown as absent.

Figures that were not measured are shown as "–" with the reason. A void step is
shown with its flag and used in nothing. Nothing in DIR is changed.`,
		Example: `  rung report rung-demo-20260906-202700
  rung report RUN --charge owner
  rung report RUN --json --output run.json
  rung report results/2026-09-06-phaseA`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runReport(cmd.Context(), args[0], o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.JSON, "json", false, "print JSON, with every step's layers, account and checks")
	f.BoolVar(&o.Markdown, "markdown", false, "print Markdown")
	f.StringVar(&o.Output, "output", "", "write to this file instead of standard output; an existing file is replaced")
	f.StringSliceVar(&o.Presets, "preset", o.Presets,
		"rules that name the layers: presets ("+strings.Join(attribution.Presets(), ", ")+") or files; a later one is tried before an earlier one")
	f.StringVar(&o.Charge, "charge", o.Charge,
		"to whom CPU time goes: leaf (self time) or owner (copying, allocation and locks to the nearest caller with a layer)")
	addGroupFlag(f, &o.Groups)
	addLogFlags(f, &o.logs)
	f.Lookup("group").Usage += " (default the groups that the run was measured with)"
	return cmd
}

// runReport prints one report.
func runReport(ctx context.Context, dir string, o reportOptions, stdout io.Writer) error {
	if o.JSON && o.Markdown {
		return exitError{exitUsage, errors.New("--json and --markdown exclude each other")}
	}
	charge, err := attribution.ParseCharge(o.Charge)
	if err != nil {
		return exitError{exitUsage, fmt.Errorf("--%w", err)}
	}
	rules, err := loadRules(o.Presets, nil)
	if err != nil {
		return exitError{exitUsage, err}
	}
	groups, err := threadGroups(o.Groups, rules)
	if err != nil {
		return exitError{exitUsage, err}
	}
	r, err := analyseRunsOrLogs(dir, analyseOptions{Rules: rules, RulesName: rulesName(o.Presets), Charge: charge, Groups: groups}, o.logs)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	render := func(w io.Writer) error {
		return report.Terminal(w, &r, report.TerminalOptions{Colour: reportColour(w)})
	}
	switch {
	case o.JSON:
		render = func(w io.Writer) error { return report.JSON(w, &r) }
	case o.Markdown:
		render = func(w io.Writer) error { return report.Markdown(w, &r) }
	}
	if o.Output == "" {
		return render(stdout)
	}
	return reportToFile(o.Output, render)
}

// analyseRunsOrLogs reads what path holds: runs of Rung, or logs of other tools.
func analyseRunsOrLogs(path string, opts analyseOptions, logs logOptions) (report.Report, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return report.Report{}, err
	}
	if !logs.given() && fi.IsDir() {
		r, err := analyse([]string{path}, opts)
		if !errors.Is(err, rundir.ErrNoRun) {
			return r, err
		}
	}
	return analyseLogs(path, logs, ladder.DefaultKneeRule())
}

// rulesName names presets and rule files for a reader.
func rulesName(presets []string) string {
	names := slices.Clone(presets)
	for i, n := range names {
		if slices.Contains(attribution.Presets(), n) {
			names[i] = "preset " + n
		}
	}
	return strings.Join(names, " + ")
}

// reportColour says whether w is a terminal whose user has not declined colour.
func reportColour(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// reportToFile writes a file whole or not at all.
func reportToFile(path string, render func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".rung-report-*")
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	defer os.Remove(f.Name()) // fails once it has been renamed
	err = render(f)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write report to %s: %w", path, err)
	}
	return nil
}
