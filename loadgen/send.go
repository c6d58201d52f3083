package loadgen

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// sender walks its part of a step's schedule: one goroutine, which never waits
// for anything but the next instant.
type sender struct {
	d      *driver
	p      plan
	t      *tally
	side   *sendSide
	part   *Cursor
	waiter *waiter
	halt   *atomic.Pointer[error] // set when ctx ends
}

// send hands over every request of the schedule at its instant. It returns
// early, with the reason, when ctx ends or the service is gone; what is left of
// the schedule then counts as not connected.
func (d *driver) send(ctx context.Context, p plan, t *tally) error {
	defer t.sendingDone()
	var halt atomic.Pointer[error]
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		halt.Store(&cause)
	})
	defer stop()
	errs := make([]error, len(t.sides))
	var wg sync.WaitGroup
	for i, side := range t.sides {
		index, of := d.cfg.part(i)
		s := &sender{d: d, p: p, t: t, side: side, part: p.schedule.Part(index, of), halt: &halt}
		wg.Go(func() { errs[i] = s.run(ctx) })
	}
	wg.Wait()
	tried := uint64(0)
	for _, side := range t.sides {
		tried += side.scheduled
	}
	t.neverTried = p.n - tried
	return cmp.Or(errs...)
}

func (s *sender) run(ctx context.Context) (err error) {
	if s.waiter, err = newWaiter(ctx); err != nil {
		return err
	}
	defer s.waiter.close()
	return s.walk()
}

func (s *sender) walk() error {
	w := s.p.window
	for off, ok := s.part.Next(); ok; off, ok = s.part.Next() {
		due := s.p.origin + int64(off)
		if w.start <= due && w.opened.CompareAndSwap(false, true) {
			if _, err := s.await(w.start); err != nil {
				return err
			}
			w.inFlightStart.Store(s.d.inFlight.Load())
		}
		now, err := s.await(due)
		if err != nil {
			return err
		}
		if due >= w.end {
			w.inFlightEnd.Store(s.d.inFlight.Load())
		}
		s.release(due, now)
	}
	return nil
}

// release decides about one request that is due. What it costs does not depend
// on how far behind the service is.
func (s *sender) release(due, now int64) {
	late := now - due
	if limit := int64(s.d.cfg.MaxLateness); limit > 0 && late > limit {
		s.side.drop(true)
		return
	}
	if !s.d.takeSlot() {
		s.side.drop(false)
		return
	}
	s.t.hand(s.side, late)
	s.d.engine.submit(request{intended: due, started: now, tally: s.t})
}

// takeSlot takes a slot if one is free, whatever other senders do meanwhile.
func (d *driver) takeSlot() bool {
	for {
		n := d.inFlight.Load()
		if n >= int64(d.cfg.MaxInFlight) {
			return false
		}
		if d.inFlight.CompareAndSwap(n, n+1) {
			return true
		}
	}
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

// followEdges writes the markers of a window when its edges are reached. When sending stops early the end marker says when.
func (d *driver) followEdges(sending context.Context, p plan) error {
	if !sleepUntil(sending, p.window.start) {
		return nil // the window never opened
	}
	err := d.mark(p.step, rungv1.Marker_EDGE_START, p.window.start)
	end := p.window.end
	reached := sleepUntil(sending, end)
	if reached && d.cfg.Share != nil {
		// The last send of all may be another driver's.
		p.window.inFlightEnd.Store(d.inFlight.Load())
	}
	if !reached {
		end = min(end, monoNow())
	}
	if e := d.mark(p.step, rungv1.Marker_EDGE_END, end); err == nil {
		err = e
	}
	return err
}
