package loadgen

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// exchanger is a protocol in which a request has an answer of its own.
type exchanger interface {
	// exchange sends one request and reads its answer, in the goroutine of slot
	// s. It arms s with a deadline while the request can be given up.
	exchange(s *slot, deadline int64) outcome
	connect(ctx context.Context) error
	// maintain keeps the connections open until ctx is done.
	maintain(ctx context.Context, wg *sync.WaitGroup)
	connections() *dialer
	close()
}

// unary carries requests over an exchanger with one fixed worker per slot.
type unary struct {
	x       exchanger
	body    *requestBody
	sink    sink
	timeout time.Duration
	slots   []*slot
	// work holds a request only while a worker is about to take it, and on close
	// one without a tally for each worker, which ends it. (Closing the channel
	// would make a late submit panic.)
	work   chan request
	wg     sync.WaitGroup
	cancel context.CancelFunc
	wanted int
}

func newUnary(c Config, x exchanger) *unary {
	body := newRequestBody(c.Body, c.IDs)
	u := &unary{x: x, body: body, timeout: c.Timeout, work: make(chan request, 2*c.MaxInFlight), wanted: c.Connections}
	for i := range c.MaxInFlight {
		u.slots = append(u.slots, newSlot(i, body.slotRange(i)))
	}
	return u
}

func (u *unary) connect(ctx context.Context) error { return u.x.connect(ctx) }
func (u *unary) connections() *dialer              { return u.x.connections() }

func (u *unary) start(s sink) {
	u.sink = s
	ctx, cancel := context.WithCancel(context.Background())
	u.cancel = cancel
	u.x.maintain(ctx, &u.wg)
	for _, s := range u.slots {
		u.wg.Go(func() { u.carry(s) })
	}
	u.wg.Go(func() { sweep(ctx, u.timeout, u.expire) })
}

func (u *unary) carry(s *slot) {
	for r := range u.work {
		if r.tally == nil {
			return
		}
		s.ids = or(r.ids, &s.own)
		o := u.x.exchange(s, r.started+int64(u.timeout))
		u.sink.record(r, s.index, o, monoNow())
		u.sink.release(r, o)
	}
}

func (u *unary) ended() map[string]uint64 { return nil }

func (u *unary) submit(r request) { u.work <- r }

func (u *unary) expire(now int64) {
	for _, s := range u.slots {
		s.expire(now)
	}
}

// preflight uses slots of its own: an exchanger spreads slots over connections
// in order, so that the first as many slots as connections meet each once.
func (u *unary) preflight(ctx context.Context) error {
	slots := make([]*slot, u.wanted)
	for i := range slots {
		slots[i] = newSlot(i, u.body.slotRange(len(u.slots)+i))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go sweep(ctx, u.timeout, func(now int64) {
		for _, s := range slots {
			s.expire(now)
		}
	})
	return forAll(len(slots), func(i int) error {
		o := u.x.exchange(slots[i], monoNow()+int64(u.timeout))
		if o.class != delivered {
			return &preflightError{connection: i, of: len(slots), outcome: o}
		}
		return nil
	})
}

func (u *unary) close() {
	for range u.slots {
		u.work <- request{}
	}
	if u.cancel != nil {
		u.cancel()
	}
	u.x.close()
	u.wg.Wait()
	u.x.close() // what was being opened again meanwhile
}

// slot carries one request at a time. Its deadline is watched by a sweep over
// all slots: a timer for each request would cost more than the rest of the
// bookkeeping, and a sweep is late by at most a twentieth of the timeout.
type slot struct {
	index    int
	deadline atomic.Int64 // mono ns; 0 when idle, slotFired once given up
	giveUp   atomic.Pointer[func()]

	// Of protocols that give up by context; the slot's goroutine only.
	ctx    context.Context
	cancel *func()

	own     idRange
	ids     *idRange // own, or those of a closed loop's slot
	reply   reply
	scratch []byte
}

const slotFired = -1

func newSlot(index int, ids idRange) *slot {
	s := &slot{index: index, own: ids}
	s.ids = &s.own
	return s
}

// arm lets the sweep call giveUp after the deadline, once, until disarm.
func (s *slot) arm(giveUp *func(), deadline int64) {
	s.giveUp.Store(giveUp)
	s.deadline.Store(deadline)
}

// disarm says whether the request was given up.
func (s *slot) disarm() (fired bool) { return s.deadline.Swap(0) == slotFired }

// expire gives up the slot's request if it is overdue. giveUp is read before
// the exchange, so that it belongs to the request whose deadline was seen.
func (s *slot) expire(now int64) {
	d := s.deadline.Load()
	if d <= 0 || d > now {
		return
	}
	giveUp := s.giveUp.Load()
	if s.deadline.CompareAndSwap(d, slotFired) {
		(*giveUp)()
	}
}

// armContext arms the slot with a context that is cancelled when the request is
// given up. The context is kept from request to request until that happens.
func (s *slot) armContext(base context.Context, deadline int64) context.Context {
	if s.ctx == nil {
		ctx, cancel := context.WithCancel(base)
		stop := func() { cancel() }
		s.ctx, s.cancel = ctx, &stop
	}
	s.arm(s.cancel, deadline)
	return s.ctx
}

// disarmContext is disarm for a slot armed by armContext.
func (s *slot) disarmContext() (fired bool) {
	fired = s.disarm()
	if fired {
		s.ctx = nil
	}
	return fired
}

// sweep calls f about twenty times per timeout until ctx is done.
func sweep(ctx context.Context, timeout time.Duration, f func(now int64)) {
	tick := time.NewTicker(min(max(timeout/20, time.Millisecond), 100*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f(monoNow())
		}
	}
}
