package loop

import (
	"math"
	"sync/atomic"
)

// queue hands connections from the loop to the workers: a ring under a mutex,
// with a futex word to wait on while it is empty.
type queue struct {
	mu       mutex
	ring     []*conn
	head     int // of the oldest entry
	length   int
	sleepers int
	closed   bool
	changed  atomic.Uint32 // counts pushes; empty-handed workers wait on it
}

func newQueue(capacity int) *queue { return &queue{ring: make([]*conn, capacity)} }

// push panics on a full ring: it holds one entry per connection, and a
// connection has at most one request in flight.
func (q *queue) push(c *conn) {
	q.mu.lock()
	if q.length == len(q.ring) {
		panic("loop: more requests in flight than connections")
	}
	q.ring[(q.head+q.length)%len(q.ring)] = c
	q.length++
	q.changed.Add(1)
	wake := q.sleepers > 0
	q.mu.unlock()
	if wake {
		futexWake(&q.changed, 1)
	}
}

// pop waits for an entry; nil means that the queue is closed and empty.
func (q *queue) pop() *conn {
	q.mu.lock()
	for q.length == 0 {
		if q.closed {
			q.mu.unlock()
			return nil
		}
		seen := q.changed.Load()
		q.sleepers++
		q.mu.unlock()
		futexWait(&q.changed, seen)
		q.mu.lock()
		q.sleepers--
	}
	c := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) % len(q.ring)
	q.length--
	q.mu.unlock()
	return c
}

func (q *queue) close() {
	q.mu.lock()
	q.closed = true
	q.changed.Add(1)
	q.mu.unlock()
	futexWake(&q.changed, math.MaxInt32)
}

// outbox hands answered connections back to the loop.
type outbox struct {
	mu    mutex
	conns []*conn
}

// add says whether the outbox was empty, which is when the loop needs a wakeup:
// otherwise it has one coming.
func (o *outbox) add(c *conn) (first bool) {
	o.mu.lock()
	o.conns = append(o.conns, c)
	first = len(o.conns) == 1
	o.mu.unlock()
	return first
}

// take empties the outbox into a slice that it swaps with the one given.
func (o *outbox) take(reuse []*conn) []*conn {
	o.mu.lock()
	taken := o.conns
	o.conns = reuse[:0]
	o.mu.unlock()
	return taken
}
