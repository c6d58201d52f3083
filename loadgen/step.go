package loadgen

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// plan is a step with its instants, all known before the first send.
type plan struct {
	step     Step
	schedule Schedule
	n        uint64
	origin   int64 // mono ns, where the schedule's offsets count from
	first    int64 // first planned send
	window   *window
}

// newPlan puts a step's first send Lead ahead.
func (d *driver) newPlan(s Step) plan {
	p := plan{step: s, schedule: d.cfg.schedule(s)}
	n, first, last := p.schedule.Bounds()
	p.n = d.cfg.ours(n)
	p.origin = monoNow() + int64(d.cfg.Lead-first)
	p.first = p.origin + int64(first)
	p.window = &window{start: p.first + int64(d.cfg.Settle), end: p.origin + int64(last)}
	return p
}

// slip moves the sends later, as far as the agent took longer than Lead to arm
// the opening edge. The edge itself stays where it was armed.
func (p *plan) slip() time.Duration {
	late := monoNow() + int64(5*time.Millisecond) - p.first
	if late <= 0 {
		return 0
	}
	p.origin += late
	p.first += late
	p.window.end += late
	return time.Duration(late)
}

// step drives one step, or says why it was not driven. Its error ends the run.
func (d *driver) step(ctx context.Context, s Step) (Outcome, error) {
	r := StepResult{
		Index: s.Index, Name: s.Name(), Warmup: s.Warmup, OfferedHz: s.OfferedHz,
		ConnectionsWanted: d.cfg.Connections, BootID: d.bootID,
	}
	err := d.reconnect(ctx)
	first, other := d.together(ctx, s, err == nil)
	switch {
	case other == errLeaderless:
		err = other
	case other != nil:
		return Outcome{}, other
	}
	if err != nil {
		r.Scheduled = d.planned(s)
		r.NotConnected = r.Scheduled
		r.ConnectionsOpen = int(d.engine.connections().open.Load())
		r.Void = fmt.Sprintf("not connected: %s at %s: %v", d.cfg.Protocol, endpoint(d.cfg), err)
		return Outcome{Step: s, Result: r}, nil
	}
	if d.agent != nil {
		d.agent.wake(ctx)
	}
	p := d.newPlan(s)
	if first != 0 {
		p = d.planAt(s, first)
	}
	session, err := d.beginWindow(ctx, &p, &r)
	if err != nil {
		return Outcome{}, err
	}
	if d.cfg.Share != nil && d.leads() {
		if err := d.cfg.Share.Announce(s.Name(), p.first); err != nil {
			return Outcome{}, err
		}
	}
	out := d.drive(ctx, p, session, &r)
	session.collect(ctx, &out)
	return out, nil
}

// drive sends the schedule, drains and adds up.
func (d *driver) drive(ctx context.Context, p plan, session *agentWindow, r *StepResult) Outcome {
	conns := d.engine.connections()
	opened, frames, ended := conns.markStep(), conns.tapped(), d.engine.ended()
	t := newTally(d.cfg.Workers, d.cfg.Connections)
	d.window.Store(p.window)
	limit := time.Duration(p.window.end-monoNow()) + d.cfg.Timeout + d.cfg.Drain + d.cfg.Watchdog
	ctx, cancel := context.WithTimeoutCause(ctx, limit, &watchdogError{limit})
	defer cancel()
	sending, stopSending := context.WithCancelCause(ctx)
	defer stopSending(nil)

	rec := d.newRecorder(p, t)
	recording, stopRecording := context.WithCancel(context.Background())
	defer stopRecording()
	var recorded sync.WaitGroup
	recorded.Go(func() { rec.run(recording) })
	recorded.Go(func() { d.follow(recording, p, t, &rec.latest) })

	var edges sync.WaitGroup
	var markErr error
	edges.Go(func() { markErr = d.followEdges(sending, p) })
	edges.Go(func() { session.end(sending, p.window.end) })

	// The driver sleeps until its first send is near, so that its CPU figure is
	// the step's.
	sleepUntil(sending, p.first-int64(time.Millisecond))
	before := readUse(d.own)
	watch := &sampler{conns: d.engine.connections()}
	watching, stopWatching := context.WithCancel(context.Background())
	defer stopWatching()
	var watched sync.WaitGroup
	watched.Go(func() { watch.run(watching) })
	sendErr := d.send(sending, p, t)
	after := readUse(d.own)
	stopWatching()
	watched.Wait()
	if sendErr != nil {
		stopSending(sendErr)
	}
	stoppedAt := monoNow()
	d.drain(ctx, t)
	drainEnd := monoNow()
	t.seal()
	stopRecording()
	recorded.Wait()
	rec.end()
	c := t.add()
	r.take(c)
	r.ClientCPUNs = uint64(ownCPU() - before.cpu)
	r.Driver = after.since(before, d.own)
	watch.into(&r.Driver)
	edges.Wait()

	r.FirstSendMonoNs, r.LastSendMonoNs = uint64(p.first), uint64(p.window.end)
	r.WindowStartMonoNs, r.WindowEndMonoNs = uint64(p.window.start), uint64(p.window.end)
	r.DrainEndMonoNs = uint64(drainEnd)
	r.InFlightAtStart, r.InFlightAtEnd = uint64(p.window.inFlightStart.Load()), uint64(p.window.inFlightEnd.Load())
	r.DeliveredInWindow = p.window.delivered.Load()
	d.noteConnections(r, opened)
	r.HTTP2, r.HTTP2Absent = conns.http2Since(frames)
	r.StreamsEnded = newly(ended, d.engine.ended())
	if markErr != nil {
		r.warn("missing: marker: %v", markErr)
	}
	d.judge(r, p, sendErr, stoppedAt)

	out := Outcome{Step: p.step, Result: *r, Points: rec.points}
	var err error
	if rec.err != nil {
		out.Result.warn("missing: histogram log: %v", rec.err)
	} else {
		out.Hlog = rec.hlog.Bytes()
	}
	if out.ResponseHgrm, err = hgrm(c.response); err == nil {
		out.ServiceHgrm, err = hgrm(c.service)
	}
	if err != nil {
		out.Result.warn("missing: percentile distribution: %v", err)
	}
	return out
}

// newly is what a count grew by, nil if by nothing.
func newly(before, now map[string]uint64) map[string]uint64 {
	var out map[string]uint64
	for kind, n := range now {
		if n > before[kind] {
			out = add(out, map[string]uint64{kind: n - before[kind]})
		}
	}
	return out
}

// finish closes what outlives the steps, when the last is over, and notes its end
// with that step.
func (d *driver) finish(r *StepResult) {
	f, ok := d.engine.(finisher)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.Drain)
	defer cancel()
	ends := f.finish(ctx)
	r.StreamEnds = &ends
	if ends.By[grpcOK] != ends.Closed {
		r.warn("streams: of %d closed by the driver %d ended with OK; %v, %d still open after %s", ends.Closed, ends.By[grpcOK], ends.By, ends.StillOpen, d.cfg.Drain)
	}
}

// drain waits for the answers still missing, as long as the config allows.
func (d *driver) drain(ctx context.Context, t *tally) {
	limit := time.NewTimer(d.cfg.Drain)
	defer limit.Stop()
	select {
	case <-t.drained:
	case <-limit.C:
	case <-ctx.Done():
	}
}

func (d *driver) noteConnections(r *StepResult, openedBefore int64) {
	conns := d.engine.connections()
	r.ConnectionsOpen = int(conns.lowest.Load())
	again := conns.opened.Load() - openedBefore
	if r.ConnectionsOpen != r.ConnectionsWanted || again > 0 {
		r.warn("connections: %d wanted, %d open at the lowest, %d opened again", r.ConnectionsWanted, r.ConnectionsOpen, again)
	}
}

// judge voids what cannot be used and warns about the rest.
func (d *driver) judge(r *StepResult, p plan, sendErr error, stoppedAt int64) {
	switch err := r.Check(); {
	case sendErr != nil:
		r.Void = fmt.Sprintf("%v, %.2f s after the first send; the rest of the schedule was not sent", sendErr, float64(stoppedAt-p.first)/1e9)
		// The edges planned for later were never reached.
		r.LastSendMonoNs = uint64(min(max(stoppedAt, p.first), p.window.end))
		r.WindowEndMonoNs = max(r.WindowStartMonoNs, r.LastSendMonoNs)
	case err != nil:
		r.Void = err.Error()
	case r.DeliveredInWindow == 0:
		r.Void = "nothing was delivered in the window: " + describeErrors(r)
	}
	r.judge()
}

func describeErrors(r *StepResult) string {
	if total(r.Errors) == 0 {
		return fmt.Sprintf("%d of %d sent requests are unanswered", r.Unanswered, r.Sent)
	}
	return fmt.Sprintf("errors %v of %d sent requests", r.Errors, r.Sent)
}
