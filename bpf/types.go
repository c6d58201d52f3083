package bpf

import "fmt"

// MonoNs is an instant of CLOCK_MONOTONIC in nanoseconds, the clock of every
// stamp taken in the kernel. Its conversion to wall time lives in package agent.
type MonoNs uint64

// Slot names a target inside the kernel programs, from AddCgroup or AddTree
// until Remove. At most [MaxTargets] at once.
type Slot uint32

// Limits of the kernel side. Each is a map size with its loss counter.
const (
	MaxTargets = 64
	// Kernel and user halves of a stack each hold at most this many frames;
	// the kernel's own walk stops there (perf_event_max_stack).
	MaxFrames = 127
)

// Window is one measured interval of one target. Per target, at most two
// windows are held at a time: one that runs and one that drains.
type Window struct {
	// ID is per slot, starts at 1 and rises by one with each window.
	ID         uint32
	Start, End MonoNs // End 0: open, to be set by SetEnd
	BlockNs    uint64 // length of a bootstrap block, > 0
}

// FrameKind says how Frame.Value is read.
type FrameKind uint8

// Kinds of frame. Values are shared with the C side.
const (
	FrameNone   FrameKind = iota
	FrameKernel           // Value: kernel address
	FrameNative           // Value: user address
	FrameError            // Value: why the walk stopped
)

// Frame is one tagged entry of a stack.
type Frame struct {
	Value uint64
	Extra uint32
	Kind  FrameKind
}

// Stack is a stack under its content hash, leaf first: kernel frames, then user frames.
type Stack struct {
	Frames []Frame
	// The kernel's walk filled all of MaxFrames: callers are missing at the root.
	KernelTruncated, UserTruncated bool
	// The walk gave no user stack (kernel thread, exited address space, fault).
	UserMissing bool
}

// Sample is a number of on-CPU clock ticks that shared everything below.
type Sample struct {
	Tgid, Tid uint32
	// StackHash is the key for Profiler.Stack; 0 when the stack was lost (table full).
	StackHash uint64
	// Block is the bootstrap block: (time - window start) / BlockNs.
	Block uint32
	// InKernel: the tick hit kernel mode. Syscall is then the number the thread
	// had entered with, or -1 outside any (page fault, interrupt from user mode).
	InKernel bool
	Syscall  int32
	Count    uint64
}

// Blocked is time spent blocked for one reason.
type Blocked struct {
	Reason    Reason
	Ns        uint64
	Intervals uint64
}

// Thread is the account of one thread over one window, open intervals closed
// at its edges: OnCPUWall + RunQueue + Throttled + Blocked + Stopped = Lifetime (all Ns).
type Thread struct {
	Tid, Tgid uint32
	Comm      string
	StartNs   uint64 // kernel start_time; with Tid the identity
	LifetimeNs,
	OnCPUWallNs,
	OnCPUChargedNs,
	RunQueueNs, // runnable, not running, and not known to be throttled
	ThrottledNs, // runnable, with the quota of its cgroup or of one above it spent
	ThrottledSlackNs, // of RunQueueNs, what may be throttled too: 0 where the kernel is exact
	StoppedNs uint64
	Blocked []Blocked
	// The scheduler's own figures come from the run queue's clock, which is set
	// some microseconds before a switch, or at the wakeup before: to OnCPUWallNs
	// add OnCPUSkewNs for what is charged (but for what the kernel leaves out of
	// that), to RunQueueNs + ThrottledNs add RunQueueSkewNs for schedstat's wait.
	OnCPUSkewNs, RunQueueSkewNs int64
	Switches, Wakeups           uint64
	Exited                      bool // ended within the window
	NoEvent                     bool // no scheduler event within the window
}

// Counters are the kernel side's losses and repairs since Load, by name.
type Counters map[string]uint64

// ProgramCost is what one program has run since statistics were enabled.
type ProgramCost struct {
	Name            string
	Runs, RunTimeNs uint64
}

// MissingError says which requirement of the kernel side this host lacks and
// what to do about it.
type MissingError struct {
	Requirement, Remedy string
	Err                 error
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %v; %s", e.Requirement, e.Err, e.Remedy)
}

func (e *MissingError) Unwrap() error { return e.Err }
