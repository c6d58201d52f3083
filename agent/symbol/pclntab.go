package symbol

import (
	"bytes"
	"debug/elf"
	"errors"
	"sort"
)

// pclntab reads the table with which the Go runtime names functions. Formats:
// runtime/symtab.go (pcHeader, moduledata, pcvalue), runtime/runtime2.go
// (_func) and cmd/link/internal/ld/pcln.go of Go 1.18 to 1.26. Older binaries
// are named by their ELF symbols.
type pclntab struct {
	im      *image
	addr    uint64 // of the header
	quantum uint64 // bytes per unit of code
	size    uint64 // of struct _func without its arrays
	nfunc   uint32
	text    uint64 // what offsets of functions refer to

	funcnames, cus, files, pcs, funcs table

	inline inlineTrees // zero where inlined frames cannot be read
	steps  int         // left for the lookup at hand
}

// table is a part of pclntab, within one segment of the file.
type table struct{ addr, off, size uint64 }

// Magic numbers at the start of the header, internal/abi.
const (
	magic118 = 0xfffffff0 // Go 1.18 and 1.19
	magic120 = 0xfffffff1 // since Go 1.20
)

// Limits. The largest programs have about a million functions.
const (
	maxFuncs      = 1 << 24
	maxSteps      = 1 << 19 // entries of pc tables read for one address
	maxPcdata     = 64
	maxInlined    = 64
	maxScan       = 512 << 20 // bytes searched for a header without a section of its own
	maxHeaders    = 8         // looked at closely there
	headerBytes   = 8 + 8*8
	inlinedBytes  = 16
	noFuncdata    = ^uint32(0)
	pcdataInlTree = 2 // internal/abi, PCDATA_InlTreeIndex
	funcdataInl   = 3 // FUNCDATA_InlTree
)

var errNoGo = errors.New("no Go function table")

// findPclntab finds and checks the table of a file, errNoGo if it has none.
func findPclntab(im *image) (*pclntab, error) {
	if s := im.section(".gopclntab", ".data.rel.ro.gopclntab"); s != nil {
		t, err := parseHeader(im, s.addr)
		if err != nil {
			return nil, err
		}
		if err := t.complete(); err != nil {
			return nil, err
		}
		return t, nil
	}
	// Some linkers put the table into .data.rel.ro.
	if len(im.sections) > 0 && im.section(".go.buildinfo", ".note.go.buildid") == nil {
		return nil, errNoGo
	}
	var found *pclntab
	tries := 0
	scanMagic(im, func(addr uint64) bool {
		if t, err := parseHeader(im, addr); err == nil {
			tries++
			if t.complete() == nil {
				found = t
			}
		}
		return found == nil && tries < maxHeaders
	})
	if found == nil {
		return nil, errNoGo
	}
	return found, nil
}

// scanMagic calls f with the addresses at which a header may begin.
func scanMagic(im *image, f func(addr uint64) bool) {
	left := uint64(maxScan)
	for _, s := range im.segments {
		size := min(s.size, left)
		left -= size
		for d := uint64(0); d < size; {
			b, err := im.from(int64(s.off + d))
			if err != nil {
				return
			}
			b = b[:min(uint64(len(b)), size-d)]
			for i := 0; i < len(b); {
				j := bytes.Index(b[i:], []byte{0xff, 0xff, 0xff, 0, 0})
				if j < 0 {
					break
				}
				// The five bytes follow the magic's lowest one. Headers are
				// aligned to 8, so none is cut by the end of a page.
				if at := s.vaddr + d + uint64(i+j) - 1; i+j > 0 && at%8 == 0 && !f(at) {
					return
				}
				i += j + 1
			}
			d += uint64(len(b))
		}
	}
}

// parseHeader checks everything that the header alone can tell.
func parseHeader(im *image, addr uint64) (*pclntab, error) {
	off, left, ok := im.fileOffset(addr)
	var h [headerBytes]byte
	if !ok || left < headerBytes || im.read(h[:], int64(off)) != nil {
		return nil, errNoGo
	}
	t := &pclntab{im: im, addr: addr, quantum: uint64(h[6])}
	switch le.Uint32(h[:]) {
	case magic118:
		t.size = 40
	case magic120:
		t.size = 44
	default:
		return nil, errNoGo
	}
	want := uint64(1)
	if im.machine == elf.EM_AARCH64 {
		want = 4
	}
	word := func(i int) uint64 { return le.Uint64(h[8+8*i:]) }
	if h[4] != 0 || h[5] != 0 || t.quantum != want || h[7] != 8 || word(0) == 0 || word(0) > maxFuncs {
		return nil, errNoGo
	}
	t.nfunc = uint32(word(0))
	// Five tables in this order, each up to the next, the last to the end.
	end := left
	for i, part := range []*table{&t.funcs, &t.pcs, &t.files, &t.cus, &t.funcnames} {
		start := word(7 - i)
		if start < headerBytes || start > end {
			return nil, errNoGo
		}
		*part = table{addr: addr + start, off: off + start, size: end - start}
		end = start
	}
	if (uint64(t.nfunc)+1)*8 > t.funcs.size {
		return nil, errNoGo
	}
	t.text = word(2) // not since Go 1.26, nor before relocation
	return t, nil
}

// complete finds what lies outside of the table.
func (t *pclntab) complete() error {
	md := findModuledata(t.im, t)
	if md != nil {
		t.text = md[mdText]
	} else if t.text == 0 {
		s := t.im.section(".text")
		if s == nil {
			return errNoGo
		}
		t.text = s.addr
	}
	if first, ok := t.entry(0); !ok || !t.im.executable(t.text+uint64(first.entryOff)) {
		return errNoGo
	}
	if md != nil && t.size == 44 {
		t.inline = findInlineTrees(t, md)
	}
	return nil
}

// entry is one function of the function table.
type entry struct{ entryOff, funcOff uint32 }

func (t *pclntab) entry(i uint32) (entry, bool) {
	var b [8]byte
	if t.im.read(b[:], int64(t.funcs.off)+8*int64(i)) != nil {
		return entry{}, false
	}
	return entry{le.Uint32(b[0:]), le.Uint32(b[4:])}, true
}

// function is one struct _func.
type function struct {
	entryOff, nameOff   uint32
	pcfile, pcln, cuOff uint32
	startLine           int
	npcdata, nfuncdata  uint32
	arrays              uint64 // file offset of pcdata, followed by funcdata
	endOff              uint32 // entryOff of the next function
}

// find returns the function that holds the address.
func (t *pclntab) find(addr uint64) (*function, bool) {
	if addr < t.text || addr-t.text >= 1<<32 {
		return nil, false
	}
	off := uint32(addr - t.text)
	ok := true
	// The last entry marks the end of the text.
	i := sort.Search(int(t.nfunc)+1, func(i int) bool {
		e, good := t.entry(uint32(i))
		ok = ok && good
		return e.entryOff > off
	})
	if !ok || i == 0 || i > int(t.nfunc) {
		return nil, false
	}
	return t.function(uint32(i - 1))
}

func (t *pclntab) function(i uint32) (*function, bool) {
	e, ok := t.entry(i)
	next, ok2 := t.entry(i + 1)
	if !ok || !ok2 || next.entryOff < e.entryOff || uint64(e.funcOff)+t.size > t.funcs.size {
		return nil, false
	}
	var b [44]byte
	off := t.funcs.off + uint64(e.funcOff)
	if t.im.read(b[:t.size], int64(off)) != nil || le.Uint32(b[0:]) != e.entryOff {
		return nil, false
	}
	f := &function{
		entryOff: e.entryOff, endOff: next.entryOff,
		nameOff: le.Uint32(b[4:]), pcfile: le.Uint32(b[20:]), pcln: le.Uint32(b[24:]),
		npcdata: le.Uint32(b[28:]), cuOff: le.Uint32(b[32:]),
		nfuncdata: uint32(b[t.size-1]), arrays: off + t.size,
	}
	if t.size == 44 {
		f.startLine = int(int32(le.Uint32(b[36:])))
	}
	return f, f.npcdata <= maxPcdata
}

func (t *pclntab) name(off uint32) (string, bool) {
	name, ok := t.im.stringAt(t.funcnames.off, t.funcnames.size, uint64(off), maxName)
	return name, ok && name != ""
}
