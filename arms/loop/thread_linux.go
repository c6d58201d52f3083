package loop

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startThread runs f on an OS thread of its own, named name (at most 15 bytes),
// and returns once the thread has its name. The thread ends with f: a thread
// with another name and timer slack than its process's must not go back to the
// Go scheduler's pool.
func startThread(name string, f func()) error {
	named := make(chan error, 1)
	go threadMain(name, f, named)
	return <-named
}

func threadMain(name string, f func(), named chan<- error) {
	runtime.LockOSThread() // for good: the thread ends with this goroutine
	if unix.Getpid() == unix.Gettid() {
		// The main thread's name is the process's, and it cannot end. While
		// this goroutine sits on it, another one gets another thread.
		moved := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(moved)
			threadMain(name, f, named)
		}()
		<-moved
		runtime.UnlockOSThread()
		return
	}
	err := setName(name)
	named <- err
	if err == nil {
		f()
	}
}

func setName(name string) error {
	terminated, err := unix.BytePtrFromString(name)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(terminated)), 0, 0, 0); err != nil {
		return fmt.Errorf("name a thread %s: %w", name, err)
	}
	// Sleeps are to take what was asked, not the default 50 µs more.
	if err := unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set the timer slack of thread %s: %w", name, err)
	}
	return nil
}
