// Package loop is the reference arm whose threads are known by name and whose
// waits are known by system call: an HTTP/1.1 server in the shape of an event
// loop with a worker pool, as Netty or nginx have it.
//
//	loop-0      accepts, reads, parses and writes; blocks in epoll_pwait
//	worker-N    decode, encode and answer; block in futex while there is no work
//	downstream  answers workers after a fixed time; blocks in read (of a pipe)
//	            while nobody asks, and in clock_nanosleep while somebody does
//
// On top of that a worker can block in futex on a lock whose holder sleeps
// (Config.LockHold) and in read of a pipe for the downstream (Config.Downstream).
//
// # Why raw system calls
//
// A Go mutex, channel or net.Conn parks the goroutine: the thread goes on to
// other work or to sleep in the scheduler, with the scheduler's stack, and a
// profiler of threads sees no trace of what is waited for. Here every wait is a
// system call made by a goroutine locked to its thread, so that the thread
// itself blocks in that very call.
//
// The calls go through unix.Syscall and not RawSyscall. A RawSyscall keeps its
// P, the scheduler's permission to run Go code: a thread blocked in one would
// hold up garbage collections for as long as it waits. Syscall marks the P as
// in a system call, so that collections and other threads can take it. For a
// thread not to wait for a P on its way back, which would be a wait in the
// scheduler again, there must be one for each thread: Start raises GOMAXPROCS.
//
// # What remains of the Go runtime
//
// A thread that the scheduler preempts, which it asks of every thread it finds
// running after 10 ms without a switch of goroutines, and one that helps or
// waits for a collection, parks in the scheduler for a moment: a few percent of
// the switches. And the runtime's monitor takes Ps back from threads that block,
// looking every 20 µs while there are any: on an arm that mostly waits that
// costs some 10 % of a core, on a thread without a name of ours. (Releasing the
// P on the way into the call, through the runtime's entersyscallblock, was
// measured and moves that cost without lowering it.)
package loop

import (
	"fmt"
	"time"
)

const (
	// DefaultWorkers is the number of worker threads unless told otherwise.
	DefaultWorkers = 2
	// MaxWorkers bounds Config.Workers.
	MaxWorkers = 256
	// MaxConnections is how many connections are served at the same time; one
	// more is answered 503 and closed.
	MaxConnections = 4096
	// MaxWait bounds Config.LockHold and Config.Downstream.
	MaxWait = 10 * time.Second
)

// Config is what a request goes through besides its handler.
type Config struct {
	Workers int // worker threads, 1..MaxWorkers

	// LockHold is how long each request holds the one global lock, 0 for no
	// lock. The holder sleeps in clock_nanosleep and burns nothing, so that
	// the arm's ceiling is 1/LockHold requests per second with the CPU idle;
	// workers without the lock block in futex.
	LockHold time.Duration

	// Downstream is how long a worker waits for an answer from the downstream
	// thread, blocked in read of a pipe; 0 for no downstream. It has no
	// capacity of its own: any number of workers wait side by side, so the
	// ceiling is Workers/Downstream. The lock is not held meanwhile.
	Downstream time.Duration
}

// Validate names the field that is out of range.
func (c Config) Validate() error {
	if c.Workers < 1 || c.Workers > MaxWorkers {
		return fmt.Errorf("%d workers: must be 1 to %d", c.Workers, MaxWorkers)
	}
	if c.LockHold < 0 || c.LockHold > MaxWait {
		return fmt.Errorf("lock hold of %v: must be 0 to %v", c.LockHold, MaxWait)
	}
	if c.Downstream < 0 || c.Downstream > MaxWait {
		return fmt.Errorf("downstream of %v: must be 0 to %v", c.Downstream, MaxWait)
	}
	return nil
}

// Handler answers the body of a POST /echo. It is called by several workers at
// the same time, owns neither slice after it returns, and its error is told to
// the client as a bad request.
type Handler func(body []byte) ([]byte, error)
