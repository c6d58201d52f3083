//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The oldest kernel that the programs are for.
const FloorMajor, FloorMinor = 6, 1

// CheckRelease is nil for a kernel release, as 6.12.9-arm64, that is not below
// the floor; else a *MissingError that names the floor.
func CheckRelease(release string) error {
	missing := func(remedy string, err error) error {
		return &MissingError{fmt.Sprintf("kernel %d.%d or newer", FloorMajor, FloorMinor), remedy, err}
	}
	major, rest, _ := strings.Cut(release, ".")
	minor := rest[:len(rest)-len(strings.TrimLeft(rest, "0123456789"))]
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	if errors.Join(errMajor, errMinor) != nil {
		return missing("report this release string", fmt.Errorf("release %q does not begin with two numbers", release))
	}
	if a < FloorMajor || a == FloorMajor && b < FloorMinor {
		return missing("boot a newer kernel; there is no code for older ones", fmt.Errorf("found %s", release))
	}
	return nil
}

// checkKernel is CheckRelease of the running kernel.
func checkKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("read the kernel's release: %w", err)
	}
	return CheckRelease(unix.ByteSliceToString(u.Release[:]))
}
