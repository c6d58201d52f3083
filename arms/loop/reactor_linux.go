package loop

import (
	"fmt"
	"net"
	"net/http"

	"golang.org/x/sys/unix"
)

// reactor is what the loop thread alone works with.
type reactor struct {
	hub      *hub
	epoll    int
	listener int
	conns    map[int32]*conn // by descriptor
	taken    []*conn         // answers of one round; kept for its memory
	date     date

	accepting    bool // the listener is in the epoll set
	listenerOpen bool
}

const (
	eventsPerRound  = 128
	acceptsPerRound = 64
	// acceptRetryMs is when to look again after running out of descriptors or
	// memory; the connections wait in the listener's backlog.
	acceptRetryMs = 10
)

func newReactor(listener *net.TCPListener, h *hub) (*reactor, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("create an epoll instance: %w", err)
	}
	r := &reactor{hub: h, epoll: epoll, conns: make(map[int32]*conn)}
	if err := r.watch(listener); err != nil {
		r.release()
		return nil, err
	}
	return r, nil
}

func (r *reactor) watch(listener *net.TCPListener) (err error) {
	if r.listener, err = takeOver(listener); err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	r.listenerOpen = true
	if err := r.add(r.hub.wake, unix.EPOLLIN); err != nil {
		return err
	}
	return r.setAccepting(true)
}

// run serves until it is told to stop, or until accepting fails.
func (r *reactor) run() error {
	defer r.closeAll()
	events := make([]unix.EpollEvent, eventsPerRound)
	for {
		timeoutMs := -1
		if !r.accepting && r.listenerOpen {
			timeoutMs = acceptRetryMs
		}
		n, err := epollWait(r.epoll, events, timeoutMs)
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		if timeoutMs >= 0 {
			if err := r.setAccepting(true); err != nil {
				return err
			}
		}
		for _, event := range events[:n] {
			if err := r.handle(event); err != nil {
				return err
			}
		}
		if how := r.hub.stopping.Load(); how != stopNot && r.windDown(how) {
			return nil
		}
	}
}

// handle follows one event. An event may be meant for a connection closed
// earlier in the round, whose descriptor's number went to a new one: that one
// then only looks once in vain.
func (r *reactor) handle(event unix.EpollEvent) error {
	switch int(event.Fd) {
	case r.hub.wake:
		r.hub.hear()
		r.taken = r.hub.answered.take(r.taken)
		for _, c := range r.taken {
			c.phase = writing
			r.advance(c)
		}
		clear(r.taken)
		return nil
	case r.listener:
		return r.accept()
	}
	c := r.conns[event.Fd]
	if c == nil {
		return nil
	}
	c.readable = true
	if event.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.ending = true
	}
	r.advance(c)
	return nil
}

func (r *reactor) accept() error {
	for range acceptsPerRound {
		if !r.listenerOpen {
			return nil
		}
		fd, _, err := unix.Accept4(r.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			r.admit(fd)
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EAGAIN:
			return nil
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			return r.setAccepting(false)
		default:
			return fmt.Errorf("accept a connection: %w", err)
		}
	}
	return nil
}

// admit registers a connection once, edge-triggered for both directions, so
// that no request costs an epoll_ctl.
func (r *reactor) admit(fd int) {
	if len(r.conns) >= MaxConnections {
		full := appendReply(nil, reply{status: http.StatusServiceUnavailable, body: []byte("all connections are taken\n"), close: true}, r.date.now())
		unix.Write(fd, full) // best effort, as is the close
		unix.Close(fd)
		return
	}
	// Without it, replies to pipelined requests would wait for acknowledgements.
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	if err := r.add(fd, unix.EPOLLIN|unix.EPOLLOUT|unix.EPOLLRDHUP|unix.EPOLLET); err != nil {
		unix.Close(fd) // out of kernel memory for watches: this client has to try again
		return
	}
	r.conns[int32(fd)] = &conn{fd: fd}
}

func (r *reactor) add(fd int, events uint32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(fd)}
	if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &event); err != nil {
		return fmt.Errorf("watch descriptor %d: %w", fd, err)
	}
	return nil
}

func (r *reactor) setAccepting(on bool) error {
	if on == r.accepting {
		return nil
	}
	r.accepting = on
	if on {
		return r.add(r.listener, unix.EPOLLIN)
	}
	return unix.EpollCtl(r.epoll, unix.EPOLL_CTL_DEL, r.listener, nil)
}

// windDown says whether the loop can end.
func (r *reactor) windDown(how uint32) bool {
	r.closeListener()
	for _, c := range r.conns {
		if c.phase == reading || c.phase == lingering {
			r.close(c)
		}
	}
	return how == stopNow || len(r.conns) == 0
}

func (r *reactor) close(c *conn) {
	delete(r.conns, int32(c.fd))
	unix.Close(c.fd) // leaves the epoll set by itself
}

func (r *reactor) closeListener() {
	if r.listenerOpen {
		r.listenerOpen, r.accepting = false, false
		unix.Close(r.listener)
	}
}

// closeAll leaves the memory of connections with a worker to the worker.
func (r *reactor) closeAll() {
	r.closeListener()
	for _, c := range r.conns {
		r.close(c)
	}
}

func (r *reactor) release() {
	r.closeListener()
	unix.Close(r.epoll)
}
