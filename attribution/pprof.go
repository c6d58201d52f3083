package attribution

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/pprof/profile"
)

// FromPprof reads a profile into stacks. It takes Rung's own profiles by their
// conventions and any other as far as it goes: without labels there are no
// intervals and no thread groups, without kernel entries they are inferred from
// the kernel functions' names, and both are said in Warnings.
//
// sampleType picks one of the profile's sample types; "" means "cpu" in
// nanoseconds where there is one, else the profile's default, else its last. p
// is not changed.
func FromPprof(p *profile.Profile, sampleType string) (*Profile, error) {
	if err := p.CheckValid(); err != nil {
		return nil, fmt.Errorf("profile is malformed: %w", err)
	}
	value, err := pickType(p, sampleType)
	if err != nil {
		return nil, err
	}
	out := &Profile{Type: p.SampleType[value].Type, Unit: p.SampleType[value].Unit}
	if pt := p.PeriodType; pt != nil && pt.Unit == "nanoseconds" && p.Period > 0 {
		out.PeriodNs = p.Period
	}
	count := -1
	for i, t := range p.SampleType {
		if t.Unit == "count" && (t.Type == "samples" || t.Type == "sample") {
			count = i
		}
	}
	unlabelled := unlabelledBlock(p, value)
	var inferred int64
	for _, s := range p.Sample {
		if s.Value[value] == 0 {
			continue // of another type
		}
		st := Stack{
			ThreadGroup: firstLabel(s, "thread_group"),
			State:       firstLabel(s, "state"),
			Block:       unlabelled,
			Count:       1,
			Value:       s.Value[value],
			Frames:      frames(s),
		}
		if draws := s.NumLabel["draws"]; len(draws) > 0 {
			st.Count = draws[0]
		} else if count >= 0 {
			st.Count = s.Value[count]
		}
		if b := s.NumLabel["block"]; len(b) > 0 {
			if b[0] < 0 || b[0] >= MaxBlocks {
				return nil, fmt.Errorf("profile has block label %d: want 0..%d", b[0], MaxBlocks-1)
			}
			st.Block = int(b[0])
		}
		if inferEntry(&st) {
			inferred = saturate(inferred, st.Count)
		}
		out.Stacks = append(out.Stacks, st)
	}
	if inferred > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf(
			"kernel entries of %d samples were inferred from kernel function names", inferred))
	}
	if count < 0 {
		out.Warnings = append(out.Warnings, "the profile has no sample counts: each of its stacks counts as one sample")
	}
	return out, nil
}

// Regroup sets the thread group of the samples that name their thread to what g
// decides. It changes p.
func Regroup(p *profile.Profile, g *Grouper) {
	for _, s := range p.Sample {
		if comm := firstLabel(s, "thread"); comm != "" {
			s.Label["thread_group"] = []string{g.Group(comm, uint32(firstNumber(s, "tid")))}
		}
	}
}

// unlabelledBlock is the block of samples without the label. The format cannot
// tell a number 0 without a unit from an absent label, and readers drop it: in a
// profile whose samples of the type at hand have blocks, one without is of block 0.
func unlabelledBlock(p *profile.Profile, value int) int {
	for _, s := range p.Sample {
		if s.Value[value] != 0 && len(s.NumLabel["block"]) > 0 {
			return 0
		}
	}
	return NoBlock
}

func saturate(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

func pickType(p *profile.Profile, want string) (int, error) {
	if len(p.SampleType) == 0 {
		return 0, errors.New("profile has no sample type")
	}
	for i, t := range p.SampleType {
		if want == "" && t.Type == "cpu" && t.Unit == "nanoseconds" || want != "" && t.Type == want {
			return i, nil
		}
	}
	if want != "" {
		var have []string
		for _, t := range p.SampleType {
			have = append(have, t.Type)
		}
		return 0, fmt.Errorf("sample type %q: unknown; the profile has %s", want, strings.Join(have, ", "))
	}
	for i, t := range p.SampleType {
		if t.Type == p.DefaultSampleType {
			return i, nil
		}
	}
	return len(p.SampleType) - 1, nil
}

func firstLabel(s *profile.Sample, key string) string {
	if v := s.Label[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// frames lists a sample's frames leaf first; a location's lines are inlined
// calls, which pprof also holds leaf first.
func frames(s *profile.Sample) []Frame {
	var out []Frame
	for _, loc := range s.Location {
		mapping := ""
		if loc.Mapping != nil {
			mapping = kernelMapping(loc.Mapping.File)
		}
		if len(loc.Line) == 0 {
			out = append(out, Frame{fmt.Sprintf("[unknown] %s+%#x", mapping, offset(loc)), mapping})
			continue
		}
		for _, line := range loc.Line {
			name := ""
			if line.Function != nil {
				name = line.Function.Name
			}
			if name == "" {
				name = fmt.Sprintf("[unknown] %s+%#x", mapping, offset(loc))
			}
			out = append(out, Frame{name, mapping})
		}
	}
	return out
}

func offset(loc *profile.Location) uint64 {
	if m := loc.Mapping; m != nil && loc.Address >= m.Start {
		return loc.Address - m.Start + m.Offset
	}
	return loc.Address
}

// kernelMapping folds the names that other tools give the kernel and its modules.
func kernelMapping(file string) string {
	switch {
	case file == "[kernel]", strings.HasPrefix(file, "[kernel.kallsyms]"), strings.HasPrefix(file, "[guest.kernel"), file == "kernel":
		return MappingKernel
	case strings.HasSuffix(file, ".ko"), strings.HasSuffix(file, "/vmlinux"):
		return MappingKernel
	}
	return file
}
