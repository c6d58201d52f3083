//go:build linux

package main

import (
	"context"

	"github.com/rungprof/rung/campaign"
)

// stage brings arms up and drives steps on them. A campaign's order, its state
// and what it makes of a step do not depend on which stage it is: the live one
// starts processes, that of the tests simulates them.
type stage interface {
	// up starts a ladder's arm and returns once it serves.
	up(ctx context.Context, l *campaign.Ladder, logDir string) (standing, error)
}

// standing is an arm that serves. Its methods are called by one goroutine.
type standing interface {
	// drive runs one step and writes it as the only step of a new run directory.
	// An error ends the campaign; what only spoils the step is in the outcome.
	drive(ctx context.Context, step campaign.Step, run, dir string) (driven, error)
	// identity names the arm's processes, as far as they can be seen.
	identity() campaign.Identity
	// ready waits until the arm serves again, as long as its plan gives it to start.
	ready(ctx context.Context) error
	// gone says how the arm ended, "" while it serves or where that is not known.
	gone() string
	down()
}

// driven is how a step went, beside its run directory.
type driven struct {
	// void is why the step does not count, or was not written at all.
	void      string
	cpu       *campaign.CPUTime
	cpuAbsent string
	jvm       *campaign.JVM // nil of an arm that is none
}

// upError is an arm that did not start. A campaign tries again.
type upError struct{ err error }

func (e *upError) Error() string { return e.err.Error() }
func (e *upError) Unwrap() error { return e.err }
