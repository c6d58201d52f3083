package profile

import (
	"runtime"

	"github.com/rungprof/rung/agent/syscalls"
	"github.com/rungprof/rung/bpf"
)

// Reason is a reason to be blocked, in words.
type Reason struct {
	// Name of the syscall, or "page fault", "disk", "kernel", "other".
	Name string
	// Object is the kind of file the syscall waits on, "" for none or not known.
	Object string
	// Limited: the wait had a timeout.
	Limited bool
}

// NameReason words a reason of the kernel side, with syscall numbers of the
// running architecture.
func NameReason(r bpf.Reason) Reason { return nameReason(runtime.GOARCH, r) }

func nameReason(arch string, r bpf.Reason) Reason {
	switch r {
	case bpf.ReasonFault:
		return Reason{Name: "page fault"}
	case bpf.ReasonDisk:
		return Reason{Name: "disk"}
	case bpf.ReasonKernel:
		return Reason{Name: "kernel"}
	}
	nr, ok := r.Syscall()
	if !ok {
		return Reason{Name: "other"}
	}
	return Reason{Name: syscalls.NameFor(arch, nr), Object: r.Object().String(), Limited: r.Limited()}
}
