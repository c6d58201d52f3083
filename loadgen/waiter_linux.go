package loadgen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// waiter sleeps until an instant of CLOCK_MONOTONIC. It reads a timerfd through
// Go's network poller: Go's own timers wake at the granularity of epoll_wait,
// one millisecond, and a thread locked in nanosleep holds its processor while
// it sleeps. Not safe for concurrent use.
type waiter struct {
	file *os.File
	fd   int
	stop func() bool
	buf  [8]byte
}

// newWaiter makes a waiter whose until returns early once ctx is done.
func newWaiter(ctx context.Context) (*waiter, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timerfd: %w", err)
	}
	w := &waiter{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	w.stop = context.AfterFunc(ctx, func() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) })
	return w, nil
}

// until sleeps until monoNs has passed or the waiter's context is done, which
// is no error.
func (w *waiter) until(monoNs int64) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(max(monoNs, 1))}
	if err := unix.TimerfdSettime(w.fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
		return fmt.Errorf("timerfd: %w", err)
	}
	if _, err := w.file.Read(w.buf[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("timerfd: %w", err)
	}
	return nil
}

func (w *waiter) close() {
	w.stop()
	_ = w.file.Close()
}
