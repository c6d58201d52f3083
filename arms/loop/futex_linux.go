package loop

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mutex is a lock whose waiters block in futex(2) themselves. A sync.Mutex
// would park the goroutine: its thread would then wait in the Go scheduler's
// own futex, with the scheduler's stack, whatever it waits for.
//
// The algorithm is "mutex 2" of Drepper's "Futexes Are Tricky". It is not fair:
// a running thread may take the lock before one that was woken.
type mutex struct{ word atomic.Uint32 }

const (
	mutexFree = iota
	mutexHeld
	mutexContended // held, and someone may be waiting
)

func (m *mutex) lock() {
	if m.word.CompareAndSwap(mutexFree, mutexHeld) {
		return
	}
	for m.word.Swap(mutexContended) != mutexFree {
		futexWait(&m.word, mutexContended)
	}
}

func (m *mutex) unlock() {
	if m.word.Swap(mutexFree) == mutexContended {
		futexWake(&m.word, 1)
	}
}

// The kernel's numbers (linux/futex.h); x/sys/unix has none.
const (
	futexOpWait      = 0
	futexOpWake      = 1
	futexPrivateFlag = 128
)

// futexWait blocks the calling thread while the word holds the value, or until
// a wake. It may return for no reason at all; callers look again.
func futexWait(word *atomic.Uint32, value uint32) {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWait|futexPrivateFlag, uintptr(value), 0, 0, 0)
	if errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR {
		panic(fmt.Sprintf("futex wait: %v", errno))
	}
}

func futexWake(word *atomic.Uint32, threads int) {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexOpWake|futexPrivateFlag, uintptr(threads), 0, 0, 0)
	if errno != 0 {
		panic(fmt.Sprintf("futex wake: %v", errno))
	}
}
