//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// profileResult is all that `rung profile` prints.
type profileResult struct {
	SchemaVersion int    `json:"schemaVersion"`
	Target        string `json:"target"`
	// Started is the opening edge.
	Started  time.Time `json:"started"`
	WindowNs int64     `json:"windowNs"`
	// Ended says why the window ended: planned, exited, interrupted.
	Ended   profileEnding `json:"ended"`
	Kernel  string        `json:"kernel"`
	Arch    string        `json:"arch"`
	CPUs    int           `json:"cpus"`
	RateHz  int           `json:"rateHz"`
	Threads string        `json:"threads"` // groups or single
	// Void is why no figure may be used; then there are none.
	Void    string               `json:"void,omitempty"`
	Command *commandEnd          `json:"command,omitempty"`
	Account *attribution.Account `json:"account,omitempty"`
	States  []profiledState      `json:"states,omitempty"`
	Checks  []attribution.Check  `json:"checks,omitempty"`
	Losses  []report.Loss        `json:"losses,omitempty"`
	Cost    *report.Cost         `json:"cost,omitempty"`
	// Warnings weaken the figures without stopping them.
	Warnings []string `json:"warnings,omitempty"`
	// Record and Profile are paths; Profile is "" when there is none.
	Record  string `json:"record"`
	Profile string `json:"profile,omitempty"`

	top int
	// hasIdleRules: the flags named some.
	hasIdleRules bool
}

// newProfileResult makes figures of what was measured.
func newProfileResult(o profileOptions, t *profileTarget, m *measuredProfile, rules *attribution.Rules) (*profileResult, error) {
	r := m.record
	out := &profileResult{
		SchemaVersion: 1, Target: t.title, Started: time.Unix(0, r.GetWindow().GetStartWallUnixNs()),
		WindowNs: windowNs(r), Ended: m.ended,
		Kernel: r.GetHost().GetKernel(), Arch: r.GetHost().GetArch(), CPUs: int(r.GetHost().GetCpus()),
		RateHz: o.rateHz, Threads: o.threads, Void: r.GetVoidReason(), Command: t.command.end(),
		Warnings: append(t.warnings, r.GetWarnings()...),
		Record:   filepath.Join(o.output, rundir.RecordFile), top: o.top, hasIdleRules: rules != nil,
	}
	if len(m.profileGz) > 0 {
		out.Profile = filepath.Join(o.output, rundir.ProfileFile)
	}
	if out.Void != "" || out.WindowNs <= 0 {
		return out, nil
	}
	grouped, err := groupRecord(r, nil)
	if err != nil {
		return nil, err
	}
	if out.Account, err = grouped.account(out.WindowNs, rules); err != nil {
		return nil, err
	}
	out.Checks = attribution.Checks(profileCheckInput(r, grouped.threads))
	for _, l := range r.GetLosses() {
		out.Losses = append(out.Losses, report.Loss{Name: l.GetName(), Count: l.GetCount(), Meaning: l.GetMeaning()})
	}
	out.Cost = profilerCost(r)
	if len(m.profileGz) == 0 {
		return out, nil
	}
	p, err := grouped.profile(m.profileGz)
	if err != nil {
		return nil, err
	}
	out.States, err = profiledStates(p, stacksOptions{top: o.top, idle: rules})
	return out, err
}

func profileCheckInput(r *rungv1.StepRecord, threads []attribution.Thread) attribution.CheckInput {
	c := r.GetCounters()
	return attribution.CheckInput{
		Threads: threads, UsageNs: usageNs(r),
		BracketNs: saturate(c.GetStartBracketNs()) + saturate(c.GetEndBracketNs()),
		CPUs:      int(r.GetHost().GetCpus()), TickNs: saturate(r.GetHost().GetTickNs()),
		Samples: saturate(r.GetSampling().GetSamples()), PeriodNs: saturate(r.GetSampling().GetPeriodNs()),
	}
}

// verdict is the command's own error, once the result is printed.
func (r *profileResult) verdict() error {
	switch c := r.Command; {
	case r.Void != "":
		return exitError{exitFailure, errors.New("the window is void: " + r.Void)}
	case c == nil || c.StoppedByRung || r.Ended == endedInterrupted || c.ExitCode != nil && *c.ExitCode == 0:
		return nil
	default:
		return exitError{exitFailure, fmt.Errorf("the command %v", c)}
	}
}

// writeProfile writes the record and the profile. The record has the form of a
// run's: the same input, the same bytes.
func writeProfile(dir string, m *measuredProfile, r *profileResult) error {
	raw, err := protojson.Marshal(m.record)
	if err != nil {
		return fmt.Errorf("encode %s: %w", r.Record, err)
	}
	var compact, text bytes.Buffer
	if err := errors.Join(json.Compact(&compact, raw), json.Indent(&text, compact.Bytes(), "", "  ")); err != nil {
		return fmt.Errorf("encode %s: %w", r.Record, err)
	}
	text.WriteByte('\n')
	if err := os.WriteFile(r.Record, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write the record to %s: %w", dir, err)
	}
	if r.Profile == "" {
		return nil
	}
	if err := os.WriteFile(r.Profile, m.profileGz, 0o644); err != nil {
		return fmt.Errorf("write the profile to %s: %w", dir, err)
	}
	return nil
}
