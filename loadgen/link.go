package loadgen

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// link holds one thing that lives until it breaks and is then opened again: a
// connection or a stream. Reading it is one atomic load. Safe for concurrent use.
type link[T any] struct {
	index int
	// open makes a new T. It must not keep ctx for longer than the call.
	open func(ctx context.Context) (*T, error)

	cur  atomic.Pointer[T]
	mu   sync.Mutex // one opener at a time
	wake chan struct{}

	retired bool // under mu
}

// Waits between attempts to open a link again.
const (
	reopenMin = 50 * time.Millisecond
	reopenMax = time.Second
)

func newLink[T any](index int, open func(ctx context.Context) (*T, error)) *link[T] {
	return &link[T]{index: index, open: open, wake: make(chan struct{}, 1)}
}

// get is the present T, or nil while there is none.
func (l *link[T]) get() *T { return l.cur.Load() }

// lost says that t is broken. Only the first report about the present t counts.
func (l *link[T]) lost(t *T) {
	if l.cur.CompareAndSwap(t, nil) {
		l.kick()
	}
}

func (l *link[T]) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// retire keeps the link from being opened again.
func (l *link[T]) retire() {
	l.mu.Lock()
	l.retired = true
	l.mu.Unlock()
}

var errRetired = errors.New("the run is at its end")

// ensure opens the link unless it is open.
func (l *link[T]) ensure(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur.Load() != nil {
		return nil
	}
	if l.retired {
		return errRetired
	}
	t, err := l.open(ctx)
	if err != nil {
		return err
	}
	l.cur.Store(t)
	return nil
}

// maintain opens the link again each time it is lost, until ctx is done.
func (l *link[T]) maintain(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		for wait := reopenMin; l.ensure(ctx) != nil; wait = min(2*wait, reopenMax) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// ensureAll opens all links, concurrently but at most 16 at a time, and returns
// the first error.
func ensureAll[T any](ctx context.Context, links []*link[T]) error {
	return forAll(len(links), func(i int) error { return links[i].ensure(ctx) })
}

// forAll calls f with 0 to n-1, at most 16 at a time and returns the first error.
func forAll(n int, f func(i int) error) error {
	var (
		wg    sync.WaitGroup
		first atomic.Pointer[error]
		next  atomic.Int64
	)
	for range min(n, 16) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := f(i); err != nil {
					first.CompareAndSwap(nil, &err)
				}
			}
		})
	}
	wg.Wait()
	if err := first.Load(); err != nil {
		return *err
	}
	return nil
}
