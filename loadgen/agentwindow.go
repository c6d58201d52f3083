package loadgen

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// agentWindow is the agent's window on one step. A nil one belongs to a run
// without an agent. Whatever the agent does not give becomes a warning that
// begins with "missing:"; the step is driven and kept all the same. An agent that
// answers but does not know the step was restarted in it: then the step is void,
// since another run may have measured meanwhile.
type agentWindow struct {
	agent   *agentClient
	step    string
	missing error          // why there will be no record
	also    []*agentWindow // of the further agents, at the same edges

	// One estimate of the clocks serves both edges, so that the window is as
	// long there as here: theirs = ours + shift, within ±bound.
	shift, bound int64
}

// endAhead is how long before its closing edge a window is told of it.
const endAhead = 400 * time.Millisecond

// expiryMargin keeps a window whose driver lives from expiring.
const expiryMargin = time.Minute

// wideBound is an uncertainty of the agent's clock worth a warning.
const wideBound = 5 * time.Millisecond

// openWindow arms the opening edge of the arm's own agent. A refusal is an error:
// the step must not be driven unseen while another run measures the same target.
func (d *driver) openWindow(ctx context.Context, a *agentClient, p *plan, r *StepResult) (*agentWindow, error) {
	w := &agentWindow{agent: a, step: p.step.Name()}
	if a.clock.bootID == "" {
		// Without its clock no edge can be converted: it was away until now.
		if err := a.check(ctx); err != nil {
			return w.refused(err)
		}
		*p = d.newPlan(p.step)
	}
	w.sync(d.bootID)
	at, err := d.arm(ctx, w, p)
	if err != nil {
		return w.refused(err)
	}
	if ours := at - w.shift; ours != p.window.start {
		r.warn("window: the agent opens it %s after the edge it was asked for", time.Duration(ours-p.window.start))
		p.window.start = ours
	}
	if late := p.slip(); late > 0 {
		r.warn("window: the agent took %s longer than planned to arm it, which is missing from settle", late.Round(time.Microsecond))
	}
	w.doubt(r)
	return w, nil
}

// sync estimates the agent's clock for both edges.
func (w *agentWindow) sync(bootID string) {
	w.shift, w.bound = w.agent.clock.get(bootID), 0
	if w.shift != 0 {
		w.bound = w.agent.clock.boundAt(monoNow())
	}
}

// arm asks for the opening edge and gives the instant of the agent's clock at
// which it will be.
func (d *driver) arm(ctx context.Context, w *agentWindow, p *plan) (int64, error) {
	length := time.Duration(p.window.end - p.window.start)
	return w.agent.start(ctx, w.step, p.window.start+w.shift, length, d.cfg.Lead+d.cfg.Settle+length+expiryMargin)
}

func (w *agentWindow) doubt(r *StepResult) {
	if w.bound > int64(wideBound) {
		r.warn("window: the clock of agent %s is known to ±%s only", w.agent.cfg.Address, time.Duration(w.bound))
	}
}

func (w *agentWindow) refused(err error) (*agentWindow, error) {
	if unreachable(err) {
		w.missing = err
		return w, nil
	}
	return nil, &AgentRefusal{Address: w.agent.cfg.Address, Step: w.step, Err: err}
}

// endOne arms the closing edge ahead of its instant, or closes the window at once
// when sending stops early.
func (w *agentWindow) endOne(sending context.Context, at int64) {
	if w.missing != nil {
		return
	}
	theirs := at + w.shift
	if !sleepUntil(sending, at-int64(endAhead)) {
		theirs = 0
	}
	// sending may be over already, which must not keep the window open.
	w.missing = w.agent.end(context.WithoutCancel(sending), w.step, theirs)
}

// collectOne fetches what one agent measured, nil with a warning where that is
// missing.
func (w *agentWindow) collectOne(ctx context.Context, out *Outcome) []AgentRecord {
	var got []AgentRecord
	if w.missing == nil {
		got, w.missing = w.agent.fetch(ctx, w.step)
	}
	if w.missing == nil && len(got) == 0 {
		w.missing = errors.New("the agent sent none")
	}
	if w.missing != nil {
		out.Result.warn("missing: record: agent %s: %s", w.agent.cfg.Address, reason(w.missing))
		if status.Code(w.missing) == codes.NotFound {
			if out.Result.Void == "" {
				out.Result.Void = fmt.Sprintf("agent %s does not know the step (restarted?): %s", w.agent.cfg.Address, reason(w.missing))
			}
			return nil
		}
		// A call that was lost may have been heard: a window left open would keep
		// the next step from the target until it expires.
		_ = w.agent.end(context.WithoutCancel(ctx), w.step, 0)
		return nil
	}
	for _, record := range got {
		w.compare(record, &out.Result)
	}
	return got
}

// compare holds what came against the client's window.
func (w *agentWindow) compare(got AgentRecord, r *StepResult) {
	name := got.Record.GetTarget().GetName()
	if len(got.ProfileGz) == 0 {
		r.warn("missing: profile: agent %s sent none for target %s", w.agent.cfg.Address, name)
	}
	if r.Void != "" {
		return // the window was cut short
	}
	window := got.Record.GetWindow()
	start, end := int64(window.GetStartMonoNs())-w.shift, int64(window.GetEndMonoNs())-w.shift
	if start != int64(r.WindowStartMonoNs) || end != int64(r.WindowEndMonoNs) {
		r.warn("window: the agent's on target %s begins %s and ends %s after the client's", name,
			time.Duration(start-int64(r.WindowStartMonoNs)), time.Duration(end-int64(r.WindowEndMonoNs)))
	}
}
