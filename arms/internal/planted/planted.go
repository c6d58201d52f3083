// Package planted burns a known amount of CPU in a function that belongs to no
// layer, so that a test can ask where an attribution puts code that no rule
// knows. It answers nothing about arms: it is the ground truth of a check.
//
// The one frame it adds to a stack is
// github.com/rungprof/rung/arms/internal/planted.Burn. A rule for the arms'
// application code must therefore name the packages it means
// (github.com/rungprof/rung/arms. and arms/echo., arms/loop.), not everything
// below github.com/rungprof/rung/arms.
package planted

import (
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Burn runs a chain of dependent multiplications and answers its last link. It
// calls nothing and touches no memory, so it is a leaf for its whole length.
// The caller must use the result, or pass it on as the next call's seed.
//
//go:noinline
func Burn(iterations, seed uint64) uint64 {
	for range iterations {
		seed = seed*6364136223846793005 + 1442695040888963407
	}
	return seed
}

const (
	calibrationRounds     = 9
	calibrationIterations = 400_000 // about 0.5 ms
)

// Iterations is how many iterations of Burn take d of a thread's CPU time on
// this host, at the clock frequency of the moment. It takes about 5 ms, and
// goes by the fastest of its rounds: an interruption can only lengthen one.
// The error is the clock's.
func Iterations(d time.Duration) (uint64, error) {
	if d <= 0 {
		return 0, nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	best := int64(0)
	seed := uint64(1)
	for range calibrationRounds {
		before, err := threadCPUNs()
		if err != nil {
			return 0, err
		}
		seed = Burn(calibrationIterations, seed)
		after, err := threadCPUNs()
		if err != nil {
			return 0, err
		}
		if took := after - before; took > 0 && (best == 0 || took < best) {
			best = took
		}
	}
	if best == 0 || seed == 0 {
		return 0, fmt.Errorf("calibrate the planted function: the thread's CPU clock did not move in %d iterations", calibrationIterations)
	}
	return max(1, uint64(float64(d.Nanoseconds())*calibrationIterations/float64(best))), nil
}

// threadCPUNs is the calling thread's CPU time in nanoseconds, user and kernel.
func threadCPUNs() (int64, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("read the thread's CPU clock: %w", err)
	}
	return ts.Nano(), nil
}
