package loadgen

import (
	"context"
	"fmt"
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
	begin := monoNow()
	loop.from, loop.until = begin+int64(warmShare*float64(duration)), begin+int64(duration)
	loop.to = loop.until
	loop.begin(cfg, 0)
	// Past the end, slots leave the loop as they are answered. What hangs then
	// is not waited for.
	loop.await(ctx, true, 100*time.Millisecond)
	got := loop.stop()
	switch {
	case ctx.Err() != nil:
		return Calibration{}, fmt.Errorf("calibration interrupted: %w", context.Cause(ctx))
	case e.connections().lost() != nil:
		return Calibration{}, fmt.Errorf("calibrate %s at %s: the service is gone: %w", cfg.Protocol, endpoint(cfg), e.connections().lost())
	case got.delivered == 0:
		return Calibration{}, fmt.Errorf("calibrate %s at %s: nothing was delivered within %s; errors %v", cfg.Protocol, endpoint(cfg), duration, got.errors)
	}
	seconds := float64(loop.to-loop.from) / 1e9
	return Calibration{
		CapacityHz: float64(got.delivered) / seconds, Delivered: got.delivered,
		Errors: got.errors, Deferred: got.deferred,
		Seconds: seconds, InFlight: cfg.MaxInFlight, ServiceMs: latency(got.service),
		SlotsLost: int(loop.lost.Load()),
	}, nil
}
