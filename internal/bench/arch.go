//go:build linux

package main

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

const sysClockNanosleep = unix.SYS_CLOCK_NANOSLEEP

func setMaxThreads(n int) { debug.SetMaxThreads(n) }

// work is a chain of n steps that no CPU shortens, over memory of 16 KiB: what a
// profiler pushes out of the nearest cache is paid for here.
//
//go:noinline
func work(x uint64, n int) uint64 {
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		slot := &scratch[x>>53]
		x ^= *slot
		*slot = x
	}
	return x
}

var scratch [2048]uint64
