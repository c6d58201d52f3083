//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// demoFile is the name of a demo's record in its directory.
const demoFile = "demo.json"

// demoRecord is what a demo was and how it went, beside the runs themselves.
type demoRecord struct {
	SchemaVersion int           `json:"schemaVersion"`
	Rung          string        `json:"rung"`
	Started       time.Time     `json:"started"`
	Finished      time.Time     `json:"finished"`
	Options       demoOptions   `json:"options"`
	Requirements  []requirement `json:"requirements,omitempty"`
	// MatchedHz is the offered rate common to the compared arms, requests per
	// second; absent without such arms.
	MatchedHz float64          `json:"matchedHz,omitempty"`
	Arms      []*demoArmRecord `json:"arms"`
	// Warnings weaken the figures; failures make the run unwhole (exit 1).
	Warnings []string `json:"warnings,omitempty"`
	Failures []string `json:"failures,omitempty"`
}

type demoArmRecord struct {
	Name     string `json:"name"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
	// Cgroup is relative to the v2 hierarchy's root; it is gone after the demo.
	Cgroup string `json:"cgroup"`
	// CapacityHz is what the calibration's closed loop got, requests per second.
	CapacityHz float64   `json:"capacityHz"`
	RatesHz    []float64 `json:"ratesHz"`
}

func newDemoRecord(o demoOptions, started time.Time) demoRecord {
	return demoRecord{SchemaVersion: 1, Rung: buildVersion(), Started: started, Options: o}
}

func (r *demoRecord) addArm(a *runningArm, capacityHz float64) *demoArmRecord {
	arm := &demoArmRecord{Name: a.name, Protocol: a.protocol, Address: a.address, Cgroup: a.cgroup.path, CapacityHz: capacityHz}
	r.Arms = append(r.Arms, arm)
	return arm
}

func (r *demoRecord) write(path string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return reportToFile(path, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// Lengths of the demo's parts, for the progress line alone.
const (
	startLength = 2 * time.Second
	// stepOverhead: drain, reading the agent's record and profile.
	stepOverhead = 500 * time.Millisecond
)

func (d *demo) calibrationLength() time.Duration {
	return d.options.Calibration + 300*time.Millisecond
}

func (d *demo) stepLength() time.Duration {
	return d.options.Gap + d.options.Duration + stepOverhead
}

func (d *demo) ladderLength(a *runningArm) time.Duration {
	steps := 0
	switch {
	case a.plan != nil:
		steps = len(a.plan.RatesHz)
	case len(d.options.RatesHz) > 0:
		steps = len(d.options.RatesHz)
	case len(d.options.Fractions) > 0:
		steps = len(d.options.Fractions) + 1
	case a.codec:
		steps = minDefaultSteps
	default:
		steps = len(shortFractions)
	}
	return d.options.Warmup + time.Second + time.Duration(steps)*d.stepLength()
}

func (d *demo) laddersLength() time.Duration {
	var sum time.Duration
	for _, a := range d.arms {
		sum += d.ladderLength(a)
	}
	return sum
}

func (d *demo) expected() time.Duration {
	return startLength + time.Duration(len(d.arms))*d.calibrationLength() + d.laddersLength()
}
