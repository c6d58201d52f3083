package loadgen

import (
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts the requests of one step. Each sender has a sending side of its
// own; outcomes arrive concurrently and are spread over shards, so that carriers
// of requests seldom meet.
type tally struct {
	sides      []*sendSide
	neverTried uint64 // the service was gone before they were due
	handedLoop atomic.Uint64

	shards [tallyShards]shard

	// pending counts requests handed over and not recorded, plus one while the
	// scheduler may still hand over more. drained is closed when it reaches 0.
	pending atomic.Int64
	drained chan struct{}
}

// sendSide is what one sender decided, written by that sender only.
type sendSide struct {
	scheduled   uint64
	handed      uint64 // given to the engine
	overflow    uint64
	lateDropped uint64
	lateness    *hdrhistogram.Histogram
	_           [24]byte
}

const tallyShards = 4

type shard struct {
	mu        sync.Mutex
	closed    bool // the drain has ended: outcomes no longer count for the step
	response  *hdrhistogram.Histogram
	service   *hdrhistogram.Histogram
	delivered uint64
	answered  uint64 // failed with an answer
	errors    map[string]uint64
	deferred  map[string]uint64
	unsent    uint64 // not connected
	messages  uint64
	conns     []connCount
	_         [40]byte
}

// connCount is what became of one connection's requests.
type connCount struct{ delivered, failed, deferred, notConnected uint64 }

// newTally makes a tally with a sending side for each sender, for a number of
// connections.
func newTally(senders, connections int) *tally {
	t := &tally{drained: make(chan struct{})}
	for range senders {
		t.sides = append(t.sides, &sendSide{lateness: newHistogram()})
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.response, s.service = newHistogram(), newHistogram()
		s.conns = make([]connCount, connections+1) // 0 is for none in particular
		s.errors, s.deferred = map[string]uint64{}, map[string]uint64{}
	}
	t.pending.Store(1)
	return t
}

// hand counts a request that a sender is about to give to the engine.
func (t *tally) hand(s *sendSide, lateNs int64) {
	s.handed++
	t.pending.Add(1)
	recordNs(s.lateness, lateNs)
}

// again counts a request of a loop that has no sending side.
func (t *tally) again() {
	t.handedLoop.Add(1)
	t.pending.Add(1)
}

// sendingDone says that the scheduler hands over no more.
func (t *tally) sendingDone() { t.settle() }

func (t *tally) settle() {
	if t.pending.Add(-1) == 0 {
		close(t.drained)
	}
}

// record counts an outcome, unless the drain has ended before it.
func (t *tally) record(r request, index int, o outcome, at int64) {
	s := &t.shards[uint(index)%tallyShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.messages += o.messages
	on := &s.conns[o.conn]
	switch o.class {
	case delivered:
		s.delivered++
		on.delivered++
		recordNs(s.response, at-r.intended)
		recordNs(s.service, at-r.started)
	case failedAnswer:
		s.answered++
		on.failed++
		s.errors[o.kind]++
	case failed:
		on.failed++
		s.errors[o.kind]++
		if o.kind == kindTimeout {
			// The user of a request that timed out waited at least this long.
			recordNs(s.response, at-r.intended)
		}
	case deferred:
		s.deferred[o.kind]++
		on.deferred++
	case notConnected:
		s.unsent++
		on.notConnected++
	}
	t.settle()
}

// counts is what a tally came to.
type counts struct {
	scheduled, sent, completed, delivered, unanswered uint64
	overflow, lateDropped, notConnected               uint64
	errors, deferred                                  map[string]uint64
	messages                                          uint64
	conns                                             []connCount // from 1 up
	response, service, lateness                       *hdrhistogram.Histogram
}

// close ends the step: later outcomes are ignored. What has not been recorded
// is unanswered; its number comes from pending, which the identities then hold
// against the outcomes that were counted one by one.
func (t *tally) close() counts {
	for i := range t.shards {
		t.shards[i].mu.Lock()
	}
	defer func() {
		for i := range t.shards {
			t.shards[i].closed = true
			t.shards[i].mu.Unlock()
		}
	}()
	c := counts{
		notConnected: t.neverTried, scheduled: t.neverTried,
		errors: map[string]uint64{}, deferred: map[string]uint64{},
		response: newHistogram(), service: newHistogram(), lateness: newHistogram(),
		unanswered: uint64(max(t.pending.Load(), 0)),
	}
	var unsent uint64
	handed := t.handedLoop.Load()
	for _, s := range t.sides {
		c.scheduled, handed = c.scheduled+s.scheduled, handed+s.handed
		c.overflow, c.lateDropped = c.overflow+s.overflow, c.lateDropped+s.lateDropped
		c.lateness.Merge(s.lateness)
	}
	c.conns = make([]connCount, len(t.shards[0].conns))
	for i := range t.shards {
		s := &t.shards[i]
		for i, n := range s.conns {
			sum := &c.conns[i]
			sum.delivered, sum.failed = sum.delivered+n.delivered, sum.failed+n.failed
			sum.deferred, sum.notConnected = sum.deferred+n.deferred, sum.notConnected+n.notConnected
		}
		c.messages += s.messages
		c.delivered += s.delivered
		c.completed += s.delivered + s.answered
		unsent += s.unsent
		for k, n := range s.errors {
			c.errors[k] += n
		}
		for k, n := range s.deferred {
			c.deferred[k] += n
			unsent += n
		}
		c.notConnected += s.unsent
		c.response.Merge(s.response)
		c.service.Merge(s.service)
	}
	c.sent = handed - unsent
	return c
}

// sofar is what was delivered up to now, for progress.
func (t *tally) sofar() (delivered uint64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		delivered += s.delivered
		s.mu.Unlock()
	}
	return delivered
}

// window counts the successes received between two instants, whichever step
// sent them, and the requests in flight at the two edges.
type window struct {
	start, end    int64 // mono ns, both inside
	delivered     atomic.Uint64
	opened        atomic.Bool // a sender saw to inFlightStart
	inFlightStart atomic.Int64
	inFlightEnd   atomic.Int64
}

// success counts a success received at an instant.
func (w *window) success(at int64) {
	if w != nil && at >= w.start && at <= w.end {
		w.delivered.Add(1)
	}
}
