//go:build linux

package suite

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitWork repeats one kind of wait N times, Length each and up to 40 % longer.
// Waits without a timeout are ended by another worker.
func waitWork(c *crew) {
	switch c.task.Kind {
	case "futex-timeout":
		c.waiter(func(w *worker) func(time.Duration) { return w.futexTimeout })
	case "epoll-timeout":
		c.waiter(func(w *worker) func(time.Duration) {
			epoll := must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
			return func(d time.Duration) { w.epollWait(epoll, int(d/time.Millisecond)) }
		})
	case "nanosleep":
		c.waiter(func(w *worker) func(time.Duration) { return w.sleep })
	case "fsync":
		c.waiter(func(w *worker) func(time.Duration) { return w.fsync(c.task.Dir) })
	case "futex-woken":
		var word atomic.Uint32
		c.waiter(func(w *worker) func(time.Duration) {
			seen := uint32(0)
			return func(time.Duration) {
				for again := false; word.Load() == seen; again = true {
					if again {
						w.Waits++ // woken for nothing
					}
					w.futexWait(&word, seen)
				}
				seen++
			}
		})
		c.waker(func(w *worker) { word.Add(1); w.futexWake(&word, 1) })
	case "epoll-woken":
		event := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_SEMAPHORE)) // a read takes one wake
		c.waiter(func(w *worker) func(time.Duration) {
			epoll := must(unix.EpollCreate1(unix.EPOLL_CLOEXEC))
			if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, event, &unix.EpollEvent{Events: unix.EPOLLIN}); err != nil {
				panic(err)
			}
			return func(time.Duration) { w.epollWait(epoll, -1); w.read(event, 8) }
		})
		c.waker(func(w *worker) { w.write(event, 8) })
	case "pipe", "unix", "tcp":
		from, to := channel(c.task.Kind)
		c.waiter(func(w *worker) func(time.Duration) { return func(time.Duration) { w.read(from, 1) } })
		c.waker(func(w *worker) { w.write(to, 1) })
	case "fault-file":
		c.waiter(func(w *worker) func(time.Duration) { return w.faultFile(c.task.Dir) })
	case "fault-user":
		faulted := newUserFaults(c.task.N)
		c.waiter(func(w *worker) func(time.Duration) { return faulted.touch })
		c.add("pager", func(w *worker) { faulted.serve(w, c.task.N, c.length) })
	default:
		panic("no wait of kind " + c.task.Kind)
	}
}

// length of wait i.
func (c *crew) length(i int) time.Duration {
	return c.task.Length + time.Duration(i%5)*c.task.Length/10
}

func (c *crew) waiter(kind func(*worker) func(time.Duration)) {
	var wait func(time.Duration)
	w := c.add("waiter", func(w *worker) {
		for i := range c.task.N {
			w.timed(func() { wait(c.length(i)) })
		}
	})
	wait = kind(w) // made before the gate opens
}

func (c *crew) waker(wake func(*worker)) {
	c.add("waker", func(w *worker) {
		for i := range c.task.N {
			w.timed(func() { w.sleep(c.length(i)) })
			wake(w)
		}
	})
}

// The kernel's numbers (linux/futex.h); x/sys/unix has none.
const (
	futexWaitPrivate = 128
	futexWakePrivate = 129
)

func (w *worker) futexWait(word *atomic.Uint32, value uint32) {
	w.call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWaitPrivate, uintptr(value), 0, 0, 0)
}

func (w *worker) futexWake(word *atomic.Uint32, n int) {
	w.call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWakePrivate, uintptr(n), 0, 0, 0)
}

func (w *worker) futexTimeout(d time.Duration) {
	w.ts = unix.NsecToTimespec(int64(d))
	w.call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&w.buf)), futexWaitPrivate, 0, uintptr(unsafe.Pointer(&w.ts)), 0, 0)
}

func (w *worker) epollWait(epoll, ms int) {
	_, _, errno := w.call(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&w.events)), uintptr(len(w.events)), uintptr(ms), 0, 0)
	if errno != 0 && errno != unix.EINTR {
		panic(fmt.Sprintf("epoll: %v", errno))
	}
}

// read takes n bytes, no more: the next ones belong to the next wait.
func (w *worker) read(fd, n int) {
	_, _, errno := w.call(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&w.buf)), uintptr(n), 0, 0, 0)
	if errno != 0 {
		panic(fmt.Sprintf("read: %v", errno))
	}
}

// write sends n bytes that are 1 as a number.
func (w *worker) write(fd, n int) {
	w.buf[0] = 1
	_, _, errno := w.call(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&w.buf)), uintptr(n), 0, 0, 0)
	if errno != 0 {
		panic(fmt.Sprintf("write: %v", errno))
	}
}

// fsync writes a page and makes it durable; it takes what the disk takes.
func (w *worker) fsync(dir string) func(time.Duration) {
	f := must(os.CreateTemp(dir, "rung-truth"))
	os.Remove(f.Name())
	page := make([]byte, 4096)
	return func(time.Duration) {
		if _, err := f.WriteAt(page, int64(w.Waits)*4096); err != nil {
			panic(err)
		}
		if _, _, errno := w.call(unix.SYS_FSYNC, f.Fd(), 0, 0, 0, 0, 0); errno != 0 {
			panic(fmt.Sprintf("fsync: %v", errno))
		}
	}
}

// channel gives a blocking pair to read from and write to.
func channel(kind string) (from, to int) {
	var fds [2]int
	switch kind {
	case "pipe":
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			panic(err)
		}
	case "unix":
		fds = must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	case "tcp":
		listener := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		at := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
		if err := unix.Bind(listener, at); err != nil {
			panic(err)
		}
		if err := unix.Listen(listener, 1); err != nil {
			panic(err)
		}
		name := must(unix.Getsockname(listener))
		fds[1] = must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
		if err := unix.Connect(fds[1], name); err != nil {
			panic(err)
		}
		var err error
		if fds[0], _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC); err != nil {
			panic(err)
		}
		unix.SetsockoptInt(fds[1], unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		unix.Close(listener)
	}
	return fds[0], fds[1]
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
