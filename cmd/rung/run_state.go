//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/rundir"
)

// campaignDir is a campaign's directory, held by a lock as long as it is open.
type campaignDir struct {
	path   string
	disk   disk
	lock   *os.File
	record campaign.Record
	// dead are sessions that ended without saying so: they were killed.
	dead []campaign.Session
}

const lockFile = ".lock"

// openCampaignDir opens a campaign's directory, or makes it. A directory that holds
// another campaign is refused with what differs, and one that holds anything
// else as well. now stamps a new one.
func openCampaignDir(path string, d disk, plan campaign.Plan, planFile string, schedule campaign.Schedule, inputs map[string]string, now time.Time) (*campaignDir, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, diskError(fmt.Errorf("make the campaign's directory: %w", err))
	}
	c := &campaignDir{path: path, disk: d}
	if err := c.acquire(); err != nil {
		return nil, err
	}
	opened := false
	defer func() {
		if !opened {
			c.close()
		}
	}()
	if err := c.load(plan, planFile, schedule, inputs, now); err != nil {
		return nil, err
	}
	opened = true
	return c, nil
}

// acquire takes the lock, which the kernel gives back when this process ends,
// however it does.
func (c *campaignDir) acquire() error {
	entries, err := os.ReadDir(c.path)
	if err != nil {
		return err
	}
	known := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == campaign.RecordFile })
	for _, e := range entries {
		if !known && e.Name() != lockFile && !strings.HasPrefix(e.Name(), newPrefix) {
			return fmt.Errorf("%s exists, is no campaign (it has no %s) and is not empty; name another directory by --out", c.path, campaign.RecordFile)
		}
	}
	f, err := os.OpenFile(filepath.Join(c.path, lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return diskError(fmt.Errorf("lock the campaign: %w", err))
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("another rung run works on %s: wait for its end, or name another directory by --out", c.path)
		}
		return fmt.Errorf("lock the campaign: %w", err)
	}
	c.lock = f
	return nil
}

func (c *campaignDir) close() { c.lock.Close() }

func (c *campaignDir) file(names ...string) string {
	return filepath.Join(append([]string{c.path}, names...)...)
}

func (c *campaignDir) load(plan campaign.Plan, planFile string, schedule campaign.Schedule, inputs map[string]string, now time.Time) error {
	if err := c.disk.removeUnfinished(c.path); err != nil {
		return err
	}
	err := readState(c.file(campaign.RecordFile), &c.record)
	if errors.Is(err, fs.ErrNotExist) {
		c.record = campaign.Record{
			SchemaVersion: campaign.SchemaVersion, Started: now, PlanFile: planFile, Plan: plan, Schedule: schedule, Inputs: inputs,
		}
		return nil
	}
	if err != nil {
		return err
	}
	if c.record.SchemaVersion != campaign.SchemaVersion {
		return fmt.Errorf("%s: schemaVersion is %d, this binary reads %d; go on with the rung that wrote it",
			c.file(campaign.RecordFile), c.record.SchemaVersion, campaign.SchemaVersion)
	}
	if err := c.unchanged(plan, schedule, inputs); err != nil {
		return err
	}
	for i := range c.record.Sessions {
		if s := &c.record.Sessions[i]; s.Ended == nil {
			c.dead = append(c.dead, *s)
		}
	}
	return nil
}

// unchanged refuses to go on with another plan than the campaign was begun with.
func (c *campaignDir) unchanged(plan campaign.Plan, schedule campaign.Schedule, inputs map[string]string) error {
	for _, part := range []struct {
		what    string
		was, is any
	}{{"the plan", c.record.Plan, plan}, {"the schedule", withoutLengths(c.record.Schedule), withoutLengths(schedule)}, {"what it measures", c.record.Inputs, inputs}} {
		differ, err := campaign.Differences(part.was, part.is)
		if err != nil {
			return err
		}
		if len(differ) > 0 {
			const shown = 10
			if n := len(differ); n > shown {
				differ = append(differ[:shown], fmt.Sprintf("and %d more", n-shown))
			}
			return fmt.Errorf("%s was begun otherwise; %s changed:\n  %s\nchange it back, or name another directory by --out for a new campaign",
				c.path, part.what, strings.Join(differ, "\n  "))
		}
	}
	return nil
}

// withoutLengths leaves out the estimates, which another version of rung may make
// otherwise.
func withoutLengths(s campaign.Schedule) campaign.Schedule {
	s.Length, s.Warnings = 0, nil
	s.Ladders = slices.Clone(s.Ladders)
	for i := range s.Ladders {
		s.Ladders[i].Length = 0
	}
	return s
}

func (c *campaignDir) save() error {
	return c.disk.writeState(c.file(campaign.RecordFile), c.record)
}

func readState(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := campaign.ReadState(f, v); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// read gives what is finished of a ladder.
func (c *campaignDir) read(l campaign.Ladder) (campaign.Result, error) {
	r := campaign.Result{Ladder: l}
	dir := c.file(l.ID)
	run, err := rundir.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(dir); err == nil {
			return r, fmt.Errorf("%s is there without %s, so no session made it; move it away", dir, rundir.RunFile)
		}
		return r, nil
	}
	if err != nil {
		return r, err
	}
	steps, err := run.Steps()
	if err != nil {
		return r, err
	}
	for i, s := range steps {
		var state campaign.StepState
		if err := readState(filepath.Join(run.StepPath(s.Name), campaign.StepFile), &state); err != nil {
			return r, err
		}
		if s.Index != i {
			return r, fmt.Errorf("%s: step %d is missing, %s is there", dir, i, s.Name)
		}
		r.Steps = append(r.Steps, doneOf(s, state))
	}
	if r.Voids, err = c.voids(l.ID, ""); err != nil {
		return r, err
	}
	var state campaign.LadderState
	switch err := readState(filepath.Join(dir, campaign.LadderFile), &state); {
	case err == nil:
		r.State = &state
	case !errors.Is(err, fs.ErrNotExist):
		return r, err
	}
	return r, nil
}

// doneOf is a finished step as the schedule and the summary read it.
func doneOf(s rundir.Step, state campaign.StepState) campaign.Done {
	return campaign.Done{Step: state.Step, Row: ladder.New(observeDriven(s, &state)), ClientLimited: state.ClientLimited, Voids: state.Attempt - 1}
}

// clientLimited is why the driver was a step's limit, "" where it was not.
func clientLimited(client *rundir.ClientStep) string {
	var why []string
	for _, l := range client.ClientLimited {
		why = append(why, l.Why)
	}
	return strings.Join(why, "; ")
}

// attempts lists a ladder's attempts at a step, or at all with "".
func (c *campaignDir) attempts(ladderID, name string) ([]string, error) {
	entries, err := os.ReadDir(c.file(ladderID, campaign.AttemptsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if of, _, ok := cutLast(e.Name(), "."); ok && (name == "" || of == name) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// voids counts a step's attempts that were void, or a ladder's with "".
func (c *campaignDir) voids(ladderID, name string) (int, error) {
	all, err := c.attempts(ladderID, name)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, attempt := range all {
		var v campaign.Void
		err := readState(c.file(ladderID, campaign.AttemptsDir, attempt, campaign.VoidFile), &v)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if !v.Interrupted {
			n++
		}
	}
	return n, nil
}

// newAttempt makes the directory of a step's next attempt.
func (c *campaignDir) newAttempt(ladderID, name string) (string, error) {
	all, err := c.attempts(ladderID, name)
	if err != nil {
		return "", err
	}
	last := 0
	for _, a := range all {
		_, number, _ := cutLast(a, ".")
		n, _ := strconv.Atoi(number)
		last = max(last, n)
	}
	dir := c.file(ladderID, campaign.AttemptsDir, fmt.Sprintf("%s.%d", name, last+1))
	c.disk.at("before making " + dir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", diskError(fmt.Errorf("make %s: %w", dir, err))
	}
	return dir, nil
}

// tidy takes away what a killed session left unfinished in a ladder's directory:
// parts of steps, and attempts that came to no end.
func (c *campaignDir) tidy(ladderID string) error {
	for _, dir := range []string{c.file(ladderID), c.file(ladderID, rundir.StepsDir)} {
		if err := c.disk.removeUnfinished(dir); err != nil {
			return err
		}
	}
	all, err := c.attempts(ladderID, "")
	if err != nil {
		return err
	}
	for _, a := range all {
		dir := c.file(ladderID, campaign.AttemptsDir, a)
		if _, err := os.Stat(filepath.Join(dir, campaign.VoidFile)); errors.Is(err, fs.ErrNotExist) {
			if err := c.disk.removeAll(dir); err != nil {
				return err
			}
		} else if err := c.disk.removeUnfinished(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeLadder makes a ladder's run directory, whole or not at all.
func (c *campaignDir) makeLadder(l campaign.Ladder, run rundir.Run) error {
	dir := c.file(l.ID)
	if _, err := os.Lstat(dir); err == nil {
		return nil
	}
	temp := c.file(newPrefix + l.ID)
	if err := c.disk.removeAll(temp); err != nil {
		return err
	}
	if _, err := rundir.Create(temp, run); err != nil {
		return diskError(err)
	}
	return c.disk.publish(temp, dir)
}

func cutLast(text, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(text, sep)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(sep):], true
}

// runOf is the run.json of a ladder.
func runOf(id string, l campaign.Ladder, address string, started time.Time, host rundir.Provenance) rundir.Run {
	load, spec := l.Setting.Load, l.Setting.Spec
	plan := rundir.Plan{
		Address: address, Body: cmp.Or(load.BodyFile, load.Body), RatesHz: spec.RatesHz,
		Duration: rundir.Duration(spec.Step), IterationsPerSlot: spec.IterationsPerSlot, Settle: rundir.Duration(spec.Settle), Gap: rundir.Duration(spec.Gap),
		Timeout: rundir.Duration(load.Timeout), Drain: rundir.Duration(load.Drain),
		Connections: load.Connections, Streams: load.Streams, MaxInFlight: load.InFlight,
	}
	if len(l.Steps) > 0 && l.Steps[0].Unmeasured() {
		plan.WarmupHz, plan.Warmup = l.Steps[0].OfferedHz, rundir.Duration(l.Steps[0].Duration)
	}
	return rundir.Run{
		SchemaVersion: rundir.SchemaVersion, ID: id, Arm: l.ArmName, Protocol: load.Protocol, Started: started,
		QuotaCPUs: l.Setting.Arm.QuotaCPUs, Plan: plan, Host: host,
	}
}
