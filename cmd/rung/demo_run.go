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
	"github.com/rungprof/rung/rundir"
)

// demo is one run of `rung demo`. All arms live from the first calibration to
// the end: the process that was calibrated is the one that is measured, warm,
// and an idle arm's threads are blocked, which costs nothing that the account
// of its neighbours could show.
type demo struct {
	options demoOptions
	// dir is the demo's directory, temp holds the agent's socket.
	dir, temp string
	cgroups   demoCgroups
	progress  *progress
	agent     *process
	arms      []*runningArm
	record    demoRecord
}

// runningArm is an arm with its place and its ladder.
type runningArm struct {
	demoArm
	cgroup  armCgroup
	process *process
	// address it serves on; a restarted arm takes the same one.
	address string
	plan    *demoArmRecord
}

// runDemo checks the host, drives all arms and prints the report. A result
// with flaws is printed before the error that names them.
func runDemo(ctx context.Context, o demoOptions, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return exitError{exitUsage, err}
	}
	h := thisHost()
	needed := demoRequirements(h.requirements(), o.QuotaCPUs)
	if err := missingError(needed); err != nil {
		return err
	}
	started := time.Now()
	if o.Output == "" {
		o.Output = "rung-demo-" + started.Format("20060102-150405")
	}
	if err := rundir.Claim(o.Output); err != nil {
		return exitError{exitUsage, err}
	}
	d, err := newDemo(o, started, stderr)
	if err != nil {
		return err
	}
	for _, r := range needed {
		if r.Status == statusWarning {
			d.warn(fmt.Sprintf("%s: %s; %s", r.Name, r.Found, r.Remedy))
		}
	}
	err = d.measure(ctx)
	d.cleanup()
	d.progress.finish()
	d.record.Finished = time.Now()
	if writeErr := d.record.write(filepath.Join(d.dir, demoFile)); writeErr != nil {
		err = errors.Join(err, writeErr)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted; steps that were finished are in %s: 'rung report %s' prints them", d.dir, d.dir)
	}
	if err != nil {
		return fmt.Errorf("%w\nwhat was written until then is in %s", err, d.dir)
	}
	if err := d.report(ctx, stdout); err != nil {
		return err
	}
	if n := len(d.record.Failures); n > 0 {
		return exitError{exitFailure, fmt.Errorf("the run in %s is not whole:\n  %s", d.dir, strings.Join(d.record.Failures, "\n  "))}
	}
	return nil
}

// demoRequirements leaves out what a demo without a quota can do without.
func demoRequirements(all []requirement, quotaCPUs float64) []requirement {
	var needed []requirement
	for _, r := range all {
		if r.Name == quotaRequirement && quotaCPUs == 0 && r.Status == statusMissing {
			r = r.warning(r.Found, "this run has no quota, so it sees no throttling")
		}
		needed = append(needed, r)
	}
	return needed
}

func newDemo(o demoOptions, started time.Time, stderr io.Writer) (*demo, error) {
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		return nil, err
	}
	owner, err := thisOwner("/proc")
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", demoCgroupPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a directory for the agent's socket: %w", err)
	}
	d := &demo{
		options: o,
		dir:     o.Output,
		temp:    temp,
		cgroups: demoCgroups{mounts: roots.Mounts, name: owner.cgroupName()},
		record:  newDemoRecord(o, started),
	}
	for _, name := range o.Arms {
		arm, _ := findArm(name)
		d.arms = append(d.arms, &runningArm{demoArm: arm})
	}
	d.progress = startProgress(stderr, d.expected())
	for _, w := range o.warnings() {
		d.warn(w)
	}
	return d, nil
}

// measure is the run itself. An error means that there is nothing to report;
// what only spoils a part is kept among the record's failures.
func (d *demo) measure(ctx context.Context) error {
	d.clean(ctx)
	d.progress.phase("starting the arms", startLength)
	for _, a := range d.arms {
		var err error
		if a.cgroup, err = d.cgroups.add(a.name, d.options.QuotaCPUs); err != nil {
			return fmt.Errorf("cgroup of %s: %w", a.name, err)
		}
		if err := d.startArm(ctx, a, "127.0.0.1:0"); err != nil {
			return err
		}
	}
	if err := d.startAgent(ctx); err != nil {
		return err
	}
	if err := d.calibrate(ctx); err != nil {
		return err
	}
	d.progress.replan(d.laddersLength())
	for _, a := range d.arms {
		whole := d.ladder(ctx, a)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !whole && d.options.OnVoid == onVoidStop {
			d.fail("stopped after a void step, as --on-void stop asks: the arms after " + a.name + " were not measured")
			break
		}
	}
	if d.agent.died() {
		d.fail("agent: " + d.agent.fate().Error())
	}
	if len(d.runs()) == 0 {
		return fmt.Errorf("no ladder was run:\n  %s", strings.Join(d.record.Failures, "\n  "))
	}
	return nil
}

// runs are the arms whose run directory exists.
func (d *demo) runs() []*runningArm {
	var have []*runningArm
	for _, a := range d.arms {
		if _, err := rundir.Open(d.armDir(a)); err == nil {
			have = append(have, a)
		}
	}
	return have
}

func (d *demo) armDir(a *runningArm) string { return filepath.Join(d.dir, a.name) }

func (d *demo) logPath(name string) string { return filepath.Join(d.dir, name+".log") }

// warn keeps what weakens the figures; fail keeps what makes the run unwhole.
// Both are printed at once, and once more at the end.
func (d *demo) warn(text string) {
	d.record.Warnings = append(d.record.Warnings, text)
	d.progress.note("warning: " + text)
}

func (d *demo) fail(text string) {
	d.record.Failures = append(d.record.Failures, text)
	d.progress.note(text)
}

// cleanup ends all children and removes the cgroups, whatever state they are in.
func (d *demo) cleanup() {
	d.agent.stop()
	for _, a := range d.arms {
		a.process.stop()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := d.cgroups.remove(ctx); err != nil {
		d.warn(err.Error())
	}
	if err := os.RemoveAll(d.temp); err != nil {
		d.warn(err.Error())
	}
}
