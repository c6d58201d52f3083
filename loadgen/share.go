package loadgen

import (
	"context"
	"fmt"
	"time"
)

// Share makes this process one of several drivers of one load on this host: of
// each step's schedule it sends the requests Index, Index + Of, …, from the same
// first instant as the others. Its caps and connections are its own.
type Share struct {
	Index, Of int
	// Begin says that this driver is ready for a step and waits for the others. To
	// driver 0, which plans and arms the agents, it gives 0 when all are ready; to
	// the others the instant of the first send, in ns of CLOCK_MONOTONIC, or 0 if
	// driver 0 cannot drive the step.
	Begin func(ctx context.Context, step string) (firstMonoNs int64, err error)
	// Announce tells the others driver 0's instant of the first send, or 0.
	Announce func(step string, firstMonoNs int64) error
}

func (s *Share) validate() error {
	if s.Of < 2 || s.Of > maxWorkers || s.Index < 0 || s.Index >= s.Of || s.Begin == nil || s.Announce == nil {
		return bad("share", fmt.Sprintf("%d/%d", s.Index, s.Of), "INDEX/OF of 2 to %d drivers", maxWorkers)
	}
	return nil
}

// parts says which part of the schedule worker w of this driver sends.
func (c *Config) part(w int) (index, of int) {
	if c.Share == nil {
		return w, c.Workers
	}
	return c.Share.Index + w*c.Share.Of, c.Workers * c.Share.Of
}

// ours is how many of n requests this driver sends.
func (c *Config) ours(n int) uint64 {
	if c.Share == nil {
		return uint64(n)
	}
	return uint64(max(0, (n-c.Share.Index+c.Share.Of-1)/c.Share.Of))
}

// leads says whether this driver plans the steps.
func (d *driver) leads() bool { return d.cfg.Share == nil || d.cfg.Share.Index == 0 }

// together waits for the other drivers and gives the instant of the first send
// that driver 0 planned; 0 where this driver plans.
func (d *driver) together(ctx context.Context, s Step, connected bool) (int64, error) {
	share := d.cfg.Share
	if share == nil {
		return 0, nil
	}
	first, err := share.Begin(ctx, s.Name())
	switch {
	case err != nil:
		return 0, fmt.Errorf("step %s: wait for the other drivers: %w", s.Name(), err)
	case d.leads() && !connected:
		return 0, share.Announce(s.Name(), 0)
	case !d.leads() && connected && first == 0:
		return 0, errLeaderless
	case !d.leads() && connected && first < monoNow():
		return 0, fmt.Errorf("step %s: its first send was %s ago when this driver heard of it", s.Name(), time.Duration(monoNow()-first))
	}
	return first, nil
}

var errLeaderless = fmt.Errorf("driver 0 cannot drive the step")

// planAt is the plan of a step whose first send is at an instant.
func (d *driver) planAt(s Step, firstMonoNs int64) plan {
	p := d.newPlan(s)
	move := firstMonoNs - p.first
	p.origin, p.first = p.origin+move, p.first+move
	p.window.start, p.window.end = p.window.start+move, p.window.end+move
	return p
}
