package loadgen

import (
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
)

// stream is one bidi stream with the messages in flight on it, oldest first.
type stream struct {
	grpc.ClientStream
	cancel func()

	mu     sync.Mutex
	ring   []message
	head   int
	n      int
	broken bool

	// A probe is a message outside the ring, sent while it is empty.
	probing atomic.Bool
	probe   chan outcome
	done    chan struct{} // closed when the stream has broken
	err     error         // why; read after done
}

type message struct {
	request
	expired bool // counted as timed out
}

func newStream(cs grpc.ClientStream, cancel func(), share int) *stream {
	return &stream{ClientStream: cs, cancel: cancel, ring: make([]message, share), probe: make(chan outcome, 1), done: make(chan struct{})}
}

// push notes a message that is about to be sent; false if the stream has broken.
// A lane's share of slots is the ring's length, so there is always room.
func (s *stream) push(r request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return false
	}
	s.ring[(s.head+s.n)%len(s.ring)] = message{request: r}
	s.n++
	return true
}

// pop takes the message that the next reply answers; false if there is none.
func (s *stream) pop() (message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == 0 {
		return message{}, false
	}
	m := s.ring[s.head]
	s.ring[s.head] = message{}
	s.head = (s.head + 1) % len(s.ring)
	s.n--
	return m, true
}

// overdue marks the messages started at or before an instant as expired and
// returns those that were not yet.
func (s *stream) overdue(started int64) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var late []request
	for i := range s.n {
		m := &s.ring[(s.head+i)%len(s.ring)]
		if m.started > started {
			break
		}
		if !m.expired {
			m.expired = true
			late = append(late, m.request)
		}
	}
	return late
}

// fail breaks the stream and takes all messages in flight.
func (s *stream) fail(err error) []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []message
	for i := range s.n {
		left = append(left, s.ring[(s.head+i)%len(s.ring)])
	}
	s.n, s.broken, s.err = 0, true, err
	close(s.done)
	return left
}

// startProbe makes the next reply go to the probe channel.
func (s *stream) startProbe() (broken <-chan struct{}) {
	s.probing.Store(true)
	return s.done
}

// awaitsProbe says, once per probe, that a reply belongs to it.
func (s *stream) awaitsProbe() bool { return s.probing.Load() && s.probing.CompareAndSwap(true, false) }
