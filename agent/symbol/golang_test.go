package symbol

import (
	"debug/dwarf"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// buildProg builds testdata/prog. Settings are KEY=value of the environment;
// the rest are arguments of go build.
func buildProg(t testing.TB, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "prog")
	cmd := exec.Command("go", "build", "-o", out)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, a := range args {
		if key, _, ok := strings.Cut(a, "="); ok && strings.ToUpper(key) == key {
			cmd.Env = append(cmd.Env, a)
		} else {
			cmd.Args = append(cmd.Args, a)
		}
	}
	cmd.Args = append(cmd.Args, "./testdata/prog")
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, msg)
	}
	return out
}

func openFile(t testing.TB, path string) *file {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	got := newFile(f, identity{size: st.Size()})
	t.Cleanup(func() { got.close() })
	if got.im == nil {
		t.Fatalf("%s: not read as ELF", path)
	}
	return got
}

// span is a range of addresses in which DWARF tells one chain of functions.
type span struct {
	low, high uint64
	depth     int
	name      string
}

// dwarfSpans reads the physical and the inlined functions of a program, an
// account of inlining that is independent of pclntab.
func dwarfSpans(t *testing.T, path string) []span {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := f.DWARF()
	if err != nil {
		t.Fatal(err)
	}
	names := map[dwarf.Offset]string{}
	origin := map[dwarf.Offset]dwarf.Offset{}
	type raw struct {
		span
		entry dwarf.Offset
	}
	var raws []raw
	depth := 0   // of DIEs
	var in []int // depths of the enclosing functions
	for r := d.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		if e.Tag == 0 {
			depth--
			continue
		}
		for len(in) > 0 && in[len(in)-1] >= depth {
			in = in[:len(in)-1]
		}
		if e.Tag == dwarf.TagSubprogram || e.Tag == dwarf.TagInlinedSubroutine {
			if name, ok := e.Val(dwarf.AttrName).(string); ok {
				names[e.Offset] = name
			}
			if o, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset); ok {
				origin[e.Offset] = o
			}
			ranges, err := d.Ranges(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range ranges {
				raws = append(raws, raw{span{low: g[0], high: g[1], depth: len(in)}, e.Offset})
			}
			in = append(in, depth)
		}
		if e.Children {
			depth++
		}
	}
	spans := make([]span, len(raws))
	for i, r := range raws {
		spans[i] = r.span
		spans[i].name = names[r.entry]
		if o, ok := origin[r.entry]; ok {
			spans[i].name = names[o]
		}
		spans[i].name = shortenTypeArgs(spans[i].name)
	}
	slices.SortStableFunc(spans, func(a, b span) int { return a.depth - b.depth })
	return spans
}

func chain(spans []span, pc uint64) []string {
	var names []string
	for _, s := range spans {
		if s.low <= pc && pc < s.high {
			names = append(names, s.name)
		}
	}
	slices.Reverse(names)
	return names
}

func functions(lines []Line) []string {
	var names []string
	for _, l := range lines {
		names = append(names, l.Function)
	}
	return names
}

// Every way of building must name every address as the debug information of
// the unstripped twin does, inlined functions included.
func TestGoInlinedFramesAgainstDWARF(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"amd64", []string{"GOARCH=amd64"}},
		{"amd64_pie", []string{"GOARCH=amd64", "-buildmode=pie"}},
		{"arm64", []string{"GOARCH=arm64"}},
		{"arm64_pie", []string{"GOARCH=arm64", "-buildmode=pie"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			full := buildProg(t, tt.args...)
			spans := dwarfSpans(t, full)
			bare := buildProg(t, append(tt.args, "-ldflags=-s -w")...)
			noSections := stripSections(t, bare)
			for name, path := range map[string]string{"full": full, "stripped": bare, "no sections": noSections} {
				f := openFile(t, path)
				if f.golang == nil || !f.golang.inline.ok {
					t.Errorf("%s: pclntab or inline trees not found", name)
					continue
				}
				compareWithDWARF(t, name, f, spans)
			}
		})
	}
}

func compareWithDWARF(t *testing.T, build string, f *file, spans []span) {
	t.Helper()
	checked, inlined, wrong := 0, 0, 0
	for _, s := range spans {
		if s.depth > 0 || s.name == "" {
			continue
		}
		stride := uint64(1)
		if !strings.HasPrefix(s.name, "main.") {
			stride = 29
		}
		var near []span
		for _, o := range spans {
			if o.low < s.high && s.low < o.high {
				near = append(near, o)
			}
		}
		for pc := s.low; pc < s.high; pc += stride * f.golang.quantum {
			want := chain(near, pc)
			got := f.lookup(pc)
			checked++
			if len(want) > 1 {
				inlined++
			}
			if diff := cmp.Diff(want, functions(got.lines)); diff != "" || got.loss != Named {
				if wrong++; wrong <= 5 {
					t.Errorf("%s: %#x: %v (-dwarf +pclntab):\n%s", build, pc, got.loss, diff)
				}
			}
		}
	}
	t.Logf("%s: %d addresses, %d with inlined frames, %d wrong", build, checked, inlined, wrong)
	if checked < 2000 || inlined < 500 {
		t.Errorf("%s: too few addresses to mean anything", build)
	}
}

// stripSections returns a copy of an ELF file without section headers.
func stripSections(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(b[40:48]) // e_shoff
	clear(b[60:64]) // e_shnum, e_shstrndx
	out := filepath.Join(t.TempDir(), "nosections")
	if err := os.WriteFile(out, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return out
}

// The runtime names any address of this very process; so must we, with the
// source line.
func TestGoInnermostAgainstRuntime(t *testing.T) {
	s := New(Options{})
	defer s.Close()
	p, err := s.Process(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	entry := runtime.FuncForPC(callerPC()).Entry()
	checked := 0
	for pc := entry - 256<<10; pc < entry+256<<10; pc += 61 {
		// Between functions the runtime knows no line, and a pc + 1 that is a
		// function's entry is not taken for a return address.
		frame, _ := runtime.CallersFrames([]uintptr{pc + 1}).Next()
		if f := runtime.FuncForPC(pc + 1); frame.Line == 0 || f == nil || f.Entry() == pc+1 {
			continue
		}
		checked++
		got := p.Lookup(uint64(pc))
		line := got.Lines[0]
		if line.Function != frame.Function || line.File != frame.File || line.Line != frame.Line {
			t.Errorf("%#x: got %s %s:%d, want %s %s:%d (%v)", pc,
				line.Function, line.File, line.Line, frame.Function, frame.File, frame.Line, got.Loss)
		}
	}
	if checked < 1000 {
		t.Errorf("only %d addresses checked", checked)
	}
}

func callerPC() uintptr {
	pc, _, _, _ := runtime.Caller(1)
	return pc
}

//go:noinline
func physical(pcs []uintptr) int { return inlinedTwice(pcs) }

func inlinedTwice(pcs []uintptr) int { return inlinedOnce(pcs) }

func inlinedOnce(pcs []uintptr) int { return runtime.Callers(1, pcs) }

// runtime.Callers returns a pc per logical frame, the frames of one physical
// function one after the other.
func TestGoCallersOfThisProcess(t *testing.T) {
	pcs := make([]uintptr, 64)
	pcs = pcs[:physical(pcs)]
	var want []string
	for frames := runtime.CallersFrames(pcs); ; {
		frame, more := frames.Next()
		want = append(want, frame.Function)
		if !more {
			break
		}
	}
	s := New(Options{})
	defer s.Close()
	p, err := s.Process(uint32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := 0; i < len(pcs); {
		loc := p.Lookup(uint64(pcs[i] - 1))
		if loc.Loss != Named {
			t.Errorf("%#x: %v", pcs[i], loc.Loss)
		}
		got = append(got, functions(loc.Lines)...)
		i += len(loc.Lines)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-runtime +symbol):\n%s", diff)
	}
	if len(want) < 4 || !strings.HasSuffix(want[0], ".inlinedOnce") || !strings.HasSuffix(want[2], ".physical") {
		t.Errorf("the test's own functions were not inlined as meant: %v", want)
	}
}
