//go:build !linux

package loadgen

import "context"

// waiter sleeps until an instant, with Go's timers where there is no timerfd:
// they wake up to a millisecond late, which shows as lateness.
type waiter struct{ ctx context.Context }

func newWaiter(ctx context.Context) (*waiter, error) { return &waiter{ctx}, nil }

func (w *waiter) until(monoNs int64) error {
	sleepUntil(w.ctx, monoNs)
	return nil
}

func (w *waiter) close() {}
