package symbol

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of one ELF file, far above what linkers write.
const (
	maxSegments = 256
	maxSections = 1 << 14
	maxNotes    = 64 << 10 // bytes of one note segment
	maxName     = 8192     // bytes of one symbol's name
)

var le = binary.LittleEndian

// image is a 64-bit little-endian ELF file of amd64 or arm64. debug/elf is
// not used to read it since that package trusts its input.
type image struct {
	*pages
	machine  elf.Machine
	segments []segment // PT_LOAD, in file order
	dynamic  segment   // PT_DYNAMIC, if any
	sections []section // none where they are stripped or broken
	buildID  string
}

type segment struct {
	vaddr, off, size uint64 // size in the file
	flags            elf.ProgFlag
}

type section struct {
	name            string
	typ             elf.SectionType
	flags           elf.SectionFlag
	addr, off, size uint64
	entsize         uint64
	link            uint32
	nameOff         uint32
}

var errFormat = errors.New("not a 64-bit little-endian ELF file of amd64 or arm64")

// openImage reads the headers of the file of the given size.
func openImage(r io.ReaderAt, size int64) (*image, error) {
	im := &image{pages: newPages(r, size)}
	var h [64]byte
	if err := im.read(h[:], 0); err != nil {
		return nil, err
	}
	im.machine = elf.Machine(le.Uint16(h[18:]))
	if string(h[:4]) != elf.ELFMAG || elf.Class(h[4]) != elf.ELFCLASS64 || elf.Data(h[5]) != elf.ELFDATA2LSB ||
		im.machine != elf.EM_X86_64 && im.machine != elf.EM_AARCH64 {
		return nil, errFormat
	}
	if err := im.readSegments(le.Uint64(h[32:]), int(le.Uint16(h[54:])), int(le.Uint16(h[56:]))); err != nil {
		return nil, err
	}
	// Sections may be stripped; what they say is only used where it holds.
	if err := im.readSections(le.Uint64(h[40:]), int(le.Uint16(h[58:])), int(le.Uint16(h[60:])), int(le.Uint16(h[62:]))); err != nil {
		im.sections = nil
	}
	return im, nil
}

func (im *image) readSegments(off uint64, entsize, n int) error {
	if entsize != 56 || n == 0 || n > maxSegments {
		return fmt.Errorf("%d program headers of %d bytes: %w", n, entsize, errFormat)
	}
	var b [56]byte
	for i := range n {
		if err := im.read(b[:], int64(off)+int64(i)*56); err != nil {
			return fmt.Errorf("program header %d: %w", i, err)
		}
		s := segment{
			flags: elf.ProgFlag(le.Uint32(b[4:])),
			off:   le.Uint64(b[8:]), vaddr: le.Uint64(b[16:]), size: le.Uint64(b[32:]),
		}
		if s.off > uint64(im.size) || s.vaddr+s.size < s.vaddr {
			continue
		}
		s.size = min(s.size, uint64(im.size)-s.off)
		switch elf.ProgType(le.Uint32(b[0:])) {
		case elf.PT_LOAD:
			im.segments = append(im.segments, s)
		case elf.PT_DYNAMIC:
			im.dynamic = s
		case elf.PT_NOTE:
			if im.buildID == "" {
				im.buildID = im.findBuildID(s)
			}
		}
	}
	return nil
}

// findBuildID looks for the note (name "GNU", type 3) in a note segment.
func (im *image) findBuildID(s segment) string {
	b := make([]byte, min(s.size, maxNotes))
	if im.read(b, int64(s.off)) != nil {
		return ""
	}
	for len(b) >= 12 {
		name, desc, typ := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:])), le.Uint32(b[8:])
		descOff := 12 + (name+3)&^3
		next := descOff + (desc+3)&^3
		if descOff+desc > uint64(len(b)) {
			return ""
		}
		if typ == 3 && name == 4 && string(b[12:16]) == "GNU\x00" && desc <= 64 {
			return hex.EncodeToString(b[descOff : descOff+desc])
		}
		b = b[min(next, uint64(len(b))):]
	}
	return ""
}

func (im *image) readSections(off uint64, entsize, n, names int) error {
	if off == 0 || n == 0 || entsize != 64 || n > maxSections || names >= n {
		return errFormat
	}
	var b [64]byte
	im.sections = make([]section, n)
	for i := range im.sections {
		if err := im.read(b[:], int64(off)+int64(i)*64); err != nil {
			return err
		}
		s := &im.sections[i]
		*s = section{
			nameOff: le.Uint32(b[0:]),
			typ:     elf.SectionType(le.Uint32(b[4:])),
			flags:   elf.SectionFlag(le.Uint64(b[8:])),
			addr:    le.Uint64(b[16:]), off: le.Uint64(b[24:]), size: le.Uint64(b[32:]),
			link: le.Uint32(b[40:]), entsize: le.Uint64(b[56:]),
		}
		if s.typ == elf.SHT_NOBITS {
			continue
		}
		if s.off > uint64(im.size) {
			s.off, s.size = 0, 0
		}
		s.size = min(s.size, uint64(im.size)-s.off)
	}
	table := im.sections[names]
	for i := range im.sections {
		im.sections[i].name, _ = im.stringAt(table.off, table.size, uint64(im.sections[i].nameOff), 256)
	}
	return nil
}

// section returns the first section of one of the names, nil if there is none.
func (im *image) section(names ...string) *section {
	for _, name := range names {
		for i := range im.sections {
			if im.sections[i].name == name {
				return &im.sections[i]
			}
		}
	}
	return nil
}

// stringAt returns the C string at index within the table at off of size
// bytes, of at most limit bytes. It fails where the string has no end.
func (im *image) stringAt(off, size, index, limit uint64) (string, bool) {
	if index >= size {
		return "", false
	}
	left := min(size-index, limit)
	off += index
	var sb strings.Builder
	for left > 0 {
		b, err := im.from(int64(off))
		if err != nil {
			return "", false
		}
		b = b[:min(left, uint64(len(b)))]
		if i := bytes.IndexByte(b, 0); i >= 0 {
			sb.Write(b[:i])
			return sb.String(), true
		}
		sb.Write(b)
		left -= uint64(len(b))
		off += uint64(len(b))
	}
	return "", false
}

// fileOffset translates a virtual address that the file holds; left is how
// many bytes of its segment follow.
func (im *image) fileOffset(vaddr uint64) (off, left uint64, ok bool) {
	for _, s := range im.segments {
		if vaddr >= s.vaddr && vaddr-s.vaddr < s.size {
			d := vaddr - s.vaddr
			return s.off + d, s.size - d, true
		}
	}
	return 0, 0, false
}

// vaddr translates an offset of the file that is mapped executable.
func (im *image) vaddr(off uint64) (uint64, bool) {
	for _, s := range im.segments {
		if s.flags&elf.PF_X != 0 && off >= s.off && off-s.off < s.size {
			return s.vaddr + (off - s.off), true
		}
	}
	return 0, false
}

// readVirtual fills b from a virtual address; b must lie in one segment.
func (im *image) readVirtual(b []byte, vaddr uint64) error {
	off, left, ok := im.fileOffset(vaddr)
	if !ok || left < uint64(len(b)) {
		return fmt.Errorf("address %#x is not in the file: %w", vaddr, io.ErrUnexpectedEOF)
	}
	return im.read(b, int64(off))
}

func (im *image) executable(vaddr uint64) bool {
	for _, s := range im.segments {
		if s.flags&elf.PF_X != 0 && vaddr >= s.vaddr && vaddr-s.vaddr < s.size {
			return true
		}
	}
	return false
}
