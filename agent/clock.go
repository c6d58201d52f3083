package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/bpf"
)

// All of the agent's clocks, and every conversion between them, are here.

// clockNs reads a clock that this kernel is known to have.
func clockNs(id int32) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(fmt.Sprintf("clock_gettime(%d): %v", id, err)) // only a wrong id fails
	}
	return t.Nano()
}

func now() bpf.MonoNs { return bpf.Now() }

// offsetOf estimates how far another clock is ahead of CLOCK_MONOTONIC, from
// the tightest of some readings of one between two of the other.
func offsetOf(id int32) int64 {
	var offset int64
	best := int64(-1)
	for range 5 {
		before := clockNs(unix.CLOCK_MONOTONIC)
		other := clockNs(id)
		after := clockNs(unix.CLOCK_MONOTONIC)
		if width := after - before; best < 0 || width < best {
			best, offset = width, other-before-width/2
		}
	}
	return offset
}

// suspendedNs is the time this host has been suspended since boot, as far as
// two clocks read one after the other tell.
func suspendedNs() int64 { return offsetOf(unix.CLOCK_BOOTTIME) }

// suspendDoubt is a difference of suspendedNs that two readings can show
// without a suspend, because a reader was descheduled between clocks.
const suspendDoubt = int64(time.Millisecond)

// wallAheadNs is how far the wall clock is ahead of CLOCK_MONOTONIC. It serves
// for instants that people read, and for nothing else: it may be set at any time.
func wallAheadNs() int64 { return offsetOf(unix.CLOCK_REALTIME) }

// wallStep is a move of the wall clock within a window beyond which it was set
// rather than slewed.
const wallStep = int64(time.Second)

// wall is the time of an instant on the wall clock as it stands, for people.
func (a *Agent) wall(at bpf.MonoNs) string {
	return time.Unix(0, int64(at)+a.wallAheadNs()).Format("15:04:05.000")
}

// tickNs is the length of the kernel's timer tick, to which a running thread's
// charged time is exact.
func tickNs() uint64 {
	var t unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}

// stamp closes the clock stamp of a call that came in at received.
func (a *Agent) stamp(received bpf.MonoNs) *rungv1.ClockStamp {
	return &rungv1.ClockStamp{
		BootId: a.bootID, ReceivedMonoNs: uint64(received),
		BoottimeMinusMonoNs: suspendedNs(), SentMonoNs: uint64(now()),
	}
}

func readBootID(proc string) (string, error) {
	text, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// sleepUntil returns at an instant as nearly as user space can: Go's timers,
// exact to a millisecond, up to 50 ms before it, the kernel's absolute sleep,
// exact to about 60 µs, up to 150 µs before it, and then a spin. Within those 50
// ms it wakes without the help of another thread of this process, so the
// priority of its own is what counts. It answers early, but then not at once,
// with the context's error.
func sleepUntil(ctx context.Context, at bpf.MonoNs) error {
	const coarse, spin = bpf.MonoNs(50 * time.Millisecond), bpf.MonoNs(150 * time.Microsecond)
	if err := sleepRoughly(ctx, at-min(at, coarse)); err != nil {
		return err
	}
	if at > now()+spin {
		wake := unix.NsecToTimespec(int64(at - spin))
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &wake, nil) == unix.EINTR {
		}
	}
	for now() < at {
	}
	return ctx.Err()
}

// sleepRoughly returns up to a millisecond or so after an instant, or early
// with the context's error.
func sleepRoughly(ctx context.Context, at bpf.MonoNs) error {
	left := time.Duration(at - min(at, now()))
	if left == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
