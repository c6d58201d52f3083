//go:build linux

package main

import (
	"runtime/debug"

	"golang.org/x/sys/unix"
)

const sysClockNanosleep = unix.SYS_CLOCK_NANOSLEEP

func setMaxThreads(n int) { debug.SetMaxThreads(n) }

// memory is 16 KiB that one thread works on: what a profiler pushes out of the
// nearest cache is paid for there.
type memory [2048]uint64

// work is a chain of n steps that no CPU shortens.
//
//go:noinline
func (m *memory) work(x uint64, n int) uint64 {
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
		slot := &m[x>>53]
		x ^= *slot
		*slot = x
	}
	return x
}
