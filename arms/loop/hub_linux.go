package loop

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// hub is where the threads meet: requests go one way, answers the other, and
// an eventfd wakes the loop out of epoll_pwait.
type hub struct {
	jobs     *queue
	answered outbox
	stopping atomic.Uint32
	wake     int
}

const (
	stopNot uint32 = iota
	stopGracefully
	stopNow
)

func newHub() (*hub, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("create an eventfd: %w", err)
	}
	return &hub{jobs: newQueue(MaxConnections), wake: wake}, nil
}

// answer gives a connection back to the loop.
func (h *hub) answer(c *conn) {
	if h.answered.add(c) {
		h.ring()
	}
}

// ring wakes the loop. The write can only fail with EAGAIN, when 2⁶⁴−2 rings
// have not been heard.
func (h *hub) ring() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	retryInterrupted(func() (int, error) { return unix.Write(h.wake, one[:]) })
}

// hear takes the rings in, so that the next one wakes again.
func (h *hub) hear() {
	var count [8]byte
	retryInterrupted(func() (int, error) { return unix.Read(h.wake, count[:]) })
}

func (h *hub) release() { unix.Close(h.wake) }
