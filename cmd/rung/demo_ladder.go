//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/rundir"
)

const (
	markerPrefix = "#RUNG-STEP "

	// maxRestarts of one arm within a ladder: one that dies again and again tells
	// nothing new.
	maxRestarts = 3
)

// calibrate finds every arm's capacity by a closed loop, which also warms it,
// and plans the ladders.
func (d *demo) calibrate(ctx context.Context) error {
	var compared []float64
	for _, a := range d.arms {
		d.progress.phase(a.name+": finding its capacity", d.calibrationLength())
		capacity, err := d.capacity(ctx, a)
		if err != nil {
			return fmt.Errorf("calibrate %s: %w", a.name, err)
		}
		a.plan = d.record.addArm(a, capacity)
		if a.codec {
			compared = append(compared, capacity)
		}
	}
	d.record.MatchedHz = d.options.matchedRate(compared)
	for _, a := range d.arms {
		a.plan.RatesHz = d.options.ladder(a.demoArm, a.plan.CapacityHz, d.record.MatchedHz)
		if len(a.plan.RatesHz) == 0 {
			return fmt.Errorf("plan %s: no rate above 0 follows from a capacity of %g/s", a.name, a.plan.CapacityHz)
		}
	}
	return nil
}

func (d *demo) capacity(ctx context.Context, a *runningArm) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, d.options.Calibration+30*time.Second)
	defer cancel()
	var answer strings.Builder
	p, err := startProcess(processSpec{
		name:     "load " + a.name,
		args:     append(d.loadArgs(a), "--calibrate", d.options.Calibration.String()),
		logPath:  d.logPath(a.name + "-load"),
		onStdout: func(line string) { answer.WriteString(line + "\n") },
	})
	if err != nil {
		return 0, err
	}
	if err := p.wait(ctx); err != nil {
		if a.process.died() {
			return 0, a.process.fate()
		}
		return 0, errors.Join(ctx.Err(), p.fate())
	}
	var found struct {
		CapacityHz float64 `json:"capacityHz"`
	}
	if err := json.Unmarshal([]byte(answer.String()), &found); err != nil {
		return 0, fmt.Errorf("parse what the driver printed: %w; %w", err, p.fate())
	}
	if !(found.CapacityHz > 0) {
		return 0, fmt.Errorf("nothing was delivered: %w", p.fate())
	}
	return found.CapacityHz, nil
}

// loadArgs are the flags that calibration and ladder share.
func (d *demo) loadArgs(a *runningArm) []string {
	o := d.options
	connections, inFlight := clientShape(a.protocol, o.Connections, o.MaxInFlight)
	return []string{"load", "--protocol", a.protocol, "--address", a.address, "--body", o.Body, "--arm", a.name,
		"--connections", strconv.Itoa(connections), "--max-in-flight", strconv.Itoa(inFlight), "--client-limited", limitedWarn}
}

// ladder drives one arm up its steps and says whether all are sound.
func (d *demo) ladder(ctx context.Context, a *runningArm) (whole bool) {
	o := d.options
	failures := len(d.record.Failures)
	rates := make([]string, len(a.plan.RatesHz))
	for i, hz := range a.plan.RatesHz {
		rates[i] = strconv.FormatFloat(hz, 'f', -1, 64)
	}
	args := append(d.loadArgs(a),
		"--rates", strings.Join(rates, ","),
		"--duration", o.Duration.String(), "--settle", o.Settle.String(), "--gap", o.Gap.String(),
		"--warmup-rate", rates[0], "--warmup", o.Warmup.String(),
		"--agent", d.agentURL(), "--agent-target", a.name,
		"--out", d.armDir(a), "--on-void", o.OnVoid)
	if d.mayExtend(a) {
		args = append(args, "--extend", strconv.Itoa(extension))
	}
	load, err := startProcess(processSpec{
		name:     "load " + a.name,
		args:     args,
		logPath:  d.logPath(a.name + "-load"),
		onStdout: d.showMarkers(a),
	})
	if err != nil {
		d.fail(err.Error())
		return false
	}
	limit, cancel := context.WithTimeout(ctx, 2*d.ladderLength(a)+time.Minute)
	defer cancel()
	loadErr := d.attend(limit, a, load)
	if ctx.Err() != nil {
		return false
	}
	if loadErr != nil && len(d.record.Failures) == failures {
		d.fail(errors.Join(limit.Err(), load.fate()).Error()) // the cause, before what follows from it
	}
	d.audit(a)
	return len(d.record.Failures) == failures
}

const (
	// demoBudget is how long a demo of the default ladders may take, with room for
	// its report: a step that looks for a missing knee must fit in.
	demoBudget = 144 * time.Second
	// extension is such a step's multiple of the rate before it: a calibration that
	// a neighbour slowed finds no less than half of a capacity.
	extension = 2
)

// mayExtend says whether an arm's ladder may have one higher step if its top step
// still keeps up: a ladder of the default plan, while there is time.
func (d *demo) mayExtend(a *runningArm) bool {
	if len(d.options.RatesHz) > 0 || len(d.options.Fractions) > 0 {
		return false
	}
	left := d.stepLength()
	for _, other := range d.arms[slices.Index(d.arms, a):] {
		left += d.ladderLength(other)
	}
	return time.Since(d.record.Started)+left <= demoBudget
}

// restartDelay is how long a dead arm stays away: long enough that the driver's
// attempt to connect again is refused, which voids the step.
const restartDelay = 500 * time.Millisecond

// attend waits for the driver. An arm that dies meanwhile is started again at
// the same address, unless the run is to stop: the steps after the void one
// then measure a fresh process, which is said.
func (d *demo) attend(ctx context.Context, a *runningArm, load *process) error {
	for restarts := 0; ; restarts++ {
		select {
		case <-load.exited:
			return load.exitErr
		case <-ctx.Done():
			load.stop()
			return ctx.Err()
		case <-a.process.exited:
		}
		d.fail("died in its ladder: " + a.process.fate().Error())
		if d.options.OnVoid == onVoidStop || restarts == maxRestarts {
			load.stop()
			return load.exitErr
		}
		select {
		case <-time.After(restartDelay):
		case <-ctx.Done():
		}
		if err := d.startArm(ctx, a, a.address); err != nil {
			d.fail("could not be started again: " + err.Error())
			load.stop()
			return load.exitErr
		}
		d.warn(a.name + " was started again: its later steps measure a process that is not warm")
	}
}

// showMarkers turns the driver's marker lines into progress.
func (d *demo) showMarkers(a *runningArm) func(string) {
	opened := 0
	return func(line string) {
		rest, ok := strings.CutPrefix(line, markerPrefix)
		if !ok {
			return
		}
		var marker rungv1.Marker
		if err := protojson.Unmarshal([]byte(rest), &marker); err != nil || marker.Edge != rungv1.Marker_EDGE_START {
			return // progress only: the run directory is what counts
		}
		text, length := fmt.Sprintf("%s: warm-up at %.6g/s", a.name, marker.OfferedHz), d.options.Warmup
		if opened > 0 {
			text = fmt.Sprintf("%s: step %d of %d at %.6g/s", a.name, opened, len(a.plan.RatesHz), marker.OfferedHz)
			if opened > len(a.plan.RatesHz) {
				text = fmt.Sprintf("%s: one step more at %.6g/s, since the last one kept up", a.name, marker.OfferedHz)
			}
			length = d.stepLength()
		}
		opened++
		d.progress.phase(text, length)
	}
}

// audit reads what the driver wrote and notes void and unmeasured steps.
func (d *demo) audit(a *runningArm) {
	run, err := rundir.Open(d.armDir(a))
	if err != nil {
		d.fail(fmt.Sprintf("%s: no run was written: %v", a.name, err))
		return
	}
	steps, err := run.Steps()
	if err != nil {
		d.fail(fmt.Sprintf("%s: %v", a.name, err))
		return
	}
	measured := 0
	unrecorded := make(map[string][]string) // steps by reason
	for _, s := range steps {
		if s.Warmup {
			continue
		}
		measured++
		switch {
		case s.Client.Void != "":
			d.fail(fmt.Sprintf("%s step %s is void: %s", a.name, s.Name, s.Client.Void))
		case s.Record == nil:
			reason := noRecord(s.Client)
			unrecorded[reason] = append(unrecorded[reason], s.Name)
		case s.Record.VoidReason != "":
			d.fail(fmt.Sprintf("%s step %s is void: %s", a.name, s.Name, s.Record.VoidReason))
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(unrecorded)) {
		d.fail(fmt.Sprintf("%s %s: %s", a.name, strings.Join(unrecorded[reason], ", "), reason))
	}
	if want := len(a.plan.RatesHz); measured < want {
		d.fail(fmt.Sprintf("%s: %d of %d steps were run", a.name, measured, want))
	}
}
