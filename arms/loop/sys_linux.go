package loop

import (
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// retryInterrupted repeats a call that a signal cut short: the Go runtime sends
// its threads SIGURG to preempt them.
func retryInterrupted(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}

// epollWait blocks in epoll_pwait for at most timeoutMs, −1 without a bound.
// (unix.EpollWait is epoll_wait on amd64 and epoll_pwait on arm64; the name of
// the wait is to be the same everywhere.)
func epollWait(epoll int, events []unix.EpollEvent, timeoutMs int) (int, error) {
	return retryInterrupted(func() (int, error) {
		n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), uintptr(timeoutMs), 0, 0)
		if errno != 0 {
			return 0, errno
		}
		return int(n), nil
	})
}

// monotonicNs is CLOCK_MONOTONIC.
func monotonicNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("read CLOCK_MONOTONIC: " + err.Error())
	}
	return now.Nano()
}

// sleepUntil blocks in clock_nanosleep until CLOCK_MONOTONIC reads dueNs.
func sleepUntil(dueNs int64) {
	due := unix.NsecToTimespec(dueNs)
	for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &due, nil) == unix.EINTR {
	}
}

func sleepFor(d time.Duration) { sleepUntil(monotonicNs() + d.Nanoseconds()) }

// takeOver duplicates a listener's descriptor, non-blocking as it was, out of
// the Go runtime's poller and closes the original.
func takeOver(listener *net.TCPListener) (int, error) {
	raw, err := listener.SyscallConn()
	if err != nil {
		return -1, err
	}
	descriptor, duplicateErr := -1, error(nil)
	err = raw.Control(func(fd uintptr) {
		descriptor, duplicateErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	})
	if err == nil {
		err = duplicateErr
	}
	if err != nil {
		return -1, err
	}
	listener.Close()
	return descriptor, nil
}
