//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// tuneDriver lets the garbage collector run less often: the driver's live heap
// is a few megabytes, and a collection in the middle of a step delays sends.
func tuneDriver() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(800)
	}
}

func calibrateLoad(ctx context.Context, c loadgen.Config, duration time.Duration, stdout io.Writer) error {
	got, err := loadgen.Calibrate(ctx, c, duration)
	if err != nil {
		var bad *loadgen.ConfigError
		if errors.As(err, &bad) {
			return exitError{exitUsage, flagError(err)}
		}
		return exitError{exitFailure, err}
	}
	return json.NewEncoder(stdout).Encode(got)
}

// loadResult is what --json prints.
type loadResult struct {
	Run     string               `json:"run"`
	Arm     string               `json:"arm"`
	Out     string               `json:"out,omitempty"`
	Steps   []loadgen.StepResult `json:"steps"`
	Void    []string             `json:"void,omitempty"`
	Missing []string             `json:"missing,omitempty"`
	Error   string               `json:"error,omitempty"`
}

func driveLoad(ctx context.Context, o loadOptions, c loadgen.Config, stdout, stderr io.Writer) error {
	w := &runWriter{path: o.out, run: describeRun(o, c)}
	if err := w.check(); err != nil {
		return exitError{exitUsage, err}
	}
	result := loadResult{Run: c.Run, Arm: c.Arm, Out: o.out}
	progress := newLoadProgress(stderr, c)
	table, err := newStepTable(o.csv)
	if err != nil {
		return exitError{exitUsage, err}
	}
	hooks := loadgen.Hooks{
		Markers: stdout,
		StepDone: func(s loadgen.Outcome) error {
			result.Steps = append(result.Steps, s.Result)
			progress.done(s.Result)
			return errors.Join(w.write(s), table.write(s.Result))
		},
	}
	if o.extend > 0 {
		hooks.More = higherStep(o.extend)
	}
	if progress.live() {
		hooks.Progress = progress.show
	}
	sum, err := loadgen.Run(ctx, c, hooks)
	progress.finish()
	err = errors.Join(err, table.close())
	for _, m := range sum.Missing {
		fmt.Fprintf(stderr, "rung load: step %s\n", m)
	}
	return o.conclude(result, sum, len(c.Steps), err, stdout)
}

// conclude prints the results where that is asked for, and gives the error that
// the run as a whole ends with.
func (o *loadOptions) conclude(result loadResult, sum loadgen.Summary, planned int, err error, stdout io.Writer) error {
	result.Void, result.Missing = sum.Void, sum.Missing
	if o.json {
		if err != nil {
			result.Error = err.Error()
		}
		data, jsonErr := json.MarshalIndent(result, "", "  ")
		if jsonErr == nil {
			_, jsonErr = fmt.Fprintf(stdout, "%s\n", data)
		}
		err = errors.Join(err, jsonErr)
	}
	if err = loadVerdict(sum, planned, err); err == nil && o.limited == limitedFail {
		err = limitedVerdict(result.Steps)
	}
	return err
}

// limitedVerdict is the error of a run whose steps are sound but measured, in one
// or more, the driver. A warm-up step decides nothing.
func limitedVerdict(steps []loadgen.StepResult) error {
	var lines []string
	for _, s := range steps {
		if len(s.ClientLimited) > 0 && !s.Warmup {
			lines = append(lines, fmt.Sprintf("client-limited step %s: %s", s.Name, s.ClientLimited[0].Why))
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return exitError{exitLimited, errors.New(strings.Join(lines, "\n  "))}
}

// higherStep asks once for a step at a multiple of the last one's rate, if that
// keeps up by the default rule: the ladder has not found its knee.
func higherStep(factor float64) func(loadgen.Outcome) float64 {
	asked := false
	return func(last loadgen.Outcome) float64 {
		step, err := runStep(last)
		if asked || err != nil { // an error ends the run when the step is written
			return 0
		}
		asked = true
		if keeps, _ := ladder.DefaultKneeRule().Keeps(ladder.New(observe(step))); !keeps {
			return 0
		}
		return factor * last.Step.OfferedHz
	}
}

// loadVerdict is the error that the run as a whole ends with.
func loadVerdict(sum loadgen.Summary, planned int, err error) error {
	if err == nil && len(sum.Void) == 0 {
		return nil
	}
	var lines []string
	for _, v := range sum.Void {
		lines = append(lines, "void step "+v)
	}
	if sum.Stopped {
		lines = append(lines, fmt.Sprintf("stopped after %d of %d steps (--on-void stop)", sum.Steps, planned))
	}
	if err != nil {
		lines = append(lines, err.Error())
	}
	return exitError{exitFailure, errors.New(strings.Join(lines, "\n  "))}
}

// runWriter writes steps to a run directory, which it makes with the first of
// them: a run that found no service leaves nothing behind.
type runWriter struct {
	path string // empty writes nothing
	run  rundir.Run
	dir  *rundir.Dir
}

// check refuses a directory in use before any load is driven.
func (w *runWriter) check() error {
	if w.path == "" {
		return nil
	}
	entries, err := os.ReadDir(w.path)
	if len(entries) > 0 {
		return fmt.Errorf("--out %s: it exists and is not empty; name a new directory (a run is never overwritten)", w.path)
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("--out: %w", err)
	}
	return w.run.Validate()
}

func (w *runWriter) write(o loadgen.Outcome) error {
	if w.path == "" {
		return nil
	}
	if w.dir == nil {
		dir, err := rundir.Create(w.path, w.run)
		if err != nil {
			return err
		}
		w.dir = dir
	}
	s, err := runStep(o)
	if err != nil {
		return err
	}
	return w.dir.WriteStep(s)
}

// otherTargets are the records beside the arm's own.
func otherTargets(o loadgen.Outcome) []rundir.Other {
	var others []rundir.Other
	for _, a := range slices.Concat(o.Agent[min(1, len(o.Agent)):], o.Also) {
		name := rundir.OtherName(a.Record.GetTarget().GetName(), others)
		others = append(others, rundir.Other{Name: name, Record: a.Record, ProfileGz: a.ProfileGz})
	}
	return others
}

// runStep is a finished step as a run keeps it.
func runStep(o loadgen.Outcome) (rundir.Step, error) {
	client, err := clientStep(o.Result)
	if err != nil {
		return rundir.Step{}, err
	}
	s := rundir.Step{
		Index: o.Step.Index, Name: o.Result.Name, OfferedHz: o.Step.OfferedHz, Warmup: o.Step.Warmup,
		Client: client, Hlog: o.Hlog,
	}
	if s.Beside, err = besideStep(o); err != nil {
		return rundir.Step{}, err
	}
	if len(o.Agent) > 0 {
		s.Record, s.ProfileGz = o.Agent[0].Record, o.Agent[0].ProfileGz
	}
	s.Others = otherTargets(o)
	return s, nil
}

// besideStep are the files of a step for other tools: percentile distributions
// and the series.
func besideStep(o loadgen.Outcome) (map[string][]byte, error) {
	files := map[string][]byte{}
	if len(o.Points) > 0 {
		series, err := loadgen.SeriesCSV(o.Points)
		if err != nil {
			return nil, fmt.Errorf("series of step %s: %w", o.Result.Name, err)
		}
		files["series.csv"] = series
	}
	for name, data := range map[string][]byte{"response.hgrm": o.ResponseHgrm, "service.hgrm": o.ServiceHgrm} {
		if len(data) > 0 {
			files[name] = data
		}
	}
	return files, nil
}

// clientStep converts by way of JSON, the shape that both types promise.
func clientStep(r loadgen.StepResult) (*rundir.ClientStep, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("convert step %s: %w", r.Name, err)
	}
	var c rundir.ClientStep
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("convert step %s: %w", r.Name, err)
	}
	return &c, nil
}
