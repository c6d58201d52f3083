package loop

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
)

// Server is a loop that serves. Its methods may be called at the same time.
type Server struct {
	hub     *hub
	reactor *reactor
	asked   *downstream // nil without one
	ended   chan struct{}
	err     error // why the loop stopped on its own; valid once ended is closed

	mu       sync.Mutex // guards the hub's descriptor against a Stop after the end
	released bool
}

// Start serves on a listener, which it takes over and closes, until Stop. It
// raises GOMAXPROCS of the process to one per thread of the loop and two more,
// and leaves it there.
func Start(listener *net.TCPListener, c Config, handle Handler) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if need := c.Workers + 4; runtime.GOMAXPROCS(0) < need {
		runtime.GOMAXPROCS(need)
	}
	s := &Server{ended: make(chan struct{})}
	err := s.open(listener, c)
	if err != nil {
		s.release()
		return nil, err
	}
	if err := s.startThreads(c, handle); err != nil {
		<-s.ended
		return nil, err
	}
	return s, nil
}

// open makes every descriptor; release closes those there are.
func (s *Server) open(listener *net.TCPListener, c Config) (err error) {
	if s.hub, err = newHub(); err != nil {
		return err
	}
	if c.Downstream > 0 {
		if s.asked, err = newDownstream(c.Workers, c.Downstream); err != nil {
			return err
		}
	}
	s.reactor, err = newReactor(listener, s.hub)
	return err
}

// startThreads starts the loop after everything it relies on, and a goroutine
// that waits for the threads to end in the reverse order.
func (s *Server) startThreads(c Config, handle Handler) error {
	var loop, workers, downstream sync.WaitGroup
	start := func(group *sync.WaitGroup, name string, f func()) error {
		group.Add(1)
		err := startThread(name, func() { defer group.Done(); f() })
		if err != nil {
			group.Done()
		}
		return err
	}

	var err error
	if s.asked != nil {
		err = start(&downstream, "downstream", s.asked.run)
	}
	lock := new(mutex)
	for i := 0; i < c.Workers && err == nil; i++ {
		w := &worker{index: i, hub: s.hub, handle: handle, lock: lock, lockHold: c.LockHold, asked: s.asked}
		err = start(&workers, fmt.Sprintf("worker-%d", i), w.run)
	}
	if err == nil {
		err = start(&loop, "loop-0", func() { s.err = s.reactor.run() })
	}

	go func() {
		loop.Wait()
		s.hub.jobs.close()
		workers.Wait()
		if s.asked != nil {
			s.asked.hangUp()
			downstream.Wait()
		}
		s.release()
		close(s.ended)
	}()
	return err
}

// Wait returns when the loop has stopped and its threads have ended: nil after
// Stop, or why it stopped on its own.
func (s *Server) Wait() error {
	<-s.ended
	return s.err
}

// Stop closes the listener and the idle connections, lets requests in flight
// end until the context is done, then closes their connections too. It does not
// wait for a worker that sleeps on beyond that, as Config had it: Wait does.
func (s *Server) Stop(ctx context.Context) {
	s.tell(stopGracefully)
	select {
	case <-s.ended:
	case <-ctx.Done():
		s.tell(stopNow)
	}
}

func (s *Server) tell(how uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.released {
		s.hub.stopping.Store(how)
		s.hub.ring()
	}
}

func (s *Server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.released = true
	if s.reactor != nil {
		s.reactor.release()
	}
	if s.asked != nil {
		s.asked.release()
	}
	if s.hub != nil {
		s.hub.release()
	}
}
