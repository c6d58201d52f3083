package loadgen

import (
	"context"
	"fmt"
	"sync/atomic"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// sender walks a step's schedule: one goroutine, which never waits for anything
// but the next instant.
type sender struct {
	d      *driver
	p      plan
	t      *tally
	waiter *waiter
	halt   atomic.Pointer[error] // set when ctx ends
}

// send hands over every request of the schedule at its instant. It returns
// early, with the reason, when ctx ends or the service is gone; what is left of
// the schedule then counts as not connected.
func (d *driver) send(ctx context.Context, p plan, t *tally) (err error) {
	s := &sender{d: d, p: p, t: t}
	defer t.sendingDone()
	defer func() {
		if err != nil {
			t.neverTried = p.n - t.scheduled
			t.scheduled = p.n
		}
	}()
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		s.halt.Store(&cause)
	})
	defer stop()
	if s.waiter, err = newWaiter(ctx); err != nil {
		return err
	}
	defer s.waiter.close()
	return s.walk()
}

func (s *sender) walk() error {
	w := s.p.window
	cursor := s.p.schedule.Cursor()
	opened := false
	for off, ok := cursor.Next(); ok; off, ok = cursor.Next() {
		due := s.p.origin + int64(off)
		if !opened && w.start <= due {
			if _, err := s.await(w.start); err != nil {
				return err
			}
			w.inFlightStart = s.d.inFlight.Load()
			opened = true
		}
		now, err := s.await(due)
		if err != nil {
			return err
		}
		if due >= w.end {
			w.inFlightEnd = s.d.inFlight.Load()
		}
		s.release(due, now)
	}
	return nil
}

// release decides about one request that is due. What it costs does not depend
// on how far behind the service is.
func (s *sender) release(due, now int64) {
	t := s.t
	t.scheduled++
	late := now - due
	if limit := int64(s.d.cfg.MaxLateness); limit > 0 && late > limit {
		t.lateDropped++
		return
	}
	// Only this goroutine takes slots, so a free one cannot be lost in between.
	if s.d.inFlight.Load() >= int64(s.d.cfg.MaxInFlight) {
		t.overflow++
		return
	}
	s.d.inFlight.Add(1)
	t.hand(late)
	s.d.engine.submit(request{intended: due, started: now, tally: t})
}

// await sleeps until an instant, which may have passed, and returns the present.
func (s *sender) await(instant int64) (now int64, err error) {
	for {
		if halt := s.halt.Load(); halt != nil {
			return 0, fmt.Errorf("interrupted: %w", *halt)
		}
		if err := s.d.engine.connections().lost(); err != nil {
			return 0, fmt.Errorf("the service is gone: %w", err)
		}
		if now = monoNow(); now >= instant {
			return now, nil
		}
		if err := s.waiter.until(instant); err != nil {
			return 0, err
		}
	}
}

// followEdges writes the markers of a window when its edges are reached and
// reports progress in between. When sending stops early the end marker says when.
func (d *driver) followEdges(sending context.Context, p plan, t *tally) error {
	if !d.watch(sending, p, t, p.window.start) {
		return nil // the window never opened
	}
	err := d.mark(p.step, rungv1.Marker_EDGE_START, p.window.start)
	end := p.window.end
	if !d.watch(sending, p, t, end) {
		end = min(end, monoNow())
	}
	if e := d.mark(p.step, rungv1.Marker_EDGE_END, end); err == nil {
		err = e
	}
	return err
}

// watch reports progress until an instant; false when sending stopped before it.
func (d *driver) watch(sending context.Context, p plan, t *tally, until int64) bool {
	const every = 250e6
	for d.hooks.Progress != nil && until-monoNow() > every {
		if !sleepUntil(sending, monoNow()+every) {
			return false
		}
		d.hooks.Progress(Progress{
			Step: p.step, Delivered: t.sofar(),
			Elapsed: max(0, sinceMono(p.first)), Duration: p.step.Duration,
		})
	}
	return sleepUntil(sending, until)
}
