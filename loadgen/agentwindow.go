package loadgen

import (
	"context"
	"errors"
	"time"
)

// agentWindow is the agent's window on one step. A nil one belongs to a run
// without an agent. Whatever the agent does not give becomes a warning that
// begins with "missing:"; the step is driven and kept all the same.
type agentWindow struct {
	d       *driver
	step    string
	missing error // why there will be no record
	late    time.Duration
	endedAt int64 // the closing edge as the agent has it, our clock
}

// endAhead is how long before its closing edge a window is told of it.
const endAhead = 400 * time.Millisecond

// expiryMargin keeps a window whose driver lives from expiring.
const expiryMargin = time.Minute

// beginWindow arms the opening edge. A refusal of the agent is an error: the
// step must not be driven unseen while another run measures the same target.
func (d *driver) beginWindow(ctx context.Context, p *plan, r *StepResult) (*agentWindow, error) {
	if d.agent == nil {
		return nil, nil
	}
	w := &agentWindow{d: d, step: p.step.Name()}
	if d.agent.clock.bootID == "" {
		// Without its clock no edge can be converted: it was away until now.
		if err := d.agent.check(ctx); err != nil {
			return d.refused(w, err)
		}
		*p = d.newPlan(p.step)
	}
	length := time.Duration(p.window.end - p.window.start)
	at, err := d.agent.start(ctx, w.step, p.window.start, length, d.cfg.Lead+d.cfg.Settle+length+expiryMargin)
	if err != nil {
		return d.refused(w, err)
	}
	if at != p.window.start {
		r.warn("window: the agent opens it %s after the edge it was asked for", time.Duration(at-p.window.start))
		p.window.start = at
	}
	if late := p.slip(); late > 0 {
		r.warn("window: the agent took %s longer than planned to arm it, which is missing from settle", late.Round(time.Microsecond))
	}
	return w, nil
}

func (d *driver) refused(w *agentWindow, err error) (*agentWindow, error) {
	if unreachable(err) {
		w.missing = err
		return w, nil
	}
	return nil, &AgentRefusal{Address: d.cfg.Agent.Address, Step: w.step, Err: err}
}

// end arms the closing edge ahead of its instant, or closes the window at once
// when sending stops early.
func (w *agentWindow) end(sending context.Context, at int64) {
	if w == nil || w.missing != nil {
		return
	}
	if !sleepUntil(sending, at-int64(endAhead)) {
		at = 0
	}
	// sending may be over already, which must not keep the window open.
	w.endedAt, w.missing = w.d.agent.end(context.WithoutCancel(sending), w.step, at)
}

// collect fetches what the agent measured.
func (w *agentWindow) collect(ctx context.Context, out *Outcome) {
	if w == nil {
		return
	}
	r := &out.Result
	if w.missing == nil && ctx.Err() == nil {
		out.Agent, w.missing = w.d.agent.fetch(ctx, w.step)
	}
	if w.missing == nil && len(out.Agent) == 0 {
		w.missing = errors.New("the agent sent none")
		if ctx.Err() != nil {
			w.missing = ctx.Err()
		}
	}
	if w.missing != nil {
		out.Agent = nil
		// A call that was lost may have been heard: a window left open would keep
		// the next step from the target until it expires.
		_, _ = w.d.agent.end(context.WithoutCancel(ctx), w.step, 0)
		r.warn("missing: record: agent %s: %s", w.d.cfg.Agent.Address, reason(w.missing))
		return
	}
	for _, got := range out.Agent {
		w.compare(got, r)
	}
}

// compare holds the agent's window against ours.
func (w *agentWindow) compare(got AgentRecord, r *StepResult) {
	name := got.Record.GetTarget().GetName()
	if len(got.ProfileGz) == 0 {
		r.warn("missing: profile: agent %s sent none for target %s", w.d.cfg.Agent.Address, name)
	}
	start := w.d.agent.toOurs(got.Record.GetWindow().GetStartMonoNs())
	end := w.d.agent.toOurs(got.Record.GetWindow().GetEndMonoNs())
	bound := w.d.agent.clock.boundAt(monoNow())
	if w.d.agent.clock.get(w.d.bootID) == 0 {
		bound = 0
	}
	if r.Void != "" {
		return // its window was cut short
	}
	if off := max(distance(start, int64(r.WindowStartMonoNs)), distance(end, int64(r.WindowEndMonoNs))); off > bound {
		r.warn("window: the agent's on target %s differs from the client's by %s at one edge (clock bound ±%s)", name, time.Duration(off), time.Duration(bound))
	} else if bound > int64(5*time.Millisecond) {
		r.warn("window: the agent's clock is known to ±%s only", time.Duration(bound))
	}
}

func distance(a, b int64) int64 { return max(a-b, b-a) }
