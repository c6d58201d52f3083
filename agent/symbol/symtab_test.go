package symbol

import (
	"debug/elf"
	"strings"
	"testing"
)

func testSym(name string, typ elf.SymType, bind elf.SymBind, off, size uint64) elf.Symbol {
	return elf.Symbol{Name: name, Info: elf.ST_INFO(bind, typ), Section: 1, Value: textAddr + off, Size: size}
}

var testSymbols = []elf.Symbol{
	testSym("__libc_write", elf.STT_FUNC, elf.STB_GLOBAL, 0x10, 0x10),
	testSym("write", elf.STT_FUNC, elf.STB_WEAK, 0x10, 0x10),
	testSym("__write", elf.STT_FUNC, elf.STB_GLOBAL, 0x10, 0x10),
	testSym("loc", elf.STT_FUNC, elf.STB_LOCAL, 0x10, 0x10),
	testSym("big", elf.STT_FUNC, elf.STB_GLOBAL, 0x40, 0x80),
	testSym("inner", elf.STT_FUNC, elf.STB_LOCAL, 0x50, 0x10),
	testSym("label", elf.STT_NOTYPE, elf.STB_LOCAL, 0x80, 0),
	testSym("$x", elf.STT_NOTYPE, elf.STB_LOCAL, 0xd0, 0),
	testSym("_start", elf.STT_NOTYPE, elf.STB_GLOBAL, 0xe0, 0),
	testSym("memcpy@@GLIBC_2.14", elf.STT_GNU_IFUNC, elf.STB_GLOBAL, 0xf0, 8),
	testSym("_ZNSt6vectorIiSaIiEE9push_backEOi", elf.STT_FUNC, elf.STB_WEAK, 0x100, 8),
	testSym("_RNvCskwGfYPst2Cb_3foo3bar", elf.STT_FUNC, elf.STB_GLOBAL, 0x108, 8),
	testSym("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", elf.STT_FUNC, elf.STB_GLOBAL, 0x110, 8),
	testSym("bad\x1b[31mname", elf.STT_FUNC, elf.STB_GLOBAL, 0x118, 8),
	testSym("variable", elf.STT_OBJECT, elf.STB_GLOBAL, 0x120, 8),
	testSym("elsewhere", elf.STT_FUNC, elf.STB_GLOBAL, 0x100000, 8),
	testSym("endless", elf.STT_FUNC, elf.STB_GLOBAL, 0x130, 1<<63),
}

func TestSymtab(t *testing.T) {
	f := openBytes(fakeELF{text: make([]byte, 0x200), symbols: testSymbols, buildID: []byte{0xca, 0xfe}}.bytes())
	if f.im == nil {
		t.Fatal("not read as ELF")
	}
	if f.im.buildID != "cafe" {
		t.Errorf("build id %q", f.im.buildID)
	}
	for off, want := range map[uint64]string{
		0x0f:  "",      // before the first
		0x10:  "write", // fewest underscores, then shortest; not the local one
		0x1f:  "write",
		0x20:  "", // past its size
		0x40:  "big",
		0x50:  "inner",
		0x5f:  "inner",
		0x60:  "big",
		0x80:  "big", // a label within a function is not one
		0xbf:  "big",
		0xc0:  "",
		0xd4:  "",
		0xe8:  "_start", // of unknown size
		0xf0:  "memcpy",
		0x100: "std::vector::push_back",
		0x108: "foo::bar",
		0x110: "core::fmt::Write::write_fmt",
		0x118: "bad?[31mname",
		0x120: "",
		0x140: "endless",
	} {
		got := ""
		if r := f.lookup(textAddr + off); len(r.lines) > 0 {
			got = r.lines[0].Function
		}
		if got != want {
			t.Errorf("%#x: got %q, want %q", off, got, want)
		}
	}
	if got := f.lookup(textAddr + 0x100).lines[0].Linkage; got != "_ZNSt6vectorIiSaIiEE9push_backEOi" {
		t.Errorf("linkage name %q", got)
	}
}

// Names of the order of symbols must not depend on the order in the file.
func TestSymtabOrder(t *testing.T) {
	reversed := make([]elf.Symbol, len(testSymbols))
	for i, s := range testSymbols {
		reversed[len(reversed)-1-i] = s
	}
	a := openBytes(fakeELF{text: make([]byte, 0x200), symbols: testSymbols}.bytes())
	b := openBytes(fakeELF{text: make([]byte, 0x200), symbols: reversed}.bytes())
	for off := range uint64(0x200) {
		if x, y := describe(a.lookup(textAddr+off)), describe(b.lookup(textAddr+off)); x != y {
			t.Errorf("%#x: %s or %s", off, x, y)
		}
	}
}

// The standard library's reader must see the same functions in a real file.
func TestSymtabAgainstDebugELF(t *testing.T) {
	path := buildProg(t)
	e, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	syms, err := e.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	f := openFile(t, path)
	table := readSymtab(f.im)
	checked := 0
	for _, s := range syms {
		if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 {
			continue
		}
		checked++
		for _, addr := range []uint64{s.Value, s.Value + s.Size - 1} {
			if got, ok := table.lookup(addr); !ok || got != s.Name {
				t.Errorf("%#x: got %q, want %q", addr, got, s.Name)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d functions", checked)
	}
}

func TestOpenImageRefuses(t *testing.T) {
	good := fakeELF{text: make([]byte, 16)}.bytes()
	for name, change := range map[string]func(b []byte) []byte{
		"empty":          func(b []byte) []byte { return nil },
		"short":          func(b []byte) []byte { return b[:40] },
		"not ELF":        func(b []byte) []byte { b[0] = 'x'; return b },
		"32 bit":         func(b []byte) []byte { b[4] = 1; return b },
		"big endian":     func(b []byte) []byte { b[5] = 2; return b },
		"riscv":          func(b []byte) []byte { b[18] = byte(elf.EM_RISCV); return b },
		"no segments":    func(b []byte) []byte { b[56] = 0; return b },
		"many segments":  func(b []byte) []byte { b[57] = 0xff; return b },
		"headers beyond": func(b []byte) []byte { b[36] = 0xff; return b },
	} {
		b := change(append([]byte(nil), good...))
		if f := openBytes(b); f.im != nil {
			t.Errorf("%s: taken for a good file", name)
		}
	}
	if openBytes(good).im == nil {
		t.Error("the unchanged file is refused")
	}
}

func TestDemangleIsBounded(t *testing.T) {
	for _, name := range []string{
		"_Z" + strings.Repeat("N", 4000),
		"_ZN1aI" + strings.Repeat("S_", 2000) + "E",
		"_R" + strings.Repeat("NvC", 2000),
		"_Z1f" + strings.Repeat("PFvPFv", 600),
		"_Z1fI" + strings.Repeat("1AIT_", 500) + strings.Repeat("E", 500) + "vv",
	} {
		if got := demangled(name); len(got) > maxName+8 {
			t.Errorf("%.20s...: %d bytes", name, len(got))
		}
	}
}
