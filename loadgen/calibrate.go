package loadgen

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Calibration is what a closed loop got: the service's capacity with as many
// requests in flight as the cap allows. It is a rate to plan a ladder by, not a
// step: its response times say nothing about any offered rate.
type Calibration struct {
	CapacityHz float64           `json:"capacityHz"`
	Delivered  uint64            `json:"delivered"` // in the measured part
	Errors     map[string]uint64 `json:"errors,omitempty"`
	Deferred   map[string]uint64 `json:"deferred,omitempty"`
	Seconds    float64           `json:"seconds"` // of the measured part
	InFlight   int               `json:"inFlight"`
	// SlotsLost left the loop early, because their connection broke.
	SlotsLost int        `json:"slotsLost,omitempty"`
	ServiceMs *LatencyMs `json:"serviceMs,omitempty"`
}

// warmShare is the share of a calibration that is not measured.
const warmShare = 0.2

// Calibrate keeps MaxInFlight requests in flight for a duration, each slot
// sending its next request when the last was answered. Steps, Agent and the
// fields that pace steps are not used.
func Calibrate(ctx context.Context, cfg Config, duration time.Duration) (Calibration, error) {
	cfg.Steps, cfg.Agent = nil, nil
	if err := cfg.Validate(); err != nil {
		return Calibration{}, err
	}
	if duration < 100*time.Millisecond || duration > time.Hour {
		return Calibration{}, bad("calibrate", duration, "100ms to 1h")
	}
	e, err := newEngine(cfg)
	if err != nil {
		return Calibration{}, err
	}
	loop := &closedLoop{engine: e}
	e.start(loop)
	defer e.close()
	if err := preflight(ctx, cfg, e); err != nil {
		return Calibration{}, err
	}
	return loop.run(ctx, cfg, duration)
}

// closedLoop is a sink that answers each outcome with the next request.
type closedLoop struct {
	engine  engine
	tally   *tally
	from    int64 // mono ns, where the measured part begins
	until   int64 // where it ends
	active  atomic.Int64
	leave   atomic.Int64  // slots that shall leave the loop
	lost    atomic.Int64  // slots that left it before its end
	idle    chan struct{} // closed when no slot is left in the loop
	stopped atomic.Bool
}

func (l *closedLoop) run(ctx context.Context, cfg Config, duration time.Duration) (Calibration, error) {
	l.tally, l.idle = newTally(1, cfg.Connections), make(chan struct{})
	begin := monoNow()
	l.from = begin + int64(warmShare*float64(duration))
	l.until = begin + int64(duration)
	l.active.Store(int64(cfg.MaxInFlight))
	for range cfg.MaxInFlight {
		l.next(request{tally: l.tally}, monoNow())
	}
	// Past the end, slots leave the loop as they are answered. What hangs then
	// is not waited for.
	limit := time.NewTimer(duration + 100*time.Millisecond)
	defer limit.Stop()
	select {
	case <-limit.C:
	case <-l.idle:
	case <-ctx.Done():
	}
	l.stopped.Store(true)
	got := l.tally.close()
	switch {
	case ctx.Err() != nil:
		return Calibration{}, fmt.Errorf("calibration interrupted: %w", context.Cause(ctx))
	case l.engine.connections().lost() != nil:
		return Calibration{}, fmt.Errorf("calibrate %s at %s: the service is gone: %w", cfg.Protocol, endpoint(cfg), l.engine.connections().lost())
	case got.delivered == 0:
		return Calibration{}, fmt.Errorf("calibrate %s at %s: nothing was delivered within %s; errors %v", cfg.Protocol, endpoint(cfg), duration, got.errors)
	}
	seconds := float64(l.until-l.from) / 1e9
	return Calibration{
		CapacityHz: float64(got.delivered) / seconds, Delivered: got.delivered,
		Errors: got.errors, Deferred: got.deferred,
		Seconds: seconds, InFlight: cfg.MaxInFlight, ServiceMs: latency(got.service),
		SlotsLost: int(l.lost.Load()),
	}, nil
}

// refusedPause is how long a slot stays away from a peer at its stream limit.
const refusedPause = 10 * time.Millisecond

// record counts what is answered inside the measured part. A slot whose request
// was not sent for want of a connection shall leave: it would spin on a dead
// service.
func (l *closedLoop) record(r request, shard int, o outcome, at int64) {
	switch {
	case o.kind == whyMaxStreams:
		// In the goroutine of the slot, which has nothing else to do.
		time.Sleep(refusedPause)
	case o.class == deferred || o.class == notConnected:
		l.leave.Add(1)
		l.lost.Add(1)
	}
	if at >= l.from && at <= l.until {
		l.tally.record(r, shard, o, at)
	}
}

// release sends the slot's next request.
func (l *closedLoop) release(r request) {
	for n := l.leave.Load(); n > 0; n = l.leave.Load() {
		if l.leave.CompareAndSwap(n, n-1) {
			l.retire()
			return
		}
	}
	if now := monoNow(); now >= l.until || !l.next(r, now) {
		l.retire()
	}
}

func (l *closedLoop) retire() {
	if l.active.Add(-1) == 0 {
		close(l.idle)
	}
}

// next hands over a request, unless the loop has stopped.
func (l *closedLoop) next(r request, now int64) bool {
	if l.stopped.Load() {
		return false
	}
	r.started, r.intended = now, now
	l.tally.pending.Add(1)
	l.engine.submit(r)
	return true
}
