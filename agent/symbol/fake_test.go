package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
)

// Small ELF files made by hand, for what compilers do not write and as seeds
// for fuzzing.

// fakeELF is a file of three segments, each at its own page: text, read-only
// data and writable data.
type fakeELF struct {
	machine          elf.Machine
	text, rodata, rw []byte
	symbols          []elf.Symbol // Section 1 is the text
	pclntab          bool         // rodata is a section .gopclntab
	buildID          []byte
	noSections       bool
}

const (
	textAddr   = 0x401000
	rodataAddr = 0x402000
	rwAddr     = 0x404000
)

func put(b *bytes.Buffer, vs ...any) {
	for _, v := range vs {
		if err := binary.Write(b, binary.LittleEndian, v); err != nil {
			panic(err)
		}
	}
}

func (f fakeELF) bytes() []byte {
	if f.machine == 0 {
		f.machine = elf.EM_X86_64
	}
	var names, strtab, symtab bytes.Buffer
	names.WriteByte(0)
	strtab.WriteByte(0)
	symtab.Write(make([]byte, 24))
	for _, s := range f.symbols {
		put(&symtab, uint32(strtab.Len()), s.Info, s.Other, uint16(s.Section), s.Value, s.Size)
		strtab.WriteString(s.Name + "\x00")
	}
	var note bytes.Buffer
	if f.buildID != nil {
		put(&note, uint32(4), uint32(len(f.buildID)), uint32(3), []byte("GNU\x00"), f.buildID)
	}

	body := make([]byte, 0x1000, 0x8000)
	place := func(b []byte) uint64 {
		at := len(body)
		body = append(body, b...)
		for len(body)%0x1000 != 0 {
			body = append(body, 0)
		}
		return uint64(at)
	}
	var sections bytes.Buffer
	count := 0
	section := func(name string, typ elf.SectionType, addr, off, size uint64, link uint32, entsize uint64) {
		put(&sections, uint32(names.Len()), uint32(typ), uint64(0), addr, off, size, link, uint32(0), uint64(1), entsize)
		names.WriteString(name + "\x00")
		count++
	}
	var programs bytes.Buffer
	segments := 0
	segment := func(typ elf.ProgType, flags elf.ProgFlag, off, addr, size uint64) {
		put(&programs, uint32(typ), uint32(flags), off, addr, addr, size, size, uint64(0x1000))
		segments++
	}
	textOff, roOff, rwOff := place(f.text), place(f.rodata), place(f.rw)
	segment(elf.PT_LOAD, elf.PF_R|elf.PF_X, textOff, textAddr, uint64(len(f.text)))
	segment(elf.PT_LOAD, elf.PF_R, roOff, rodataAddr, uint64(len(f.rodata)))
	segment(elf.PT_LOAD, elf.PF_R|elf.PF_W, rwOff, rwAddr, uint64(len(f.rw)))
	segment(elf.PT_NOTE, elf.PF_R, place(note.Bytes()), 0, uint64(note.Len()))

	section("", elf.SHT_NULL, 0, 0, 0, 0, 0)
	section(".text", elf.SHT_PROGBITS, textAddr, textOff, uint64(len(f.text)), 0, 0)
	section(".symtab", elf.SHT_SYMTAB, 0, place(symtab.Bytes()), uint64(symtab.Len()), 3, 24)
	section(".strtab", elf.SHT_STRTAB, 0, place(strtab.Bytes()), uint64(strtab.Len()), 0, 0)
	rodata := ".rodata"
	if f.pclntab {
		rodata = ".gopclntab"
	}
	section(rodata, elf.SHT_PROGBITS, rodataAddr, roOff, uint64(len(f.rodata)), 0, 0)
	namesIndex := count
	section(".shstrtab", elf.SHT_STRTAB, 0, uint64(len(body)), 0x100, 0, 0)
	place(append(names.Bytes(), make([]byte, 0x100)...))
	sectionsOff := place(sections.Bytes())
	if f.noSections {
		sectionsOff, count, namesIndex = 0, 0, 0
	}

	var head bytes.Buffer
	put(&head, []byte("\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		uint16(elf.ET_EXEC), uint16(f.machine), uint32(1), uint64(textAddr), uint64(64), sectionsOff, uint32(0),
		uint16(64), uint16(56), uint16(segments), uint16(64), uint16(count), uint16(namesIndex))
	head.Write(programs.Bytes())
	copy(body, head.Bytes())
	return body
}

// fakeGo describes a program of three functions of 0x100 bytes: alpha, into
// which beta is inlined, at [0x50,0x60), and gamma into that, at [0x10,0x20);
// delta; and omega.
type fakeGo struct {
	magic        uint32 // default: Go 1.20
	textStart    uint64 // in the header, as before Go 1.26
	noModuledata bool
	gofuncWord   int // default 40
	parentPc     uint32
	inlineName   uint32 // offset of gamma's name, 0: the right one
}

func (g fakeGo) elf() fakeELF {
	if g.magic == 0 {
		g.magic = magic120
	}
	if g.gofuncWord == 0 {
		g.gofuncWord = mdGofunc
	}
	funcNames := []byte("\x00main.alpha\x00main.beta\x00main.gamma\x00main.delta[go.shape.int]\x00main.omega\x00")
	nameOff := func(s string) uint32 { return uint32(bytes.Index(funcNames, []byte("main."+s))) }
	cus := []byte{0, 0, 0, 0, 9, 0, 0, 0}
	files := []byte("alpha.go\x00inl.go\x00")
	// pc tables: (zigzag value delta, pc delta) ...
	pctab := []byte{0}
	pcfile := uint32(len(pctab))
	pctab = append(pctab, 2, 0x10, 2, 0x10, 1, 0xe0, 1, 0) // file 0, 1 in [0x10,0x20), 0
	pcln := uint32(len(pctab))
	pctab = append(pctab, 22, 0x10, 80, 0x10, 79, 0xe0, 1, 0) // line 10, 50, 10
	// Index 1 (gamma) in [0x10,0x20), 0 (beta) in [0x50,0x60), else -1.
	inl := uint32(len(pctab))
	pctab = append(pctab, 0, 0x10, 4, 0x10, 3, 0x30, 2, 0x10, 1, 0xa0, 1, 0)

	funcSize := uint32(44)
	if g.magic == magic118 {
		funcSize = 40
	}
	const nfunc = 3
	var functab, structs bytes.Buffer
	for i, name := range []string{"alpha", "delta", "omega"} {
		structOff := uint32(8*nfunc+8) + uint32(structs.Len())
		put(&functab, uint32(i*0x100), structOff)
		npcdata, nfuncdata := uint32(3), uint8(4)
		put(&structs, uint32(i*0x100), nameOff(name), uint32(0), uint32(0), uint32(0), pcfile, pcln, npcdata, uint32(0))
		if funcSize == 44 {
			put(&structs, uint32(5)) // startLine
		}
		put(&structs, []byte{0, 0, 0, nfuncdata})
		pcInl, fdInl := uint32(0), uint32(noFuncdata)
		if name == "alpha" {
			pcInl, fdInl = inl, 0
		}
		put(&structs, []uint32{0, 0, pcInl}, []uint32{noFuncdata, noFuncdata, noFuncdata, fdInl})
	}
	put(&functab, uint32(nfunc*0x100), uint32(0))

	pad := func(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }
	parts := [][]byte{pad(funcNames), pad(cus), pad(files), pad(pctab), pad(append(functab.Bytes(), structs.Bytes()...))}
	var tab bytes.Buffer
	put(&tab, g.magic, []byte{0, 0, 1, 8}, uint64(nfunc), uint64(2), g.textStart)
	offs := make([]uint64, len(parts))
	at := uint64(headerBytes)
	for i, p := range parts {
		offs[i] = at
		put(&tab, at)
		at += uint64(len(p))
	}
	for _, p := range parts {
		tab.Write(p)
	}
	gofunc := rodataAddr + uint64(tab.Len())
	name := g.inlineName
	if name == 0 {
		name = nameOff("gamma")
	}
	parent := g.parentPc
	if parent == 0 {
		parent = 0x50
	}
	put(&tab, uint32(0), nameOff("beta"), uint32(0x60), int32(30))
	put(&tab, uint32(0), name, parent, int32(40))

	var md [mdWords]uint64
	md[mdPcHeader] = rodataAddr
	for i, w := range []int{mdFuncnametab, mdCutab, mdFiletab, mdPctab, mdPclntable} {
		md[w] = rodataAddr + offs[i]
	}
	md[mdFtab], md[mdFtab+1] = md[mdPclntable], nfunc+1
	md[mdMinpc], md[mdText] = textAddr, textAddr
	md[g.gofuncWord] = gofunc
	var rw bytes.Buffer
	put(&rw, [5]uint64{1, 2, 3, rodataAddr, 5}) // a word that only looks like it
	if !g.noModuledata {
		put(&rw, md)
	}
	return fakeELF{text: make([]byte, 0x300), rodata: tab.Bytes(), rw: rw.Bytes(), pclntab: true}
}

// memFile is a file in memory.
type memFile struct{ *bytes.Reader }

func (memFile) Close() error { return nil }

func openBytes(b []byte) *file {
	return newFile(memFile{bytes.NewReader(b)}, identity{size: int64(len(b))})
}
