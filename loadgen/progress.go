package loadgen

import (
	"context"
	"sync/atomic"
	"time"
)

// progressPeriod is how often progress is told.
const progressPeriod = 250 * time.Millisecond

// follow tells progress, where somebody asks for it, until ctx is done.
func (d *driver) follow(ctx context.Context, p plan, t *tally, last *atomic.Pointer[Point]) {
	if d.hooks.Progress == nil {
		return
	}
	for sleepUntil(ctx, monoNow()+int64(progressPeriod)) {
		told := Progress{
			Step: p.step, Delivered: t.sofar(), InFlight: d.inFlight.Load(),
			Elapsed: max(0, sinceMono(p.first)), Duration: p.step.Duration,
		}
		if l := last.Load(); l != nil {
			told.Last = *l
		}
		d.hooks.Progress(told)
	}
}
