//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// LoadError is a kernel that has all that is asked of it and refuses a program
// all the same. Error is one line; %+v adds the verifier's whole log.
type LoadError struct{ Err error }

func (e *LoadError) Error() string { return "load BPF programs: " + e.Err.Error() }

func (e *LoadError) Unwrap() error { return e.Err }

// Log is what the verifier said, line by line; thousands of them. Nil if it
// said nothing.
func (e *LoadError) Log() []string {
	var verifier *ebpf.VerifierError
	if errors.As(e.Err, &verifier) {
		return verifier.Log
	}
	return nil
}

// Format prints Error for every verb, and the log after it for %+v.
func (e *LoadError) Format(f fmt.State, verb rune) {
	io.WriteString(f, e.Error())
	if log := e.Log(); verb == 'v' && f.Flag('+') && len(log) > 0 {
		io.WriteString(f, "\n\t"+strings.Join(log, "\n\t"))
	}
}

// loadError tells a missing privilege and an old kernel from a fault of ours.
func loadError(err error) error {
	var verifier *ebpf.VerifierError
	refused := errors.As(err, &verifier) && len(verifier.Log) > 0
	switch {
	case refused:
	case errors.Is(err, unix.EPERM) || errors.Is(err, fs.ErrPermission):
		return &MissingError{"permission to load BPF", "run as root or with CAP_BPF and CAP_PERFMON", err}
	case errors.Is(err, ebpf.ErrNotSupported):
		return &MissingError{"BPF features of Linux 6.1", "boot a kernel of 6.1 or newer", err}
	}
	return &LoadError{err}
}
