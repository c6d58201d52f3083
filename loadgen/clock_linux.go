package loadgen

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// readMonotonic reads CLOCK_MONOTONIC.
func readMonotonic() int64 {
	var ts unix.Timespec
	// It cannot fail for this clock and a valid pointer.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}

// bootID identifies the boot that CLOCK_MONOTONIC counts from.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// ownCPU is the CPU time this process used so far, user and system.
func ownCPU() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
