//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rungprof/rung/loadgen"
)

// closedOptions are the flags of a closed loop.
type closedOptions struct {
	slots []string
	lines string
}

// closedResult is what --json prints of a closed loop.
type closedResult struct {
	Arm   string                 `json:"arm"`
	Steps []loadgen.ClosedResult `json:"steps"`
	Error string                 `json:"error,omitempty"`
}

// steps reads --closed. Each ends after a number of requests of each slot or,
// where that is 0, after a duration.
func (o *closedOptions) steps(perSlot int, duration time.Duration) ([]loadgen.ClosedStep, error) {
	var steps []loadgen.ClosedStep
	for _, text := range o.slots {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--closed %q: want numbers of slots from 1 up, separated by commas", text)
		}
		s := loadgen.ClosedStep{Slots: n, PerSlot: perSlot}
		if perSlot == 0 {
			s.Duration = duration
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// driveClosed drives the steps of a closed loop.
func driveClosed(ctx context.Context, o loadOptions, c loadgen.Config, stdout, stderr io.Writer) (err error) {
	steps, err := o.closed.steps(o.config.IterationsPerSlot, o.duration)
	if err != nil {
		return exitError{exitUsage, err}
	}
	result := closedResult{Arm: c.Arm}
	var failed []string
	hooks := loadgen.ClosedHooks{StepDone: func(r loadgen.ClosedResult) error {
		result.Steps = append(result.Steps, r)
		fmt.Fprintln(stderr, closedLine(r))
		if r.Void != "" {
			failed = append(failed, fmt.Sprintf("void step of %d slots: %s", r.Slots, r.Void))
		}
		return nil
	}}
	if o.closed.lines != "" {
		f, err := os.OpenFile(o.closed.lines, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return exitError{exitUsage, fmt.Errorf("--lines: %w", err)}
		}
		hooks.Lines = f
		defer func() {
			if closing := f.Close(); err == nil && closing != nil {
				err = exitError{exitFailure, fmt.Errorf("--lines: %w", closing)}
			}
		}()
	}
	err = loadgen.Closed(ctx, c, steps, hooks)
	var bad *loadgen.ConfigError
	if errors.As(err, &bad) {
		return exitError{exitUsage, flagError(err)}
	}
	if o.json {
		if err != nil {
			result.Error = err.Error()
		}
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = errors.Join(err, out.Encode(result))
	}
	if err != nil {
		failed = append(failed, err.Error())
	}
	if len(failed) > 0 {
		return exitError{exitFailure, errors.New(strings.Join(failed, "\n  "))}
	}
	if o.limited == limitedFail {
		for _, r := range result.Steps {
			if len(r.ClientLimited) > 0 {
				failed = append(failed, fmt.Sprintf("client-limited step of %d slots: %s", r.Slots, r.ClientLimited[0].Why))
			}
		}
	}
	if len(failed) > 0 {
		return exitError{exitLimited, errors.New(strings.Join(failed, "\n  "))}
	}
	return nil
}

// closedLine is a step for people.
func closedLine(r loadgen.ClosedResult) string {
	line := fmt.Sprintf("closed loop of %d: delivered %.6g/s", r.Slots, r.DeliveredHz)
	if q := r.ServiceMs; q != nil {
		line += fmt.Sprintf(", p50 %.3g ms, p99 %.3g ms", q.P50, q.P99)
	}
	var errs uint64
	for _, n := range r.Errors {
		errs += n
	}
	line += fmt.Sprintf(", errors %d, unanswered %d", errs, r.Unanswered)
	if r.Sent > 0 {
		line += fmt.Sprintf(", client %.3g µs CPU per request", float64(r.ClientCPUNs)/float64(r.Sent)/1e3)
	}
	for _, l := range r.ClientLimited {
		line += "; client-limited: " + l.Why
	}
	if r.Void != "" {
		line += "; void: " + r.Void
	}
	return line
}
