//go:build linux

package main

import (
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"github.com/rungprof/rung/attribution"
)

// profiledFrames are a sample's frames, leaf first, without the addresses of
// those that have no name.
func profiledFrames(s *pprof.Sample) []attribution.Frame {
	var out []attribution.Frame
	for _, loc := range s.Location {
		mapping := ""
		if loc.Mapping != nil {
			mapping = loc.Mapping.File
		}
		for _, line := range loc.Line {
			if line.Function != nil {
				out = append(out, attribution.Frame{Function: foldUnknown(line.Function.Name), Mapping: mapping})
			}
		}
	}
	return out
}

// foldUnknown takes the address off a frame without a name, since each would be
// a function of its own: code of a JIT, or of a stripped file.
func foldUnknown(name string) string {
	if strings.HasPrefix(name, "[unknown] ") {
		if at := strings.LastIndex(name, "+0x"); at > 0 {
			return name[:at]
		}
	}
	return name
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

// stackNames names a stack's frames, with the kernel's entries for its functions.
func stackNames(frames []attribution.Frame) []string {
	entered := slices.ContainsFunc(frames, func(f attribution.Frame) bool { return f.Mapping == attribution.MappingEntry })
	names := []string{}
	for _, f := range frames {
		if !entered || f.Mapping != attribution.MappingKernel {
			names = append(names, f.Function)
		}
	}
	return names
}
