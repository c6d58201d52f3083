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
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/arms/payload"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/loadgen"
)

// exitInterrupted is what `rung run` exits with after a signal that it ended
// cleanly for: 128 + SIGINT, as shells have it, whichever signal it was.
const exitInterrupted = 130

// runOptions are the flags of rung run.
type runOptions struct {
	out          string
	dryRun       bool
	json         bool
	profileSteps string
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run PLAN",
		Short: "Drive a campaign: arms × ladders × repeats, one arm up at a time",
		Long: `Drive the campaign of a plan (YAML): each arm is started, waited for, driven up a
ladder, and stopped, one at a time, in an order that is balanced over repeats
(ABBA); then print a table for each protocol and point of the sweep.

A step is void if the arm died or was started again by someone else within it,
or if its driver or agent voids it; it is driven again, up to the plan's redo.

All that is finished is in the directory (--out) and is never written again. A
campaign that was interrupted, killed, or stopped by a full disk goes on where it
was when the same command is run again; it has the same schedule and seeds. A
plan that was changed meanwhile is refused, with what differs.

Exit codes: 0 the campaign is complete and all its steps are sound; 1 a step
stayed void, an arm did not start, or the work failed; 2 the plan or a flag is
wrong, or this host lacks what it needs; 130 interrupted: the step that was
being driven is kept as interrupted and driven again by the next run.`,
		Example: `  rung run plan.yaml --dry-run
  rung run plan.yaml
  rung report plan.run`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPlan(cmd.Context(), args[0], o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.out, "out", "", "`DIR` of the campaign, made if it does not exist (default PLAN's name with .run, in the current directory)")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the schedule with its duration, and start nothing")
	f.BoolVar(&o.json, "json", false, "print JSON: the summary, or with --dry-run the schedule")
	f.StringVar(&o.profileSteps, "profile-steps", "", "steps with an agent's window instead of the plan's: all, none or top:N")
	return cmd
}

// knownToPlans is what plans may name.
func knownToPlans() campaign.Known {
	var k campaign.Known
	for _, p := range loadgen.Protocols() {
		k.Protocols = append(k.Protocols, string(p))
	}
	for _, t := range payload.Tiers() {
		k.Bodies = append(k.Bodies, string(t))
	}
	k.Slots = func(l campaign.Load) (int, error) {
		c, err := driverConfig(l)
		if err == nil {
			err = planError(c.Validate())
		}
		return c.MaxInFlight, err
	}
	return k
}

// readPlan reads a plan and makes its schedule. Its errors are usage errors.
func readPlan(path string, o runOptions) (*campaign.Plan, campaign.Schedule, error) {
	wrong := func(err error) (*campaign.Plan, campaign.Schedule, error) {
		return nil, campaign.Schedule{}, exitError{exitUsage, err}
	}
	f, err := os.Open(path)
	if err != nil {
		return wrong(fmt.Errorf("read the plan: %w", err))
	}
	defer f.Close()
	known := knownToPlans()
	plan, err := campaign.Parse(path, f, known)
	if err != nil {
		return wrong(err)
	}
	if plan.Name == "" {
		plan.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if o.profileSteps != "" {
		choice, err := campaign.ParseChoice(o.profileSteps)
		if err != nil {
			return wrong(fmt.Errorf("--profile-steps %w", err))
		}
		plan.Ladder.Profile = choice
	}
	schedule, err := plan.Schedule(known)
	if err != nil {
		return wrong(fmt.Errorf("%s: %w", path, err))
	}
	for _, l := range schedule.Ladders {
		if err := checkLoad(l); err != nil {
			return wrong(fmt.Errorf("%s: ladder %s: %w", path, l.ID, err))
		}
	}
	return plan, schedule, nil
}

// driverConfig is what the driver makes of a plan's load, without its steps.
func driverConfig(load campaign.Load) (loadgen.Config, error) {
	o := loadOptions{protocol: load.Protocol, onVoid: string(loadgen.OnVoidContinue), body: "tiny"}
	o.config = loadgen.Config{
		Address: "127.0.0.1:1", Path: load.Path, Method: load.Method, ContentType: load.ContentType, ReplyLength: load.ReplyLength,
		Connections: load.Connections, Streams: load.Streams, MaxInFlight: load.InFlight, Timeout: load.Timeout.Std(), Drain: load.Drain.Std(),
		ConnectTimeout: load.ConnectTimeout.Std(), MaxLateness: load.MaxLateness.Std(), Poisson: load.Poisson,
	}
	return o.effective()
}

// checkLoad asks the driver whether it can drive a ladder's steps, so that no
// campaign stops in its middle over a flag.
func checkLoad(l campaign.Ladder) error {
	c, err := driverConfig(l.Setting.Load)
	if err != nil {
		return err
	}
	c.Arm, c.Settle, c.IterationsPerSlot = l.ArmName, l.Setting.Spec.Settle.Std(), l.Setting.Spec.IterationsPerSlot
	if a := l.Setting.Arm.Address; a != "" { // else the arm will say
		c.Address = a
	}
	for _, s := range l.Steps {
		if s.OfferedHz > 0 { // not one that a search will find
			c.Steps = append(c.Steps, loadgen.Step{Index: s.Index, OfferedHz: s.OfferedHz, Duration: s.Duration.Std(), Warmup: s.Unmeasured()})
		}
	}
	return planError(c.Validate())
}

// planError spells a field of the driver as the plan's key.
func planError(err error) error {
	var bad *loadgen.ConfigError
	if errors.As(err, &bad) {
		return fmt.Errorf("%s %s: want %s", strings.ReplaceAll(bad.Name, "-", "_"), bad.Value, bad.Want)
	}
	return err
}

// runPlan is the command.
func runPlan(ctx context.Context, path string, o runOptions, stdout, stderr io.Writer) error {
	plan, schedule, err := readPlan(path, o)
	if err != nil {
		return err
	}
	if o.dryRun {
		if o.json {
			return printJSON(stdout, schedule)
		}
		return schedule.Print(stdout, plan)
	}
	if o.out == "" {
		o.out = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)) + ".run"
	}
	c, err := newCampaign(path, o.out, plan, schedule, stderr)
	if err != nil {
		return err
	}
	runErr := c.run(ctx)
	summary, err := c.summarise()
	if err != nil {
		return errors.Join(runErr, err)
	}
	if err := c.writeSummary(summary); err != nil && runErr == nil {
		runErr = err
	}
	show := summary.Text
	if o.json {
		show = func(w io.Writer) error { return printJSON(w, summary) }
	}
	if err := show(stdout); err != nil {
		return err
	}
	return c.verdict(ctx, summary, runErr)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// summarise reads what is finished back from the directory.
func (c *campaignRun) summarise() (campaign.Summary, error) {
	var results []campaign.Result
	for _, l := range c.schedule.Ladders {
		r, err := c.dir.read(l)
		if err != nil {
			return campaign.Summary{}, err
		}
		results = append(results, r)
	}
	s := c.plan.Summarise(results)
	for _, session := range c.dir.record.Sessions {
		for _, w := range session.Warnings {
			if !slices.Contains(s.Notes, w) {
				s.Notes = append(s.Notes, w)
			}
		}
	}
	return s, nil
}

func (c *campaignRun) writeSummary(s campaign.Summary) error {
	var b bytes.Buffer
	if err := s.Markdown(&b); err != nil {
		return err
	}
	return c.dir.disk.writeFile(c.dir.file(campaign.SummaryFile), b.Bytes())
}

// verdict is what the command ends with.
func (c *campaignRun) verdict(ctx context.Context, s campaign.Summary, runErr error) error {
	again := fmt.Sprintf("%d of %d ladders in %s are complete: the same command goes on from there", s.Finished, s.Ladders, c.dir.path)
	var full *fullDiskError
	var coded exitError
	switch {
	case ctx.Err() != nil:
		return exitError{exitInterrupted, fmt.Errorf("interrupted; %s", again)}
	case errors.As(runErr, &full):
		return exitError{exitFailure, runErr}
	case errors.As(runErr, &coded):
		return exitError{coded.code, fmt.Errorf("%w\n%s", runErr, again)}
	case runErr != nil:
		return exitError{exitFailure, fmt.Errorf("%w\n%s", runErr, again)}
	}
	void := 0
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			void += r.Void
		}
	}
	if void > 0 {
		return exitError{exitFailure, fmt.Errorf("%d steps in %s stayed void; 'rung report %s' says why", void, c.dir.path, c.dir.path)}
	}
	return nil
}
