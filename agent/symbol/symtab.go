package symbol

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
	"strings"
)

// maxSymbols bounds one file's function symbols: 24 MiB of memory. A browser
// has about half as many; more are cut off, and the file's later addresses
// then have no symbol.
const maxSymbols = 1 << 20

// maxEntries bounds the symbols of all kinds looked at.
const maxEntries = 1 << 23

// symtab holds a file's function symbols in ascending order of address.
type symtab struct {
	im     *image
	tables []section // string tables
	syms   []sym
	seen   int // entries looked at
}

type sym struct {
	addr  uint64
	size  uint32 // 0: unknown, reaches to the next symbol
	name  uint32 // offset in the string table
	table uint8  // index of the string table
	rank  uint8  // preference among symbols at one address, low first
}

// readSymtab gathers functions from .symtab and .dynsym. Of names for one
// address it keeps one, whatever the order in the file: typed before untyped,
// sized before unsized, global or weak before local, fewer leading
// underscores, shorter, then by text: "pread", not "__libc_pread".
func readSymtab(im *image) *symtab {
	t := &symtab{im: im}
	for _, typ := range []elf.SectionType{elf.SHT_SYMTAB, elf.SHT_DYNSYM} {
		for _, s := range im.sections {
			if s.typ == typ && s.entsize == 24 && int(s.link) < len(im.sections) && len(t.tables) < 8 {
				t.tables = append(t.tables, im.sections[s.link])
				t.gather(s)
			}
		}
	}
	slices.SortStableFunc(t.syms, func(a, b sym) int {
		return cmp.Or(cmp.Compare(a.addr, b.addr), cmp.Compare(a.rank, b.rank))
	})
	t.keepOnePerAddress()
	return t
}

func (t *symtab) gather(s section) {
	var b [24]byte
	for i := uint64(1); i < s.size/24 && len(t.syms) < maxSymbols && t.seen < maxEntries; i++ {
		t.seen++
		if t.im.read(b[:], int64(s.off+i*24)) != nil {
			return
		}
		info, shndx := b[4], elf.SectionIndex(le.Uint16(b[6:]))
		addr, size := le.Uint64(b[8:]), le.Uint64(b[16:])
		if shndx == elf.SHN_UNDEF || shndx >= elf.SHN_LORESERVE || le.Uint32(b[0:]) == 0 || !t.im.executable(addr) {
			continue
		}
		rank := uint8(0)
		switch elf.ST_TYPE(info) {
		case elf.STT_FUNC, elf.STT_GNU_IFUNC:
		case elf.STT_NOTYPE: // labels of assembly
			rank += 4
		default:
			continue
		}
		if size == 0 {
			rank += 2
		}
		if elf.ST_BIND(info) == elf.STB_LOCAL {
			rank++
		}
		t.syms = append(t.syms, sym{
			addr: addr, size: uint32(min(size, 1<<32-1)),
			name: le.Uint32(b[0:]), table: uint8(len(t.tables) - 1), rank: rank,
		})
	}
}

func (t *symtab) keepOnePerAddress() {
	kept := t.syms[:0]
	covered := uint64(0) // by sized functions
	for i := 0; i < len(t.syms); {
		best, bestName := t.syms[i], ""
		n := 1
		for i+n < len(t.syms) && t.syms[i+n].addr == best.addr {
			s := t.syms[i+n]
			if s.rank == t.syms[i].rank && n < 16 {
				if bestName == "" {
					bestName = t.name(best)
				}
				if name := t.name(s); plainer(name, bestName) {
					best, bestName = s, name
				}
			}
			n++
		}
		i += n
		if best.size > 0 {
			covered = max(covered, best.addr+uint64(best.size))
		} else if best.addr < covered || strings.HasPrefix(t.name(best), "$") {
			continue // a label within a function, a mark of arm64 ($x, $d)
		}
		kept = append(kept, best)
	}
	t.syms = slices.Clip(kept)
}

func plainer(a, b string) bool {
	underscores := func(s string) int { return len(s) - len(strings.TrimLeft(s, "_")) }
	if ua, ub := underscores(a), underscores(b); ua != ub {
		return ua < ub
	}
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return a < b
}

func (t *symtab) name(s sym) string {
	table := t.tables[s.table]
	name, _ := t.im.stringAt(table.off, table.size, uint64(s.name), maxName)
	name, _, _ = strings.Cut(name, "@") // symbol version
	return name
}

// lookup returns the name of the function that holds addr. Functions may lie
// within others (assembly, cold parts): the innermost one with a size wins,
// then the nearest one of unknown size.
func (t *symtab) lookup(addr uint64) (string, bool) {
	const maxNested = 16
	i := sort.Search(len(t.syms), func(i int) bool { return t.syms[i].addr > addr }) - 1
	found := -1
	for n := 0; i >= 0 && n < maxNested; i, n = i-1, n+1 {
		if s := t.syms[i]; addr-s.addr < uint64(s.size) {
			found = i
			break
		} else if s.size == 0 && n == 0 {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	name := t.name(t.syms[found])
	return name, name != ""
}

// bytes is the memory the table takes.
func (t *symtab) bytes() int64 { return int64(cap(t.syms)) * 24 }
