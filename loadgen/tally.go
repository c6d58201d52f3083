package loadgen

import (
	"sync"
	"sync/atomic"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// tally counts the requests of one step. Each sender has a sending side of its
// own; outcomes arrive concurrently and are spread over shards, so that carriers
// of requests seldom meet. Histograms are of an interval, which take ends.
type tally struct {
	sides      []*sendSide
	neverTried uint64 // the service was gone before they were due
	handedLoop atomic.Uint64

	shards [tallyShards]shard

	// pending counts requests handed over and not recorded, plus one while the
	// scheduler may still hand over more. drained is closed when it reaches 0.
	pending atomic.Int64
	drained chan struct{}

	unanswered uint64 // when it was sealed

	mu    sync.Mutex // of take
	total histograms
}

// histograms are of one interval, or of all.
type histograms struct{ response, service, lateness *hdrhistogram.Histogram }

func newHistograms() histograms { return histograms{newHistogram(), newHistogram(), newHistogram()} }

// sendSide is what one sender decided.
type sendSide struct {
	mu          sync.Mutex // of the sender and, once per interval, of take
	scheduled   uint64
	handed      uint64 // given to the engine
	overflow    uint64
	lateDropped uint64
	lateness    *hdrhistogram.Histogram
	spare       *hdrhistogram.Histogram // empty
}

const tallyShards = 4

type shard struct {
	mu              sync.Mutex
	closed          bool // the drain has ended: outcomes no longer count for the step
	response        *hdrhistogram.Histogram
	service         *hdrhistogram.Histogram
	spareR, spareS  *hdrhistogram.Histogram // empty
	delivered       uint64
	answered        uint64 // failed with an answer
	errors          map[string]uint64
	deferred        map[string]uint64
	unsent          uint64 // not connected
	messages        uint64
	conns           []connCount
	failed, refused uint64 // sums of errors and deferred
}

// connCount is what became of one connection's requests.
type connCount struct{ delivered, failed, deferred, notConnected uint64 }

// newTally makes a tally with a sending side for each sender, for a number of
// connections.
func newTally(senders, connections int) *tally {
	t := &tally{drained: make(chan struct{}), total: newHistograms()}
	for range senders {
		t.sides = append(t.sides, &sendSide{lateness: newHistogram(), spare: newHistogram()})
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.response, s.service, s.spareR, s.spareS = newHistogram(), newHistogram(), newHistogram(), newHistogram()
		s.conns = make([]connCount, connections+1) // 0 is for none in particular
		s.errors, s.deferred = map[string]uint64{}, map[string]uint64{}
	}
	t.pending.Store(1)
	return t
}

// drop counts a request that is not handed over: it overflows, or is too late.
func (s *sendSide) drop(late bool) {
	s.mu.Lock()
	s.scheduled++
	if late {
		s.lateDropped++
	} else {
		s.overflow++
	}
	s.mu.Unlock()
}

// hand counts a request that a sender is about to give to the engine.
func (t *tally) hand(s *sendSide, lateNs int64) {
	t.pending.Add(1)
	s.mu.Lock()
	s.scheduled++
	s.handed++
	recordNs(s.lateness, lateNs)
	s.mu.Unlock()
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
		s.errors[o.kind]++
		s.failed++
		on.failed++
	case failed:
		s.errors[o.kind]++
		s.failed++
		on.failed++
		if o.kind == kindTimeout {
			// The user of a request that timed out waited at least this long.
			recordNs(s.response, at-r.intended)
		}
	case deferred:
		s.deferred[o.kind]++
		s.refused++
		on.deferred++
	case notConnected:
		s.unsent++
		on.notConnected++
	}
	t.settle()
}

// sums are the counts up to an instant.
type sums struct {
	scheduled, started, overflow, lateDropped uint64
	delivered, errors, deferred, notConnected uint64
}

// take ends an interval: it gives the sums up to now and the interval's
// histograms, which it also adds to the step's.
func (t *tally) take() (sums, histograms) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var n sums
	h := newHistograms()
	for _, s := range t.sides {
		s.mu.Lock()
		s.lateness, s.spare = s.spare, s.lateness
		n.scheduled, n.started = n.scheduled+s.scheduled, n.started+s.handed
		n.overflow, n.lateDropped = n.overflow+s.overflow, n.lateDropped+s.lateDropped
		s.mu.Unlock()
		empty(h.lateness, s.spare)
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.response, s.spareR = s.spareR, s.response
		s.service, s.spareS = s.spareS, s.service
		n.delivered, n.errors = n.delivered+s.delivered, n.errors+s.failed
		n.deferred, n.notConnected = n.deferred+s.refused, n.notConnected+s.unsent
		s.mu.Unlock()
		empty(h.response, s.spareR)
		empty(h.service, s.spareS)
	}
	t.total.response.Merge(h.response)
	t.total.service.Merge(h.service)
	t.total.lateness.Merge(h.lateness)
	return n, h
}

// empty moves what one histogram counted into another.
func empty(to, from *hdrhistogram.Histogram) {
	if from.TotalCount() > 0 {
		to.Merge(from)
		from.Reset()
	}
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

// seal ends the step: later outcomes are ignored. What has not been recorded is
// unanswered; its number comes from pending, which the identities then hold
// against the outcomes that were counted one by one. Once only.
func (t *tally) seal() {
	for i := range t.shards {
		t.shards[i].mu.Lock()
		t.shards[i].closed = true
	}
	t.unanswered = uint64(max(t.pending.Load(), 0))
	for i := range t.shards {
		t.shards[i].mu.Unlock()
	}
}

// add adds a sealed tally up.
func (t *tally) add() counts {
	n, _ := t.take()
	c := counts{errors: map[string]uint64{}, deferred: map[string]uint64{}, conns: make([]connCount, len(t.shards[0].conns)), unanswered: t.unanswered}
	c.scheduled, c.notConnected = n.scheduled+t.neverTried, n.notConnected+t.neverTried
	c.overflow, c.lateDropped, c.delivered = n.overflow, n.lateDropped, n.delivered
	c.response, c.service, c.lateness = t.total.response, t.total.service, t.total.lateness
	for i := range t.shards {
		s := &t.shards[i]
		c.completed += s.delivered + s.answered
		c.messages += s.messages
		c.errors, c.deferred = add(c.errors, s.errors), add(c.deferred, s.deferred)
		for i, n := range s.conns {
			sum := &c.conns[i]
			sum.delivered, sum.failed = sum.delivered+n.delivered, sum.failed+n.failed
			sum.deferred, sum.notConnected = sum.deferred+n.deferred, sum.notConnected+n.notConnected
		}
	}
	c.sent = n.started + t.handedLoop.Load() - n.deferred - n.notConnected
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
