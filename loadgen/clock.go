package loadgen

import "time"

// monoClock gives CLOCK_MONOTONIC in nanoseconds from Go's own monotonic clock,
// which is that clock at an offset that stays the same for the process: reading
// it needs no system call.
type monoClock struct {
	base   int64
	origin time.Time
}

// newMonoClock finds the offset by the tightest of a few readings of both clocks.
func newMonoClock() monoClock {
	var best monoClock
	tightest := time.Duration(1<<63 - 1)
	for range 8 {
		before := time.Now()
		mono := readMonotonic()
		spread := time.Since(before)
		if spread < tightest {
			tightest = spread
			best = monoClock{base: mono - int64(spread/2), origin: before}
		}
	}
	return best
}

var mono = newMonoClock()

// monoNow is the present instant in nanoseconds of CLOCK_MONOTONIC.
func monoNow() int64 { return mono.base + int64(time.Since(mono.origin)) }

// wallOf is the wall time of an instant, as the clocks stand now.
func wallOf(monoNs int64) time.Time {
	return time.Now().Add(time.Duration(monoNs - monoNow()))
}

func sinceMono(monoNs int64) time.Duration { return time.Duration(monoNow() - monoNs) }
