package main

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/capset"
)

// secureBits, of linux/securebits.h: NOROOT and NO_SETUID_FIXUP, both locked.
const secureBits = 1<<0 | 1<<1 | 1<<2 | 1<<3

// execWith replaces this process by argv, as uid 0 with exactly the named
// capabilities, as a container runtime starts a container with all others
// dropped: they are gone from the bounding set, and uid 0 by itself gives
// none (SECBIT_NOROOT, locked), so they cannot come back at any later exec.
func execWith(caps string, argv []string) error {
	set, err := capset.Parse(caps)
	if err != nil {
		return err
	}
	// Capabilities belong to threads; execve keeps those of the caller.
	runtime.LockOSThread()
	for bit := 0; bit < 64; bit++ {
		if set.Has(bit) {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(bit), 0, 0, 0); err == unix.EINVAL {
			break // above the last one this kernel knows
		} else if err != nil {
			return fmt.Errorf("drop capability %d: %w", bit, err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureBits, 0, 0, 0); err != nil {
		return fmt.Errorf("set secure bits: %w", err)
	}
	low, high := uint32(set), uint32(set>>32)
	data := [2]unix.CapUserData{
		{Effective: low, Permitted: low, Inheritable: low},
		{Effective: high, Permitted: high, Inheritable: high},
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	for bit := 0; bit < 64; bit++ {
		if !set.Has(bit) {
			continue
		}
		// Only ambient capabilities pass an exec of a file without any of its own.
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(bit), 0, 0); err != nil {
			return fmt.Errorf("make capability %d ambient: %w", bit, err)
		}
	}
	return fmt.Errorf("start %s: %w", argv[0], unix.Exec(argv[0], argv, os.Environ()))
}
