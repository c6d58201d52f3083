package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Hooks take what a run makes as it goes. All are optional and are called from
// goroutines of the run, StepDone between two steps.
type Hooks struct {
	// Markers gets a `#RUNG-STEP {…}` line at each edge of each window.
	Markers io.Writer
	// Progress is called a few times a second while a step is driven.
	Progress func(Progress)
	// StepDone gets each finished step, driven or not. An error ends the run.
	StepDone func(Outcome) error
	// More is asked when the last step is over, before StepDone gets it and unless
	// it is void, for the offered rate of a further one of the same length, and
	// then again; 0 ends the ladder.
	More func(last Outcome) float64
}

// Progress is how far a step is.
type Progress struct {
	Step              Step
	Elapsed, Duration time.Duration // since the first send; of the schedule
	Delivered         uint64
	InFlight          int64
	// Last is the last whole interval, zero before there is one.
	Last Point
}

// Outcome is all that there is about a finished step.
type Outcome struct {
	Step   Step
	Result StepResult
	Hlog   []byte // HdrHistogram log, an interval per point and tag; nil for a step that was not driven
	// ResponseHgrm and ServiceHgrm are distributions of percentiles, in
	// milliseconds; nil like Hlog.
	ResponseHgrm, ServiceHgrm []byte
	Points                    []Point       // the step's course
	Agent                     []AgentRecord // one per target; nil when missing, which is among the warnings
	Also                      []AgentRecord // of the further agents, as far as there
}

// Summary is how a run ended.
type Summary struct {
	Steps int      // finished, void ones included
	Void  []string // "NAME: reason"
	// Missing names the parts of steps that the agent did not give.
	Missing []string
	// Stopped: a void step ended the run before its last step.
	Stopped bool
}

// driver runs the steps of one run. It is the sink of its engine.
type driver struct {
	cfg    Config
	hooks  Hooks
	engine engine
	agent  *agentClient // nil without one
	own    *ownGroups
	also   []*agentClient
	bootID string

	inFlight atomic.Int64 // slots taken, of all steps
	window   atomic.Pointer[window]
}

func (d *driver) record(r request, shard int, o outcome, at int64) {
	if o.class == delivered {
		d.window.Load().success(at)
	}
	r.tally.record(r, shard, o, at)
}

func (d *driver) release(request, outcome) { d.inFlight.Add(-1) }

// Run validates the config, makes sure that the service answers, and drives the
// steps in order. An error means that the run did not come to its end: the
// config is wrong (*ConfigError), there is no service, the agent refused
// (*AgentRefusal), ctx ended, or a hook failed. Steps that went wrong are no
// error but void, and listed in the summary, which is valid in either case.
func Run(ctx context.Context, cfg Config, hooks Hooks) (Summary, error) {
	var sum Summary
	if err := cfg.Validate(); err != nil {
		return sum, err
	}
	if len(cfg.Steps) == 0 {
		return sum, bad("rates", `""`, "at least one rate")
	}
	d := &driver{cfg: cfg, hooks: hooks, own: findOwnGroups()}
	var err error
	if d.bootID, err = bootID(); err != nil && cfg.Agent != nil {
		return sum, fmt.Errorf("read this host's boot id, which the agent's windows need: %w", err)
	}
	if d.engine, err = newEngine(cfg); err != nil {
		return sum, err
	}
	d.engine.start(d)
	defer d.engine.close()
	if err := preflight(ctx, cfg, d.engine); err != nil {
		return sum, err
	}
	defer d.closeAgents()
	if err := d.openAgents(ctx); err != nil {
		return sum, err
	}
	return sum, d.ladder(ctx, &sum)
}

func (d *driver) ladder(ctx context.Context, sum *Summary) error {
	steps := slices.Clone(d.cfg.Steps)
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		if i > 0 && sleep(ctx, d.cfg.Gap) != nil {
			break
		}
		// Garbage of the last step is none of this one's.
		runtime.GC()
		out, err := d.step(ctx, s)
		if err != nil {
			return err
		}
		if i == len(steps)-1 && ctx.Err() == nil && out.void() == "" && d.hooks.More != nil {
			next := Step{Index: s.Index + 1, OfferedHz: d.hooks.More(out), Duration: s.Duration}
			if d.cfg.IterationsPerSlot > 0 {
				next = d.cfg.counted(next)
			}
			if d.cfg.validateStep(next) == nil {
				steps = append(steps, next)
			}
		}
		stop := out.void() != "" && d.cfg.OnVoid == OnVoidStop && i < len(steps)-1
		if stop || ctx.Err() != nil || i == len(steps)-1 {
			d.finish(&out.Result)
		}
		sum.Add(out)
		if d.hooks.StepDone != nil {
			if err := d.hooks.StepDone(out); err != nil {
				return fmt.Errorf("step %s: %w", s.Name(), err)
			}
		}
		if ctx.Err() != nil {
			break
		}
		if stop {
			sum.Stopped = true
			return nil
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %d of %d steps: %w", sum.Steps, len(steps), context.Cause(ctx))
	}
	return nil
}

// void is why no figure of the step may be used, by the driver or an agent; "" when sound.
func (o Outcome) void() string {
	if o.Result.Void != "" {
		return o.Result.Void
	}
	for _, a := range slices.Concat(o.Agent, o.Also) {
		if why := a.Record.GetVoidReason(); why != "" {
			return "agent: " + why
		}
	}
	return ""
}

// Add counts a finished step.
func (s *Summary) Add(o Outcome) {
	s.Steps++
	if why := o.void(); why != "" {
		s.Void = append(s.Void, o.Result.Name+": "+why)
	}
	for _, w := range o.Result.Warnings {
		if isMissing(w) {
			s.Missing = append(s.Missing, o.Result.Name+": "+w)
		}
	}
}

// reconnect opens what is not open. A service that was just started again gets
// the time of one attempt; one that is gone is not waited for longer.
func (d *driver) reconnect(ctx context.Context) error {
	deadline := time.Now().Add(d.cfg.ConnectTimeout)
	for {
		err := d.engine.connect(ctx)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		if sleep(ctx, reopenMin) != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// sleep waits, or returns ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(max(d, 0))
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// sleepUntil waits for an instant; false when ctx ended before it.
func sleepUntil(ctx context.Context, monoNs int64) bool {
	return sleep(ctx, time.Duration(monoNs-monoNow())) == nil
}

func isMissing(warning string) bool { return strings.HasPrefix(warning, "missing:") }

// planned is how many requests a step has.
func (d *driver) planned(s Step) uint64 {
	n, _, _ := d.cfg.schedule(s).Bounds()
	return d.cfg.ours(n)
}
