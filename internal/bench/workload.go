//go:build linux

package main

import (
	"bufio"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sleeps at six places, which stacks tell apart. Raw system calls: the runtime
// of Go does not see them, and so wakes no thread for them.

func nanosleep(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

var sink uint64

//go:noinline
func placeA(d time.Duration) { nanosleep(d); sink++ }

//go:noinline
func placeB(d time.Duration) { nanosleep(d); sink++ }

//go:noinline
func placeC(d time.Duration) { nanosleep(d); sink++ }

//go:noinline
func placeD(d time.Duration) { nanosleep(d); sink++ }

//go:noinline
func placeE(d time.Duration) { nanosleep(d); sink++ }

//go:noinline
func placeF(d time.Duration) { nanosleep(d); sink++ }

var placeFuncs = [...]func(time.Duration){placeA, placeB, placeC, placeD, placeE, placeF}

// interval is one sleep: where, and how long by the sleeper's own clock.
type interval struct {
	Place int    `json:"p"`
	Ns    uint64 `json:"n"`
}

// chooser gives the next place and length, at a time since the beginning.
type chooser func(rng *rand.Rand, at time.Duration) (place int, d time.Duration)

// steady chooses each time anew, among places of a few to some forty percent of
// the time, lengths spread by a factor of about two.
func steady(rng *rand.Rand, _ time.Duration) (int, time.Duration) {
	place := choose(rng, 0.32, 0.24, 0.18, 0.13, 0.08, 0.05)
	return place, lognormal(rng, 80*time.Microsecond, 0.4)
}

// bursty chooses by phases of 20 to 90 ms, as collections, compactions and
// arrivals come: few places at a time, and lengths of heavy tails.
func bursty() chooser {
	var phase int
	var until time.Duration
	return func(rng *rand.Rand, at time.Duration) (int, time.Duration) {
		if at >= until {
			phase = choose(rng, 0.5, 0.3, 0.2)
			until = at + 20*time.Millisecond + time.Duration(rng.Int64N(int64(70*time.Millisecond)))
		}
		switch phase {
		case 0: // requests
			return choose(rng, 0.6, 0.3, 0.1), lognormal(rng, 60*time.Microsecond, 0.9)
		case 1: // many short waits at one place
			return 3 + choose(rng, 0.9, 0.1), lognormal(rng, 50*time.Microsecond, 0.3)
		default: // few long ones
			return 4 + choose(rng, 0.5, 0.5), lognormal(rng, 300*time.Microsecond, 1.0)
		}
	}
}

func choose(rng *rand.Rand, shares ...float64) int {
	x := rng.Float64()
	for i, s := range shares {
		if x -= s; x < 0 {
			return i
		}
	}
	return len(shares) - 1
}

func lognormal(rng *rand.Rand, median time.Duration, sigma float64) time.Duration {
	return min(time.Duration(float64(median)*math.Exp(sigma*rng.NormFloat64())), 20*time.Millisecond)
}

// places sleeps as args[0] chooses, args[1] times, 0 for ever; it answers each sleep.
func places(args []string, _ *bufio.Reader) any {
	next := chooser(steady)
	if args[0] == "bursty" {
		next = bursty()
	}
	n, _ := strconv.Atoi(args[1])
	seed, _ := strconv.ParseUint(args[2], 10, 64)
	rng := rand.New(rand.NewPCG(seed, 1))
	log := make([]interval, 0, n)
	began := clockNs(unix.CLOCK_MONOTONIC)
	t0 := began
	for i := 0; n == 0 || i < n; i++ {
		place, d := next(rng, time.Duration(t0-began))
		placeFuncs[place](d)
		t1 := clockNs(unix.CLOCK_MONOTONIC)
		if n > 0 {
			log = append(log, interval{place, uint64(t1 - t0)})
		}
		t0 = t1
	}
	return log
}

// parked makes args[0] threads that wait until the end of the process, or, with
// a period in args[1] above 0, wake that often, spread over it.
func parked(args []string, in *bufio.Reader) any {
	n, _ := strconv.Atoi(args[0])
	period, _ := time.ParseDuration(args[1])
	setMaxThreads(n + 100)
	ready := make(chan struct{})
	for i := range n {
		go func() {
			runtime.LockOSThread()
			ready <- struct{}{}
			if period == 0 {
				var word uint32
				const futexWaitPrivate = 128
				for {
					unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), futexWaitPrivate, 0, 0, 0, 0)
				}
			}
			// System calls that the runtime sees: it has two processors for all.
			ts := unix.NsecToTimespec(int64(period) * int64(i) / int64(n))
			for {
				unix.Syscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
				ts = unix.NsecToTimespec(int64(period))
			}
		}()
		<-ready
	}
	return n
}

// spin works on until the end of the process.
func spin([]string, *bufio.Reader) any {
	for {
		sink = work(sink, 10_000)
	}
}

// slept is what sleeps says of itself: time off the CPU by the thread's clocks.
type slept struct {
	WallNs, CPUNs int64
	Sleeps        int
}

// sleeps waits args[0] times for args[1] each, with some work between.
func sleeps(args []string, _ *bufio.Reader) any {
	n, _ := strconv.Atoi(args[0])
	d, _ := time.ParseDuration(args[1])
	wall, cpu := clockNs(unix.CLOCK_MONOTONIC), clockNs(unix.CLOCK_THREAD_CPUTIME_ID)
	for range n {
		placeA(d)
		sink = work(sink, 200_000)
	}
	return slept{clockNs(unix.CLOCK_MONOTONIC) - wall, clockNs(unix.CLOCK_THREAD_CPUTIME_ID) - cpu, n}
}
