package loadgen

import (
	"context"
	"fmt"
	"time"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// Window opens and closes an agent's window for who drives the load by other means:
// a script around another tool. Its edges are the agent's own, as soon as it can
// arm them. A Window is of one run; its methods are called by one goroutine.
type Window struct{ agent *agentClient }

// OpenWindow connects to an agent, which need not be there yet.
func OpenWindow(cfg AgentConfig, run string) (*Window, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	a, err := dialAgent(cfg, run, "")
	if err != nil {
		return nil, err
	}
	return &Window{a}, nil
}

// Close ends the connection, not the window.
func (w *Window) Close() { w.agent.close() }

// Start opens the window of a step, which closes by itself after expires. The
// marker has the edge on the agent's clock.
func (w *Window) Start(ctx context.Context, step string, expires time.Duration) (*rungv1.Marker, error) {
	if err := w.agent.check(ctx); err != nil {
		return nil, w.failed("start", step, err)
	}
	at, err := w.agent.start(ctx, step, 0, 0, expires)
	if err != nil {
		return nil, w.failed("start", step, err)
	}
	return w.mark(step, rungv1.Marker_EDGE_START, at), nil
}

// End closes the window and gives what the agent measured, one record for each
// target.
func (w *Window) End(ctx context.Context, step string) (*rungv1.Marker, []AgentRecord, error) {
	if err := w.agent.end(ctx, step, 0); err != nil {
		return nil, nil, w.failed("end", step, err)
	}
	got, err := w.agent.fetch(ctx, step)
	if err != nil {
		return nil, nil, w.failed("read", step, err)
	}
	if len(got) == 0 {
		return nil, nil, fmt.Errorf("agent %s: read step %s: it sent no record", w.agent.cfg.Address, step)
	}
	return w.mark(step, rungv1.Marker_EDGE_END, int64(got[0].Record.GetWindow().GetEndMonoNs())), got, nil
}

func (w *Window) mark(step string, edge rungv1.Marker_Edge, at int64) *rungv1.Marker {
	m := &rungv1.Marker{Run: w.agent.run, Step: step, Edge: edge, AtMonoNs: uint64(at), BootId: w.agent.clock.bootID}
	if m.BootId != "" {
		ours := at - w.agent.clock.ns
		m.AtWall = wallOf(ours).UTC().Format(time.RFC3339Nano)
	}
	return m
}

func (w *Window) failed(what, step string, err error) error {
	return fmt.Errorf("agent %s: %s step %s: %s", w.agent.cfg.Address, what, step, reason(err))
}
