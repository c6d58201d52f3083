//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/rundir"
)

// ladderRun drives one ladder from where it stands to its end.
type ladderRun struct {
	*campaignRun
	ladder campaign.Ladder
	arm    standing
	// last is who served the step before; cold that the arm, or what serves it,
	// was started since, so that it has to be warmed.
	last campaign.Identity
	cold bool
}

// run returns nil when the ladder is complete.
func (r *ladderRun) run(ctx context.Context) error {
	l := r.ladder
	if err := r.dir.tidy(l.ID); err != nil {
		return err
	}
	result, err := r.dir.read(l)
	if err != nil {
		return err
	}
	progress, err := l.Next(result.Steps)
	if err != nil || result.State != nil {
		return err
	}
	defer func() {
		if r.arm != nil {
			r.arm.down()
		}
	}()
	done := result.Steps
	for !progress.Complete {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.arm == nil {
			if err := r.start(ctx); err != nil {
				return err
			}
			r.cold = len(done) > 0
		}
		if r.cold {
			if err := r.rewarm(ctx, progress.Next); err != nil {
				return err
			}
		}
		d, err := r.step(ctx, progress.Next)
		if err != nil {
			return err
		}
		if d == nil {
			continue // void, and the arm has to be started again
		}
		done = append(done, *d)
		if progress, err = l.Next(done); err != nil {
			return err
		}
		if d.Row.Has(ladder.FlagVoid) && r.plan.OnVoid == campaign.OnVoidStop {
			return fmt.Errorf("step %s of ladder %s stayed void, and on_void is stop", d.Step.Name(), l.ID)
		}
		if !progress.Complete {
			r.wait(ctx, time.Duration(l.Setting.Spec.Gap))
		}
	}
	voids, err := r.dir.voids(l.ID, "")
	if err != nil {
		return err
	}
	state := campaign.LadderState{
		Ladder: l.ID, Finished: r.now(), Steps: len(done), Voids: voids, Notes: progress.Notes, Search: progress.Search,
	}
	for _, d := range done {
		if d.Row.Has(ladder.FlagVoid) {
			state.Void++
		}
	}
	return r.dir.disk.writeState(r.dir.file(l.ID, campaign.LadderFile), state)
}

// start brings the arm up, trying again as often as the plan allows. The
// ladder's directory is made before, since the attempts are noted in it.
func (r *ladderRun) start(ctx context.Context) error {
	l := r.ladder
	if err := r.dir.makeLadder(l, runOf(r.runID(l.ID), l, l.Setting.Arm.Address, r.now(), r.provenance)); err != nil {
		return err
	}
	for try := 0; ; try++ {
		dir, err := r.dir.newAttempt(l.ID, "start")
		if err != nil {
			return err
		}
		arm, err := r.stage.up(ctx, &l, r.dir.file(l.ID))
		if err == nil {
			r.arm, r.last = arm, arm.identity()
			return r.dir.disk.removeAll(dir)
		}
		var failed *upError
		if ctx.Err() != nil || !errors.As(err, &failed) {
			return cmp.Or(ctx.Err(), err)
		}
		if err := r.void(dir, "start", err.Error(), false); err != nil {
			return err
		}
		r.say("%s: %v", l.ID, err)
		if try == r.plan.Redo {
			return &ladderError{l.ID, fmt.Errorf("its arm did not start in %d attempts: %w", try+1, err)}
		}
	}
}

// ladderError keeps a ladder from its end; the campaign goes on with the next.
type ladderError struct {
	ladder string
	err    error
}

func (e *ladderError) Error() string { return "ladder " + e.ladder + ": " + e.err.Error() }
func (e *ladderError) Unwrap() error { return e.err }

// rewarm warms an arm that was started in the middle of its ladder. What it
// measures is thrown away, so that the ladder's steps are those of a ladder that
// was not cut.
func (r *ladderRun) rewarm(ctx context.Context, next campaign.Step) error {
	w := r.ladder.Setting.Spec.Warmup
	r.cold = false
	length := w.Fixed
	if w.Adaptive {
		length = w.Probe * campaign.Duration(w.Over)
	}
	if length == 0 {
		return nil
	}
	dir, err := r.dir.newAttempt(r.ladder.ID, "rewarm")
	if err != nil {
		return err
	}
	r.say("%s: warming the arm again for %s", r.ladder.ID, length)
	step := campaign.Step{Index: next.Index, Kind: campaign.KindWarmup, OfferedHz: cmp.Or(w.RateHz, next.OfferedHz), Duration: length, Seed: next.Seed}
	if _, err := r.arm.drive(ctx, step, r.runID(r.ladder.ID+"-rewarm"), filepath.Join(dir, "run")); err != nil {
		return err
	}
	return r.dir.disk.removeAll(dir)
}

// step drives one step until it is sound or was tried often enough, and gives it
// its name. nil without an error: it was void, and the arm is to be started again.
func (r *ladderRun) step(ctx context.Context, step campaign.Step) (*campaign.Done, error) {
	name := step.Name()
	for {
		voids, err := r.dir.voids(r.ladder.ID, name)
		if err != nil {
			return nil, err
		}
		if err := checkSpace(r.dir.path); err != nil {
			return nil, err
		}
		dir, err := r.dir.newAttempt(r.ladder.ID, name)
		if err != nil {
			return nil, err
		}
		before := r.arm.identity()
		if changed := restarted(r.last, before); changed != "" {
			r.say("%s: between two steps %s", r.ladder.ID, changed)
			r.last = before
			if err := r.dir.disk.removeAll(dir); err != nil {
				return nil, err
			}
			if err := r.rewarm(ctx, step); err != nil {
				return nil, err
			}
			continue
		}
		started := r.now()
		went, err := r.arm.drive(ctx, step, fmt.Sprintf("%s-%s", r.runID(r.ladder.ID), filepath.Base(dir)), filepath.Join(dir, "run"))
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), r.void(dir, name, "interrupted: the step was not driven to its end", true))
		}
		if err != nil {
			return nil, err
		}
		attempt, err := readAttempt(filepath.Join(dir, "run"), step)
		if err != nil {
			return nil, err
		}
		if attempt.reason == "" || attempt.step == nil {
			attempt.reason = cmp.Or(attempt.reason, went.void)
		}
		after, gone := r.after(ctx, before)
		switch changed := restarted(before, after); {
		case gone != "":
			attempt.reason = "the arm died within the step: " + gone
		case changed != "":
			attempt.reason = "the arm changed within the step: " + changed
			r.cold = true
		}
		r.last = after
		if attempt.reason != "" && voids < r.plan.Redo {
			if full := checkSpace(r.dir.path); full != nil {
				return nil, full
			}
			r.say("%s %s: void: %s", r.ladder.ID, name, attempt.reason)
			if err := r.void(dir, name, attempt.reason, false); err != nil {
				return nil, err
			}
			if gone != "" {
				r.arm.down()
				r.arm = nil
				return nil, nil
			}
			if r.cold {
				if err := r.rewarm(ctx, step); err != nil {
					return nil, err
				}
			}
			continue
		}
		if gone != "" {
			r.arm.down()
			r.arm = nil
		}
		state := campaign.StepState{
			Ladder: r.ladder.ID, Step: step, Attempt: voids + 1, Started: started, Arm: before, Void: attempt.reason,
			CPU: went.cpu, CPUAbsent: went.cpuAbsent, JVM: went.jvm,
		}
		return r.commit(dir, attempt, state)
	}
}

// after is the arm's identity once a step was driven. One that someone else is
// starting again is given its time: what is driven next needs it.
func (r *ladderRun) after(ctx context.Context, before campaign.Identity) (id campaign.Identity, gone string) {
	id, gone = r.arm.identity(), r.arm.gone()
	if gone != "" || len(before.Listeners) == 0 || len(id.Listeners) > 0 {
		return id, gone
	}
	if err := r.arm.ready(ctx); err != nil {
		return id, cmp.Or(r.arm.gone(), fmt.Sprintf("nothing listens at its address any more (%v)", err))
	}
	return r.arm.identity(), r.arm.gone()
}

// attempt is what a driver wrote of a step.
type attempt struct {
	run    rundir.Run
	step   *rundir.Step // nil: nothing
	path   string       // of the step's directory
	reason string       // why it is void
}

func readAttempt(dir string, step campaign.Step) (attempt, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return attempt{}, nil // the driver wrote no run
	}
	steps, err := run.Steps()
	if err != nil {
		return attempt{}, fmt.Errorf("read what the driver wrote: %w", err)
	}
	a := attempt{run: run.Run()}
	for i := range steps {
		if s := &steps[i]; s.Name == step.Name() {
			a.step, a.path = s, run.StepPath(s.Name)
			a.reason = s.Client.Void
			if v := s.Record.GetVoidReason(); a.reason == "" && v != "" {
				a.reason = "agent: " + v
			}
		}
	}
	if a.step == nil {
		a.reason = ""
	}
	return a, nil
}

// commit gives a step its name in the ladder's directory: from then on it is
// finished, and is never written again.
func (r *ladderRun) commit(dir string, a attempt, state campaign.StepState) (*campaign.Done, error) {
	step := state.Step
	if a.step == nil && state.Void == "" {
		state.Void = "the driver wrote no result and gave no reason"
	}
	if state.Void != "" && (a.step == nil || a.step.Client.Void == "") {
		if err := a.rewrite(filepath.Join(dir, "void"), step, state.Void, r); err != nil {
			return nil, err
		}
	}
	state.ClientLimited = clientLimited(a.step.Client)
	if err := r.dir.disk.writeState(filepath.Join(a.path, campaign.StepFile), state); err != nil {
		return nil, err
	}
	if err := r.dir.disk.publish(a.path, r.dir.file(r.ladder.ID, rundir.StepsDir, step.Name())); err != nil {
		return nil, err
	}
	if err := r.dir.disk.removeAll(dir); err != nil {
		return nil, err
	}
	d := doneOf(*a.step, state)
	r.sayStep(d)
	return &d, nil
}

// rewrite makes the result of a step that is void for a reason that its driver
// does not know, or that wrote none.
func (a *attempt) rewrite(dir string, step campaign.Step, reason string, r *ladderRun) error {
	s := rundir.Step{Index: step.Index, OfferedHz: step.OfferedHz, Warmup: step.Unmeasured()}
	if a.step != nil {
		s = *a.step
	} else {
		s.Client = &rundir.ClientStep{Index: step.Index, Name: step.Name(), Warmup: step.Unmeasured(), OfferedHz: step.OfferedHz,
			ConnectionsWanted: r.ladder.Setting.Load.Connections}
	}
	s.Client.Void = reason
	run, err := rundir.Create(dir, rundir.Run{Arm: r.ladder.ArmName, Started: r.now()})
	if err != nil {
		return diskError(err)
	}
	if err := run.WriteStep(s); err != nil {
		return diskError(err)
	}
	s.Name = step.Name()
	a.step, a.path = &s, run.StepPath(step.Name())
	return nil
}

// void marks an attempt that does not count.
func (r *ladderRun) void(dir, step, reason string, interrupted bool) error {
	return r.dir.disk.writeState(filepath.Join(dir, campaign.VoidFile),
		campaign.Void{Step: step, Reason: reason, At: r.now(), Interrupted: interrupted})
}

// wait is the gap between two steps.
func (r *ladderRun) wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
