package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func describe(got found) string {
	var parts []string
	for _, l := range got.lines {
		parts = append(parts, fmt.Sprintf("%s %s:%d", l.Function, l.File, l.Line))
	}
	return fmt.Sprintf("%s (%v)", strings.Join(parts, " < "), got.loss)
}

func TestPclntab(t *testing.T) {
	const (
		whole   = "main.gamma inl.go:50 < main.beta alpha.go:10 < main.alpha alpha.go:10 (named)"
		outside = "main.alpha alpha.go:10 (named)"
		bare    = "main.alpha inl.go:50 (no inlining)"
	)
	later := fakeGo{}.elf() // found by its magic number alone
	later.noSections = true
	later.rodata = append(bytes.Repeat([]byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 2, 8}, 64), 0)[:512]
	arm := fakeGo{noModuledata: true}.elf()
	arm.machine = elf.EM_AARCH64 // the header's quantum says amd64
	for _, tt := range []struct {
		name string
		elf  fakeELF
		addr uint64
		want string
	}{
		{"inlined twice", fakeGo{}.elf(), 0x401018, whole},
		{"inlined once", fakeGo{}.elf(), 0x401055, "main.beta alpha.go:10 < main.alpha alpha.go:10 (named)"},
		{"before inlined code", fakeGo{}.elf(), 0x40100f, outside},
		{"after inlined code", fakeGo{}.elf(), 0x401020, outside},
		{"generic, nothing inlined", fakeGo{}.elf(), 0x401100, "main.delta[...] alpha.go:10 (named)"},
		{"last byte", fakeGo{}.elf(), 0x4012ff, "main.omega alpha.go:10 (named)"},
		{"past the text", fakeGo{}.elf(), 0x401300, " (no symbol)"},
		{"before the text", fakeGo{}.elf(), 0x400fff, " (no symbol)"},
		{"far off", fakeGo{}.elf(), 1 << 63, " (no symbol)"},
		{"textStart in the header", fakeGo{textStart: textAddr}.elf(), 0x401018, whole},
		{"gofunc moved by a later Go", fakeGo{gofuncWord: 43}.elf(), 0x401018, whole},
		{"no moduledata", fakeGo{noModuledata: true, textStart: textAddr}.elf(), 0x401018, bare},
		{"no moduledata, no textStart", fakeGo{noModuledata: true}.elf(), 0x401018, bare},
		{"Go 1.18", fakeGo{magic: magic118}.elf(), 0x401018, bare},
		{"Go 1.16", fakeGo{magic: 0xfffffffa}.elf(), 0x401018, " (no symbol)"},
		{"other code quantum", arm, 0x401018, " (no symbol)"},
		{"only look-alikes of a header", later, 0x401018, " (no symbol)"},
		{"inlined into itself", fakeGo{parentPc: 0x10}.elf(), 0x401018,
			"main.gamma inl.go:50 < main.alpha alpha.go:10 (no inlining)"},
		{"call outside the function", fakeGo{parentPc: 0x100}.elf(), 0x401018, "main.alpha alpha.go:10 (no inlining)"},
		{"name outside the table", fakeGo{inlineName: 1 << 30}.elf(), 0x401018, "main.alpha alpha.go:10 (no inlining)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := openBytes(tt.elf.bytes())
			if f.im == nil {
				t.Fatal("not read as ELF")
			}
			if got := describe(f.lookup(tt.addr)); got != tt.want {
				t.Errorf("%#x: got %s, want %s", tt.addr, got, tt.want)
			}
		})
	}
}

// Without section headers the header is found by its magic number.
func TestPclntabByMagic(t *testing.T) {
	e := fakeGo{}.elf()
	e.noSections = true
	if got := describe(openBytes(e.bytes()).lookup(0x401200)); got != "main.omega alpha.go:10 (named)" {
		t.Error(got)
	}
}

func TestShortenTypeArgs(t *testing.T) {
	for name, want := range map[string]string{
		"main.f":                      "main.f",
		"main.f[go.shape.int]":        "main.f[...]",
		"main.(*t[go.shape.[]int]).m": "main.(*t[...]).m",
		"main.f[go.shape.int].func1":  "main.f[...].func1",
		"main.]odd[":                  "main.]odd[",
		"a[b]c[d]e":                   "a[...]e",
		"type:.eq.[2]interface {}":    "type:.eq.[...]interface {}",
		"net/http.(*conn).serve":      "net/http.(*conn).serve",
	} {
		if got := shortenTypeArgs(name); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// FuzzFile feeds whole files through every parser behind Lookup. Inputs are
// large: run it with -fuzzminimizetime=1x.
func FuzzFile(f *testing.F) {
	for _, g := range []fakeGo{{}, {magic: magic118}, {noModuledata: true}, {parentPc: 0x10}} {
		e := g.elf()
		f.Add(e.bytes(), uint64(0x401018))
		e.noSections, e.pclntab = true, false
		f.Add(e.bytes(), uint64(0x401018))
	}
	f.Add(fakeELF{text: make([]byte, 64), symbols: testSymbols, buildID: []byte{1, 2}}.bytes(), uint64(0x401010))
	f.Add([]byte("\x7fELF"), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, addr uint64) {
		file := openBytes(data)
		if file.im == nil {
			return
		}
		for _, a := range []uint64{addr, addr + 0x10, textAddr, 0} {
			got := file.lookup(a)
			if named := got.loss == Named || got.loss == NoInlining; named != (len(got.lines) > 0) {
				t.Fatalf("%#x: %v with %d lines", a, got.loss, len(got.lines))
			}
			for _, l := range got.lines {
				if l.Function == "" || l.Function != Printable(l.Function) {
					t.Fatalf("%#x: unprintable name %q", a, l.Function)
				}
			}
			file.im.vaddr(a)
		}
		if diff := cmp.Diff(functions(file.lookup(addr).lines), functions(file.find(addr).lines)); diff != "" {
			t.Fatalf("%#x: two answers:\n%s", addr, diff)
		}
	})
}
