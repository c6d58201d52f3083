package bpf

import "fmt"

// Reason is why a thread sleeps: a syscall with the object it waits on and
// whether it set a limit to the wait, or a kind of wait outside any syscall.
// It is comparable; its layout is that of reason.h.
type Reason uint32

// Kinds of Reason beside syscalls.
const (
	ReasonFault  Reason = 0x7ff1 // page fault or other exception outside any syscall
	ReasonDisk   Reason = 0x7ff2 // the same, in uninterruptible sleep
	ReasonKernel Reason = 0x7ff3 // kernel thread
	ReasonOther  Reason = 0x7ff4 // more reasons in one thread and window than there are places
	ReasonNone   Reason = 0x7fff // of states that need none
)

// Object is the kind of file a syscall waits on.
type Object uint8

// Kinds of Object. ObjectNone: the syscall takes no file, or the kernel (before
// 6.2) does not let it be read.
const (
	ObjectNone Object = iota
	ObjectSocket
	ObjectPipe
	ObjectFile
	ObjectDevice
	ObjectEventfd
	ObjectTimerfd
	ObjectEpoll
	ObjectInotify
	ObjectAnon
)

var objectNames = [...]string{"", "socket", "pipe", "file", "device", "eventfd", "timerfd", "epoll", "inotify", "anonymous inode"}

func (o Object) String() string {
	if int(o) < len(objectNames) {
		return objectNames[o]
	}
	return fmt.Sprintf("object %d", uint8(o))
}

// SyscallReason makes the reason of a syscall.
func SyscallReason(nr int32, object Object, limited bool) Reason {
	r := Reason(nr)&0xffff | Reason(object)<<16
	if limited {
		r |= 1 << 24
	}
	return r
}

// Syscall gives the number; false for a reason outside any.
func (r Reason) Syscall() (nr int32, ok bool) {
	nr = int32(r & 0xffff)
	return nr, nr < int32(ReasonFault)
}

// Object is what the syscall waits on.
func (r Reason) Object() Object { return Object(r >> 16) }

// Limited says that the wait had a timeout.
func (r Reason) Limited() bool { return r>>24&1 == 1 }
