//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/rundir"
)

// campaignRun is one session of a campaign.
type campaignRun struct {
	plan     *campaign.Plan
	schedule campaign.Schedule
	dir      *campaignDir
	stage    stage
	// provenance goes into each ladder's run.json.
	provenance rundir.Provenance
	now        func() time.Time
	out        io.Writer // progress
	// live is nil in tests that stage no processes.
	live *liveStage
	host campaign.Host
}

// newCampaign checks what the plan needs of this host and opens the directory.
func newCampaign(planFile, out string, plan *campaign.Plan, schedule campaign.Schedule, stderr io.Writer) (*campaignRun, error) {
	c := &campaignRun{plan: plan, schedule: schedule, now: time.Now, out: stderr, provenance: driverHost(os.Args[1:])}
	base, err := filepath.Abs(filepath.Dir(planFile))
	if err != nil {
		return nil, err
	}
	c.live = &liveStage{plan: plan, base: base, token: fmt.Sprintf("rung-run-%x-%x", os.Getpid(), time.Now().UnixMilli()), warn: c.warn}
	c.live.roots, c.live.rootsErr = cgroup.Detect("/proc")
	c.stage = c.live
	if err := c.checkHost(); err != nil {
		return nil, exitError{exitUsage, err}
	}
	inputs, err := c.live.inputs()
	if err != nil {
		return nil, exitError{exitUsage, err}
	}
	c.dir, err = openCampaignDir(out, disk{}, *plan, planFile, schedule, inputs, time.Now())
	if err != nil {
		var full *fullDiskError
		if errors.As(err, &full) {
			return nil, err
		}
		return nil, exitError{exitUsage, err}
	}
	return c, nil
}

// checkHost says what the plan needs and this host lacks.
func (c *campaignRun) checkHost() error {
	for _, a := range c.plan.Arms {
		if c.plan.AgentOf(a).Mode == campaign.AgentEmbedded {
			return missingError(demoRequirements(thisHost().requirements(), a.QuotaCPUs))
		}
	}
	return nil
}

// run is the session: it drives every ladder that is not complete. An error ended
// it before the last; ladders that failed alone are told at the end.
func (c *campaignRun) run(ctx context.Context) error {
	defer c.dir.close()
	open, err := c.open()
	if err != nil {
		return err
	}
	if len(open) == 0 {
		c.say("the campaign in %s is complete: nothing to drive", c.dir.path)
		return nil
	}
	if err := c.begin(); err != nil {
		return err
	}
	if c.live != nil {
		temp, err := os.MkdirTemp("", "rung-run-")
		if err != nil {
			return fmt.Errorf("make a directory for the agent's socket: %w", err)
		}
		defer os.RemoveAll(temp)
		c.live.temp = temp
	}
	var failures []error
	for _, l := range c.schedule.Ladders {
		if !open[l.ID] {
			continue
		}
		c.say("ladder %d of %d: %s", l.Ordinal, len(c.schedule.Ladders), l.ID)
		err = (&ladderRun{campaignRun: c, ladder: l}).run(ctx)
		var failed *ladderError
		if errors.As(err, &failed) {
			failures = append(failures, err)
			err = nil
		}
		if err != nil {
			break
		}
	}
	err = errors.Join(append(failures, err)...)
	return errors.Join(err, c.end(ctx, err))
}

// open are the ladders that are not complete.
func (c *campaignRun) open() (map[string]bool, error) {
	open := map[string]bool{}
	for _, l := range c.schedule.Ladders {
		var state campaign.LadderState
		err := readState(c.dir.file(l.ID, campaign.LadderFile), &state)
		if errors.Is(err, os.ErrNotExist) {
			open[l.ID] = true
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return open, nil
}

// begin notes the session, after what killed ones left behind was cleared away.
func (c *campaignRun) begin() error {
	session := campaign.Session{Started: c.now(), Pid: os.Getpid(), Host: c.host}
	if c.live != nil {
		for _, dead := range c.dir.dead {
			c.say("the session of %s was killed: going on where it was", dead.Started.Format(time.DateTime))
			c.live.clearAway(dead)
		}
		session.Cgroup = c.live.token
		session.Host = hostNow(c.provenance)
		session.Warnings = hostWarnings(session.Host)
		for _, w := range session.Warnings {
			c.say("warning: %s", w)
		}
	}
	for i := range c.dir.record.Sessions {
		if s := &c.dir.record.Sessions[i]; s.Ended == nil {
			s.Ended, s.How = &session.Started, "killed"
		}
	}
	c.dir.record.Sessions = append(c.dir.record.Sessions, session)
	return c.dir.save()
}

// end notes how the session ended. A full disk may not hold even that.
func (c *campaignRun) end(ctx context.Context, err error) error {
	s := &c.dir.record.Sessions[len(c.dir.record.Sessions)-1]
	now := c.now()
	s.Ended, s.How = &now, "complete"
	switch {
	case ctx.Err() != nil:
		s.How = "interrupted"
	case err != nil:
		s.How, s.Failures = "failed", strings.Split(err.Error(), "\n")
	}
	saveErr := c.dir.save()
	var full *fullDiskError
	if errors.As(err, &full) {
		return nil
	}
	return saveErr
}

func (c *campaignRun) runID(ladder string) string {
	return fmt.Sprintf("%s-%s-%d", c.plan.Name, ladder, c.dir.record.Started.UnixMilli())
}

func (c *campaignRun) warn(text string) { c.say("warning: %s", text) }

func (c *campaignRun) say(format string, args ...any) {
	fmt.Fprintf(c.out, "rung run: "+format+"\n", args...)
}

// sayStep prints a finished step in one line.
func (c *campaignRun) sayStep(d campaign.Done) {
	row := d.Row
	line := fmt.Sprintf("  %s %s: delivered %.1f/s", d.Step.Name(), d.Step.Kind, row.DeliveredHz)
	if row.P50Ms != nil && row.P99Ms != nil {
		line += fmt.Sprintf(", p50 %.3g ms, p99 %.3g ms", *row.P50Ms, *row.P99Ms)
	}
	if row.CPUMsPerRequest != nil {
		line += fmt.Sprintf(", cpu %.4f ms/req", *row.CPUMsPerRequest)
	}
	for _, f := range row.Flags {
		line += "; " + string(f.Kind)
		if f.Kind == ladder.FlagVoid {
			line += " (" + f.Detail + ")"
		}
	}
	if d.ClientLimited != "" {
		line += "; client-limited"
	}
	fmt.Fprintln(c.out, line)
}
