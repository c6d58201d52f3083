package attribution

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// maxFoldedLine bounds a line of folded stacks in bytes: 1,000 frames of 1 KiB.
const maxFoldedLine = 1 << 20

// ParseFolded reads folded stacks, the input of flame graph tools: a line each,
//
//	main.main;net/http.(*conn).serve;syscall.write_[k] 42
//
// root first, frames separated by ";", then a space and a whole number of samples.
// Frames with the suffix "_[k]" are the kernel's; "_[i]" (inlined) and "_[j]"
// (JIT) are dropped. Blank lines and lines that begin with "#" are skipped; any
// other line that does not fit is an error that names it. The unit of the
// profile is "samples".
func ParseFolded(r io.Reader) (*Profile, error) {
	p := &Profile{Type: "samples", Unit: "samples"}
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxFoldedLine)
	inferred := int64(0)
	line := 0
	for sc.Scan() {
		line++
		text := strings.TrimSpace(sc.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		s, err := parseFoldedLine(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if inferEntry(&s) {
			inferred = saturate(inferred, s.Count)
		}
		p.Stacks = append(p.Stacks, s)
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("line %d: longer than %d bytes", line+1, maxFoldedLine)
		}
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	if len(p.Stacks) == 0 {
		return nil, errors.New("no folded stack: want lines such as \"main;work 42\"")
	}
	if inferred > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf(
			"kernel entries of %d samples were inferred from kernel function names", inferred))
	}
	return p, nil
}

func parseFoldedLine(text string) (Stack, error) {
	cut := strings.LastIndexAny(text, " \t")
	if cut < 0 {
		return Stack{}, errors.New("no count: want frames, a space, and a number of samples")
	}
	n, err := strconv.ParseInt(text[cut+1:], 10, 64)
	if err != nil || n < 0 || n == math.MaxInt64 {
		return Stack{}, fmt.Errorf("count %q: want a whole number of samples", text[cut+1:])
	}
	names := strings.Split(strings.TrimSpace(text[:cut]), ";")
	frames := make([]Frame, 0, len(names))
	for i := len(names) - 1; i >= 0; i-- {
		name := strings.TrimSpace(names[i])
		if name == "" {
			return Stack{}, fmt.Errorf("frame %d is empty", i+1)
		}
		frames = append(frames, foldedFrame(name))
	}
	return Stack{Frames: frames, Block: NoBlock, Count: n, Value: n}, nil
}

func foldedFrame(name string) Frame {
	if k, ok := strings.CutSuffix(name, "_[k]"); ok && k != "" {
		return Frame{k, MappingKernel}
	}
	switch name {
	case NoteMissing, NoteLost, NoteTruncated:
		return Frame{name, MappingNote}
	}
	if strings.HasPrefix(name, EntrySyscall) || name == EntryFault || name == EntryInterrupt {
		return Frame{name, MappingEntry}
	}
	for _, suffix := range []string{"_[i]", "_[j]"} {
		if s, ok := strings.CutSuffix(name, suffix); ok && s != "" {
			return Frame{s, ""}
		}
	}
	return Frame{name, ""}
}
