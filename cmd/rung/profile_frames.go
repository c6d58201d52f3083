//go:build linux

package main

import (
	"slices"
	"strings"

	"github.com/rungprof/rung/attribution"
)

// foldFrames takes the addresses off frames without a name, since each would be
// a function of its own: code of a JIT, or of a stripped file.
func foldFrames(frames []attribution.Frame) []attribution.Frame {
	out := slices.Clone(frames)
	for i := range out {
		if name := out[i].Function; strings.HasPrefix(name, "[unknown] ") {
			if at := strings.LastIndex(name, "+0x"); at > 0 {
				out[i].Function = name[:at]
			}
		}
	}
	return out
}

// selfFrame is the frame that the time of a stack belongs to: the leaf, or the
// entry into the kernel that the leaf was called by.
func selfFrame(frames []attribution.Frame) attribution.Frame {
	for _, f := range frames {
		if f.Mapping != attribution.MappingKernel {
			return f
		}
	}
	if len(frames) > 0 {
		return frames[0]
	}
	return attribution.Frame{Function: "[no frame]", Mapping: attribution.MappingNote}
}

// entriesOnly leaves out the kernel's functions where its entries are there: a
// reader of many stacks wants to know the syscall. The profile has them all.
func entriesOnly(frames []attribution.Frame) []attribution.Frame {
	if !slices.ContainsFunc(frames, func(f attribution.Frame) bool { return f.Mapping == attribution.MappingEntry }) {
		return frames
	}
	return slices.DeleteFunc(slices.Clone(frames), func(f attribution.Frame) bool { return f.Mapping == attribution.MappingKernel })
}

func frameNames(frames []attribution.Frame) []string {
	names := make([]string, len(frames))
	for i, f := range frames {
		names[i] = f.Function
	}
	return names
}
