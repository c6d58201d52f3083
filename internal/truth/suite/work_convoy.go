//go:build linux

package suite

import (
	"math"
	"sync/atomic"

	"github.com/rungprof/rung/bpf"
)

// heldLock is a futex lock whose unlock wakes all waiters: each wait that spans
// a hold is ended by who held it.
type heldLock struct{ word atomic.Uint32 }

const (
	lockFree = iota
	lockHeld
	lockContended // held, and someone may be waiting
)

//go:noinline
func (l *heldLock) lock(w *worker) {
	if l.word.CompareAndSwap(lockFree, lockHeld) {
		return
	}
	for l.word.Swap(lockContended) != lockFree {
		w.timed(func() { w.futexWait(&l.word, lockContended) })
	}
}

//go:noinline
func (l *heldLock) unlock(w *worker) {
	if l.word.Swap(lockFree) == lockContended {
		w.futexWake(&l.word, math.MaxInt32)
	}
}

// convoyWork is a holder that keeps a lock for Length N times, asleep or (Kind
// "burn") computing, and four waiters that want it shortly.
func convoyWork(c *crew) {
	var l heldLock
	c.add("holder", func(w *worker) {
		for range c.task.N {
			l.lock(w)
			if c.task.Kind == "burn" {
				w.burn(bpf.Now() + bpf.MonoNs(c.task.Length))
			} else {
				w.timed(func() { w.sleep(c.task.Length) })
			}
			l.unlock(w)
			w.timed(func() { w.sleep(c.task.Length / 10) })
		}
		c.stop.Store(true)
	})
	for range 4 {
		c.add("waiter", func(w *worker) {
			for !c.stop.Load() {
				l.lock(w)
				l.unlock(w)
				w.timed(func() { w.sleep(c.task.Length / 20) })
			}
		})
	}
}
