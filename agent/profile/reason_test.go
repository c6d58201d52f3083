package profile

import (
	"testing"

	"github.com/rungprof/rung/bpf"
)

func TestNameReason(t *testing.T) {
	for r, want := range map[bpf.Reason]Reason{
		bpf.SyscallReason(0, bpf.ObjectPipe, false):   {Name: "read", Object: "pipe"},
		bpf.SyscallReason(202, bpf.ObjectNone, true):  {Name: "futex", Limited: true},
		bpf.SyscallReason(45, bpf.ObjectSocket, true): {Name: "recvfrom", Object: "socket", Limited: true},
		bpf.SyscallReason(9999, 77, false):            {Name: "syscall_9999", Object: "object 77"},
		bpf.ReasonFault:                               {Name: "page fault"},
		bpf.ReasonDisk:                                {Name: "disk"},
		bpf.ReasonKernel:                              {Name: "kernel"},
		bpf.ReasonOther:                               {Name: "other"},
		bpf.ReasonNone:                                {Name: "other"},
	} {
		if got := nameReason("amd64", r); got != want {
			t.Errorf("%#x is %+v, want %+v", uint32(r), got, want)
		}
	}
	if got := nameReason("arm64", bpf.SyscallReason(63, bpf.ObjectPipe, false)); got.Name != "read" {
		t.Errorf("63 on arm64 is %q", got.Name)
	}
}
