package symbol

import (
	"debug/elf"
	"encoding/binary"
)

// The runtime's moduledata is the only place that tells where the text that
// pclntab's offsets refer to begins, and where go:func.* lies, to which the
// offsets of inline trees refer. A stripped binary has no symbol for it, so it
// is found by its first word, the address of pclntab, and proven by the words
// after it. In position-independent binaries those words are filled in by
// relative relocations.

// Words of moduledata that have not moved from Go 1.20 to 1.26: before it is
// runtime/symtab.go's list of slices.
const (
	mdPcHeader    = 0
	mdFuncnametab = 1 // slices take three words
	mdCutab       = 4
	mdFiletab     = 7
	mdPctab       = 10
	mdPclntable   = 13
	mdFtab        = 16
	mdMinpc       = 20
	mdText        = 22
	mdGofunc      = 40 // Go 1.20 to 1.26; tried first
	mdWords       = 52
)

// Limits of the search.
const (
	maxDataScan  = 256 << 20 // bytes of writable segments
	maxRelocs    = 4 << 20
	maxCandidate = 16
)

type moduledata [mdWords]uint64

// findModuledata returns the moduledata of t, nil if there is none.
func findModuledata(im *image, t *pclntab) *moduledata {
	var candidates []uint64
	add := func(addr uint64) bool {
		candidates = append(candidates, addr)
		return len(candidates) < maxCandidate
	}
	if s := im.section(".go.module"); s != nil { // since Go 1.26
		add(s.addr)
	}
	im.relativeRelocs(func(at, value uint64) bool {
		return value != t.addr || add(at)
	})
	scanWords(im, t.addr, add)
	if len(candidates) == 0 {
		return nil
	}

	mds := make([]moduledata, len(candidates))
	for i, addr := range candidates {
		var b [8 * mdWords]byte
		if im.readVirtual(b[:], addr) == nil {
			for j := range mds[i] {
				mds[i][j] = le.Uint64(b[8*j:])
			}
		}
	}
	im.relativeRelocs(func(at, value uint64) bool {
		for i, addr := range candidates {
			if d := at - addr; d < 8*mdWords && d%8 == 0 {
				mds[i][d/8] = value
			}
		}
		return true
	})
	for i := range mds {
		if mds[i].describes(im, t) {
			return &mds[i]
		}
	}
	return nil
}

func (m *moduledata) describes(im *image, t *pclntab) bool {
	return m[mdPcHeader] == t.addr &&
		m[mdFuncnametab] == t.funcnames.addr &&
		m[mdCutab] == t.cus.addr &&
		m[mdFiletab] == t.files.addr &&
		m[mdPctab] == t.pcs.addr &&
		m[mdPclntable] == t.funcs.addr &&
		m[mdFtab] == t.funcs.addr && m[mdFtab+1] == uint64(t.nfunc)+1 &&
		im.executable(m[mdText]) && im.executable(m[mdMinpc])
}

// scanWords calls f with the address of each aligned word of the writable
// segments that equals want, until f returns false.
func scanWords(im *image, want uint64, f func(addr uint64) bool) {
	left := uint64(maxDataScan)
	for _, s := range im.segments {
		if s.flags&elf.PF_W == 0 {
			continue
		}
		// Segments begin at any address congruent to their offset.
		skip := -s.vaddr & 7
		size := min(s.size, left)
		left -= size
		for d := skip; d+8 <= size; {
			b, err := im.from(int64(s.off + d))
			if err != nil {
				return
			}
			if len(b) < 8 { // a word across pages
				var w [8]byte
				if im.read(w[:], int64(s.off+d)) != nil {
					return
				}
				b = w[:]
			}
			i := 0
			for ; i+8 <= len(b) && d+uint64(i)+8 <= size; i += 8 {
				if binary.LittleEndian.Uint64(b[i:]) == want && !f(s.vaddr+d+uint64(i)) {
					return
				}
			}
			d += uint64(i)
		}
	}
}

// relativeRelocs calls f with the place and the value of each relative
// relocation with an addend of its own (RELA), until f returns false. Those of
// DT_RELR need no call: their value is in place.
func (im *image) relativeRelocs(f func(at, value uint64) bool) {
	addr, size := im.relaTable()
	off, left, ok := im.fileOffset(addr)
	if !ok {
		return
	}
	n := min(min(size, left)/24, maxRelocs)
	relative := uint32(elf.R_X86_64_RELATIVE)
	if im.machine == elf.EM_AARCH64 {
		relative = uint32(elf.R_AARCH64_RELATIVE)
	}
	var b [24]byte
	for i := range n {
		if im.read(b[:], int64(off+24*i)) != nil {
			return
		}
		if le.Uint32(b[8:]) == relative && !f(le.Uint64(b[0:]), le.Uint64(b[16:])) {
			return
		}
	}
}

// relaTable finds DT_RELA, which stripping keeps.
func (im *image) relaTable() (addr, size uint64) {
	var b [16]byte
	for i := range min(im.dynamic.size/16, 1024) {
		if im.read(b[:], int64(im.dynamic.off+16*i)) != nil {
			break
		}
		switch value := le.Uint64(b[8:]); elf.DynTag(le.Uint64(b[0:])) {
		case elf.DT_NULL:
			return addr, size
		case elf.DT_RELA:
			addr = value
		case elf.DT_RELASZ:
			size = value
		}
	}
	return addr, size
}
