package loadgen

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

func (c *Config) validateAgents() error {
	if c.Agent == nil {
		if len(c.Also) > 0 {
			return bad("also", fmt.Sprintf("%q", c.Also[0].Address), "an agent of the arm's own beside it")
		}
		return nil
	}
	if err := c.Agent.validate(); err != nil {
		return err
	}
	c.Also = slices.Clone(c.Also)
	seen := []string{c.Agent.Address}
	for i := range c.Also {
		a := &c.Also[i]
		if slices.Contains(seen, a.Address) {
			return bad("also", fmt.Sprintf("%q", a.Address), "each agent once, with all of its targets")
		}
		seen = append(seen, a.Address)
		if err := a.validate(); err != nil {
			return err
		}
	}
	return nil
}

// openAgents connects to all agents and makes sure that they have their targets.
func (d *driver) openAgents(ctx context.Context) error {
	if d.cfg.Agent == nil {
		return nil
	}
	for i, cfg := range append([]AgentConfig{*d.cfg.Agent}, d.cfg.Also...) {
		a, err := dialAgent(cfg, d.cfg.Run, d.bootID)
		if err != nil {
			return err
		}
		if i == 0 {
			d.agent = a
		} else {
			d.also = append(d.also, a)
		}
		// One that is away now may be there when the first step begins, which asks
		// again and notes what is missing.
		if err := a.check(ctx); err != nil && !unreachable(err) {
			return &AgentRefusal{Address: cfg.Address, Step: d.cfg.Steps[0].Name(), Err: err}
		}
	}
	return nil
}

func (d *driver) closeAgents() {
	if d.agent != nil {
		d.agent.close()
	}
	for _, a := range d.also {
		a.close()
	}
}

// beginWindow arms the opening edge with all agents: the first may move it, the
// others open where it does. A refusal of any is an error, and the windows that
// are open by then are closed again.
func (d *driver) beginWindow(ctx context.Context, p *plan, r *StepResult) (*agentWindow, error) {
	if d.agent == nil {
		return nil, nil
	}
	for _, a := range d.also {
		a.wake(ctx)
		if a.clock.bootID == "" {
			// What is missing is for its window to say.
			_ = a.check(ctx)
		}
	}
	if len(d.also) > 0 {
		*p = d.newPlan(p.step) // that took time
	}
	w, err := d.openWindow(ctx, d.agent, p, r)
	if err != nil {
		return nil, err
	}
	for _, a := range d.also {
		other, err := d.joinWindow(ctx, a, p, r)
		if err != nil {
			w.abandon(ctx)
			return nil, err
		}
		w.also = append(w.also, other)
	}
	if late := p.slip(); late > 0 {
		r.warn("window: the further agents took %s longer than planned to arm it, which is missing from settle", late.Round(time.Microsecond))
	}
	return w, nil
}

// joinWindow arms the opening edge of a further agent.
func (d *driver) joinWindow(ctx context.Context, a *agentClient, p *plan, r *StepResult) (*agentWindow, error) {
	w := &agentWindow{agent: a, step: p.step.Name()}
	if a.clock.bootID == "" {
		if err := a.check(ctx); err != nil {
			return w.refused(err)
		}
	}
	w.sync(d.bootID)
	at, err := d.arm(ctx, w, p)
	if err != nil {
		return w.refused(err)
	}
	if ours := at - w.shift; ours != p.window.start {
		r.warn("window: agent %s opens it %s after the edge it was asked for", a.cfg.Address, time.Duration(ours-p.window.start))
	}
	w.doubt(r)
	return w, nil
}

// abandon closes windows whose step is not driven.
func (w *agentWindow) abandon(ctx context.Context) {
	for _, other := range append([]*agentWindow{w}, w.also...) {
		if other.missing == nil {
			_ = other.agent.end(context.WithoutCancel(ctx), other.step, 0)
		}
	}
}

// end arms the closing edge with all agents at once.
func (w *agentWindow) end(sending context.Context, at int64) {
	if w == nil {
		return
	}
	var others sync.WaitGroup
	for _, other := range w.also {
		others.Go(func() { other.endOne(sending, at) })
	}
	w.endOne(sending, at)
	others.Wait()
}

// collect fetches what all agents measured.
func (w *agentWindow) collect(ctx context.Context, out *Outcome) {
	if w == nil {
		return
	}
	out.Agent = w.collectOne(ctx, out)
	for _, other := range w.also {
		out.Also = append(out.Also, other.collectOne(ctx, out)...)
	}
}
