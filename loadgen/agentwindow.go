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
	missing error // why there will be no record

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

// beginWindow arms the opening edge. A refusal of the agent is an error: the
// step must not be driven unseen while another run measures the same target.
func (d *driver) beginWindow(ctx context.Context, p *plan, r *StepResult) (*agentWindow, error) {
	if d.agent == nil {
		return nil, nil
	}
	w := &agentWindow{agent: d.agent, step: p.step.Name()}
	if d.agent.clock.bootID == "" {
		// Without its clock no edge can be converted: it was away until now.
		if err := d.agent.check(ctx); err != nil {
			return w.refused(err)
		}
		*p = d.newPlan(p.step)
	}
	w.shift, w.bound = d.agent.clock.get(d.bootID), 0
	if w.shift != 0 {
		w.bound = d.agent.clock.boundAt(monoNow())
	}
	length := time.Duration(p.window.end - p.window.start)
	at, err := d.agent.start(ctx, w.step, p.window.start+w.shift, length, d.cfg.Lead+d.cfg.Settle+length+expiryMargin)
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
	if w.bound > int64(wideBound) {
		r.warn("window: the agent's clock is known to ±%s only", time.Duration(w.bound))
	}
	return w, nil
}

func (w *agentWindow) refused(err error) (*agentWindow, error) {
	if unreachable(err) {
		w.missing = err
		return w, nil
	}
	return nil, &AgentRefusal{Address: w.agent.cfg.Address, Step: w.step, Err: err}
}

// end arms the closing edge ahead of its instant, or closes the window at once
// when sending stops early.
func (w *agentWindow) end(sending context.Context, at int64) {
	if w == nil || w.missing != nil {
		return
	}
	theirs := at + w.shift
	if !sleepUntil(sending, at-int64(endAhead)) {
		theirs = 0
	}
	// sending may be over already, which must not keep the window open.
	w.missing = w.agent.end(context.WithoutCancel(sending), w.step, theirs)
}

// collect fetches what the agent measured.
func (w *agentWindow) collect(ctx context.Context, out *Outcome) {
	if w == nil {
		return
	}
	if w.missing == nil {
		out.Agent, w.missing = w.agent.fetch(ctx, w.step)
	}
	if w.missing == nil && len(out.Agent) == 0 {
		w.missing = errors.New("the agent sent none")
	}
	if w.missing != nil {
		out.Agent = nil
		out.Result.warn("missing: record: agent %s: %s", w.agent.cfg.Address, reason(w.missing))
		if status.Code(w.missing) == codes.NotFound {
			if out.Result.Void == "" {
				out.Result.Void = fmt.Sprintf("agent %s does not know the step (restarted?): %s", w.agent.cfg.Address, reason(w.missing))
			}
			return
		}
		// A call that was lost may have been heard: a window left open would keep
		// the next step from the target until it expires.
		_ = w.agent.end(context.WithoutCancel(ctx), w.step, 0)
		return
	}
	for _, got := range out.Agent {
		w.compare(got, &out.Result)
	}
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
