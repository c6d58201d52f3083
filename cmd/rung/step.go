//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/foreign"
	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// stepOptions are the flags of rung step start and end.
type stepOptions struct {
	agent   loadgen.AgentConfig
	target  string
	run     string
	step    string
	expires time.Duration

	delivered int64 // below 0: not given
	offered   float64
	warmup    bool
	result    string
	logs      logOptions
	out       string
	arm       string
}

func newStepCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "step",
		Short: "Open and close a window around a load that something else drives",
		Long: `Open an agent's window before a script drives its load, close it behind, and keep
what was measured as a step of a run, divided by the number of requests that the
script says were delivered:

  rung step start --agent unix:///run/rung.sock --target arm --run R --step 400
  nighthawk_client --rps 400 … >400.json
  rung step end --agent unix:///run/rung.sock --run R --step 400 --offered 400 --result 400.json --out R
  rung report R

Both print a line '#RUNG-STEP {…}' with the edge.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newStepStartCommand(), newStepEndCommand())
	return cmd
}

func addStepFlags(cmd *cobra.Command, o *stepOptions) {
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.agent.Address, "agent", "", "agent that measures: unix:///PATH or HOST:PORT")
	f.StringVar(&o.run, "run", "", "id of the run, the same for all its steps")
	f.StringVar(&o.step, "step", "", "name of the step, the same at its start and end")
	for _, name := range []string{"agent", "run", "step"} {
		cobra.CheckErr(cmd.MarkFlagRequired(name))
	}
}

func newStepStartCommand() *cobra.Command {
	var o stepOptions
	cmd := &cobra.Command{
		Use:   "start --agent ADDRESS --target NAME --run RUN --step STEP",
		Short: "Open the window of a step",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return startStep(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	addStepFlags(cmd, &o)
	cmd.Flags().StringVar(&o.target, "target", "", "`NAME` of the agent's target")
	cmd.Flags().DurationVar(&o.expires, "expires", time.Hour, "the window closes by itself after this, 1s to 24h")
	cobra.CheckErr(cmd.MarkFlagRequired("target"))
	return cmd
}

func startStep(ctx context.Context, o stepOptions, stdout io.Writer) error {
	if o.expires < time.Second || o.expires > 24*time.Hour {
		return exitError{exitUsage, fmt.Errorf("--expires %s: want 1s to 24h", o.expires)}
	}
	o.agent.Targets = []string{o.target}
	w, err := loadgen.OpenWindow(o.agent, o.run)
	if err != nil {
		return exitError{exitUsage, flagError(err)}
	}
	defer w.Close()
	marker, err := w.Start(ctx, o.step, o.expires)
	if err != nil {
		return err
	}
	return loadgen.WriteMarker(stdout, marker)
}

func newStepEndCommand() *cobra.Command {
	var o stepOptions
	cmd := &cobra.Command{
		Use:   "end --agent ADDRESS --run RUN --step STEP (--delivered N | --result FILE) --out DIR",
		Short: "Close the window of a step and keep it",
		Long: `Close the window of a step and write it to the run directory DIR, which the first
step makes: the agent's record and profile, and what the load got, which is
--delivered N or what the output of Nighthawk, k6 or wrk in --result says.

All that was delivered counts as delivered in the window: open it when the load
begins, and close it when it ends. A command that failed after that, over a wrong
file or a full disk, can be given again: the agent keeps the step.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return endStep(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	addStepFlags(cmd, &o)
	f := cmd.Flags()
	f.Int64Var(&o.delivered, "delivered", -1, "requests that succeeded within the window, 0 or more")
	f.StringVar(&o.result, "result", "", "`FILE` with one result of Nighthawk, k6 or wrk, gzipped or not")
	f.Float64Var(&o.offered, "offered", 0, "offered rate, requests per second, above 0 to 1e9 (default the result's; of a closed loop what was delivered per second)")
	f.BoolVar(&o.warmup, "warmup", false, "mark the step as warm-up: it is in no comparison")
	f.StringVar(&o.out, "out", "", "`DIR` of the run, made if it does not exist")
	f.StringVar(&o.arm, "arm", "", "`NAME` of the arm in the results (default the agent's target)")
	addLogFlags(f, &o.logs)
	cobra.CheckErr(cmd.MarkFlagRequired("out"))
	return cmd
}

// endStep closes the window first of all: what comes after takes its time.
func endStep(ctx context.Context, o stepOptions, stdout, stderr io.Writer) error {
	if (o.delivered < 0) == (o.result == "") {
		return exitError{exitUsage, errors.New("give either --delivered N, the requests that succeeded, or --result FILE")}
	}
	if o.offered != 0 && !(o.offered > 0 && o.offered <= rundir.MaxOfferedHz) {
		return exitError{exitUsage, fmt.Errorf("--offered %g: want requests per second above 0 to %g", o.offered, float64(rundir.MaxOfferedHz))}
	}
	if o.delivered == 0 && o.offered == 0 {
		return exitError{exitUsage, errors.New("--delivered 0 says nothing of what was offered: give --offered too")}
	}
	options, err := o.logs.options()
	if err != nil {
		return err
	}
	o.agent.Targets = []string{"-"} // the open window has them
	w, err := loadgen.OpenWindow(o.agent, o.run)
	if err != nil {
		return exitError{exitUsage, flagError(err)}
	}
	defer w.Close()
	marker, got, err := w.End(ctx, o.step)
	if err != nil {
		return err
	}
	result := foreign.Result{Delivered: ptrTo(uint64(max(o.delivered, 0)))}
	if o.result != "" {
		if result, err = oneResult(o.result, options); err != nil {
			return err
		}
	}
	dir, err := o.open(got[0].Record.GetTarget().GetName())
	if err != nil {
		return err
	}
	s, err := o.rundirStep(dir, result, got)
	if err != nil {
		return err
	}
	if err := dir.WriteStep(s); err != nil {
		return err
	}
	if err := loadgen.WriteMarker(stdout, marker); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stderr, "rung step: %s\n", dir.StepPath(rundir.StepName(s.Index, s.OfferedHz)))
	return err
}

// oneResult is the only result of a file.
func oneResult(path string, options foreign.Options) (foreign.Result, error) {
	log, err := readLog(path, options)
	if err != nil {
		return foreign.Result{}, err
	}
	var found []*foreign.Result
	for _, s := range log.Steps {
		if s.Result != nil {
			found = append(found, s.Result)
		}
	}
	switch {
	case len(found) != 1:
		return foreign.Result{}, fmt.Errorf("%s holds %d results of Nighthawk, k6 or wrk; want one", path, len(found))
	case found[0].Delivered == nil:
		return foreign.Result{}, fmt.Errorf("%s: the result has no counter of success; name it (--ok-counter), or give --delivered", path)
	}
	return *found[0], nil
}

// open opens the run directory, or makes it.
func (o stepOptions) open(target string) (*rundir.Dir, error) {
	d, err := rundir.Open(o.out)
	if !errors.Is(err, fs.ErrNotExist) {
		if err == nil && d.Run().ID != o.run {
			return nil, fmt.Errorf("%s holds run %s, not %s; name another directory", o.out, d.Run().ID, o.run)
		}
		return d, err
	}
	return rundir.Create(o.out, rundir.Run{
		ID: o.run, Arm: cmp.Or(o.arm, target), Started: time.Now(), Host: driverHost(os.Args[1:]),
		Plan: rundir.Plan{Agent: o.agent.Address, AgentTarget: target},
	})
}

// rundirStep puts the caller's counts beside the agent's records. What the caller
// does not say is noted as unknown.
func (o stepOptions) rundirStep(dir *rundir.Dir, r foreign.Result, got []loadgen.AgentRecord) (rundir.Step, error) {
	steps, err := dir.Steps()
	if err != nil {
		return rundir.Step{}, err
	}
	s := rundir.Step{Warmup: o.warmup, OfferedHz: o.offered, Record: got[0].Record, ProfileGz: got[0].ProfileGz}
	for _, before := range steps {
		s.Index = max(s.Index, before.Index)
	}
	if s.Index++; len(steps) == 0 && o.warmup {
		s.Index = 0
	}
	for _, other := range got[1:] {
		s.Others = append(s.Others, rundir.Other{Name: rundir.OtherName(other.Record.GetTarget().GetName(), s.Others), Record: other.Record, ProfileGz: other.ProfileGz})
	}
	window := s.Record.GetWindow()
	c := &rundir.ClientStep{
		Index: s.Index, Warmup: s.Warmup, Delivered: *r.Delivered, DeliveredInWindow: *r.Delivered, Errors: r.Errors, Deferred: r.Deferred,
		WindowStartMonoNs: window.GetStartMonoNs(), WindowEndMonoNs: window.GetEndMonoNs(), BootID: window.GetBootId(),
		FirstSendMonoNs: window.GetStartMonoNs(), LastSendMonoNs: window.GetEndMonoNs(), DrainEndMonoNs: window.GetEndMonoNs(),
		Warnings: append([]string{"imported: what was delivered is the caller's figure, for the whole window"}, r.Notes...),
		Unknown:  []string{rundir.UnknownInFlight},
	}
	c.Sent = c.Delivered + c.ErrorsTotal()
	c.Completed, c.Scheduled = c.Sent, c.Sent+c.DeferredTotal()
	if r.Overflow != nil {
		c.Overflow = *r.Overflow
		c.Scheduled += c.Overflow
	} else {
		c.Unknown = append(c.Unknown, rundir.UnknownOverflow)
	}
	if r.P50Ms != nil && r.P99Ms != nil && r.P999Ms != nil && r.P90Ms != nil && r.MaxMs != nil {
		c.ResponseMs = &rundir.LatencyMs{P50: *r.P50Ms, P90: *r.P90Ms, P99: *r.P99Ms, P999: *r.P999Ms, Max: *r.MaxMs}
	}
	if s.OfferedHz == 0 && r.OfferedHz != nil {
		s.OfferedHz = *r.OfferedHz
	}
	if seconds := c.WindowSeconds(); s.OfferedHz == 0 && seconds > 0 {
		s.OfferedHz = max(math.Round(10*float64(c.Delivered)/seconds)/10, 0.1)
		c.Warnings = append(c.Warnings, "imported: nobody said what was offered; what was delivered per second is taken for it")
	}
	c.OfferedHz, c.Name = s.OfferedHz, rundir.StepName(s.Index, s.OfferedHz)
	s.Client = c
	return s, nil
}
