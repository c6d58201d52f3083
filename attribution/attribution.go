// Package attribution answers where a target's time went: it turns stacks into
// layers and layers into figures per request, and threads into an account whose
// states add up. It does not measure, symbolise, or judge a ladder.
//
// The package is pure: no files, no clock, no log, no random source of its own.
// The same input gives the same bytes, bootstrap intervals included. Nothing in
// it is safe for concurrent modification; values that are only read may be
// shared.
package attribution

import (
	"fmt"
)

// Mappings that mark frames which are not code of the target. They are the
// profile's conventions, so a reader of any pprof tool sees them too.
const (
	// MappingKernel holds frames of the kernel.
	MappingKernel = "[kernel.kallsyms]"
	// MappingEntry holds the pseudo-frames between user and kernel frames:
	// "syscall:write", "page fault", "interrupt", "kernel".
	MappingEntry = "[kernel.entry]"
	// MappingNote holds what the profiler says about a stack instead of a
	// frame: "[missing stack]", "[lost stack]", "[truncated]".
	MappingNote = "[rung]"
)

// Names of the frames in MappingNote.
const (
	NoteMissing   = "[missing stack]"
	NoteLost      = "[lost stack]"
	NoteTruncated = "[truncated]"
)

// Names of the frames in MappingEntry; a syscall's is EntrySyscall and its name.
const (
	EntrySyscall   = "syscall:"
	EntryFault     = "page fault"
	EntryInterrupt = "interrupt"
	EntryKernel    = "kernel"
)

// Other is the implicit last layer: frames that no rule names. It may not be
// declared, so that what a rule file does not know stays visible.
const Other = "other"

// Frame is one function on a stack. An inlined function is a frame like any other.
type Frame struct {
	Function string
	Mapping  string
}

// Stack is one kind of sample: frames, leaf first, and what the samples share.
type Stack struct {
	Frames []Frame
	// ThreadGroup is the thread's, as a [Grouper] decided; "" when unknown.
	ThreadGroup string
	// State is the thread's state, "on-cpu" for CPU samples, "" when unknown.
	State string
	// Block is the bootstrap block, NoBlock when the sample carries none.
	Block int
	// Count is the number of samples, Value their weight in the profile's unit.
	Count, Value int64
}

// NoBlock marks a sample without a block label.
const NoBlock = -1

// Profile is a set of stacks with one unit.
type Profile struct {
	Stacks []Stack
	// Type and Unit of Stack.Value: "cpu" and "nanoseconds" in Rung's profiles.
	Type, Unit string
	// PeriodNs is the time one sample stands for, 0 when unknown.
	PeriodNs int64
	// Warnings say what the reading had to assume.
	Warnings []string
}

// Charge says to whose account a sample goes.
type Charge string

const (
	// Leaf charges self time: the leaf frame's layer, kernel time by its entry.
	Leaf Charge = "leaf"
	// Owner charges a transparent leaf (copying, allocation, locks) to the
	// nearest caller that is not transparent.
	Owner Charge = "owner"
)

// ParseCharge reads a charge as flags spell it.
func ParseCharge(s string) (Charge, error) {
	switch c := Charge(s); c {
	case Leaf, Owner:
		return c, nil
	}
	return "", fmt.Errorf("charge %q: want %q or %q", s, Leaf, Owner)
}
