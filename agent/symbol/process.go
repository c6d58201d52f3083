package symbol

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"
)

// Process names addresses of one process by the mappings it had when
// Symbolizer.Process was called. Safe for concurrent use.
type Process struct {
	s    *Symbolizer
	pid  uint32
	maps []mapped
	gone bool

	used   uint64 // Symbolizer.tick when last asked for
	weight int    // memory of maps in bytes, about
}

type mapped struct {
	area
	file *file
	held *file // open since an earlier reading, for when the file cannot be reached
	loss Loss  // why there is no file
}

func newProcess(s *Symbolizer, pid uint32, areas []area) *Process {
	p := &Process{s: s, pid: pid, maps: make([]mapped, len(areas))}
	for i, a := range areas {
		p.maps[i].area = a
		p.weight += 128 + len(a.path)
	}
	return p
}

// Gone reports that the process had exited, so that older mappings are used.
func (p *Process) Gone() bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.gone
}

// Lookup names the function at addr, which must lie within the instruction
// that is meant: for a caller's frame that is the return address - 1.
func (p *Process) Lookup(addr uint64) Location {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	loc := p.lookup(addr)
	p.s.losses[loc.Loss]++
	return loc
}

func (p *Process) lookup(addr uint64) Location {
	i := sort.Search(len(p.maps), func(i int) bool { return p.maps[i].end > addr })
	if i == len(p.maps) || addr < p.maps[i].start {
		return unnamed(Mapping{File: "[unmapped]"}, addr, UnknownMapping)
	}
	m := &p.maps[i]
	off := addr - m.start
	switch {
	case m.path == "[vdso]" || m.path == "[vsyscall]":
		return Location{
			Mapping: Mapping{File: m.path},
			Address: off,
			Lines:   []Line{{Function: m.path, Linkage: m.path}},
		}
	case m.inode == 0 || !strings.HasPrefix(m.path, "/"):
		return unnamed(Mapping{File: "[anon]"}, off, AnonymousMemory)
	}

	off += m.offset
	f := p.open(m)
	mapping := Mapping{File: Printable(m.path), Dev: m.dev, Inode: m.inode}
	if f == nil || f.im == nil {
		return unnamed(mapping, off, max(m.loss, UnreadableFile))
	}
	mapping.BuildID = f.im.buildID
	vaddr, ok := f.im.vaddr(off)
	if !ok {
		return unnamed(mapping, off, NoSymbol)
	}
	got := f.lookup(vaddr)
	p.s.files.touch(f)
	p.s.files.trim(f)
	if len(got.lines) == 0 {
		return unnamed(mapping, vaddr, got.loss)
	}
	return Location{Mapping: mapping, Address: vaddr, Lines: got.lines, Loss: got.loss}
}

// open returns the file of m, nil if it cannot be had.
func (p *Process) open(m *mapped) *file {
	if m.file != nil && !m.file.closed {
		return m.file
	}
	if m.loss != Named || p.s.closed {
		return nil
	}
	f, id, err := openMapped(p.s.opts.ProcRoot, p.pid, m.area)
	if err == nil {
		m.file = p.s.files.add(f, id)
		return m.file
	}
	if m.held != nil && !m.held.closed {
		m.file = m.held
		return m.file
	}
	if m.file = p.s.files.find(m.dev, m.inode); m.file != nil {
		return m.file
	}
	m.loss = UnreadableFile
	if errors.Is(err, errStale) {
		m.loss = StaleFile
	}
	return nil
}

// inherit keeps hold of the open files of the same mappings that the process had
// before; last may be nil. They are used once the process can no longer be asked:
// until then a file may have been written anew in its place.
func (p *Process) inherit(last *Process) {
	if last == nil {
		return
	}
	known := map[area]*file{}
	for _, m := range last.maps {
		if f := cmp.Or(m.file, m.held); f != nil && !f.closed {
			known[m.area] = f
		}
	}
	for i := range p.maps {
		p.maps[i].held = known[p.maps[i].area]
	}
}

// hold opens the files of a process's mappings, as many as half of those that may
// be open at all.
func (p *Process) hold() {
	left := p.s.opts.MaxFiles / 2
	for i := range p.maps {
		m := &p.maps[i]
		switch {
		case m.inode == 0 || !strings.HasPrefix(m.path, "/"):
		case m.held != nil:
			p.s.files.touch(m.held)
		case left > 0:
			left--
			m.held = p.open(m)
			m.file, m.loss = nil, Named // looked for again when it is needed
		}
	}
}

// unnamed makes the location of an address without a name.
func unnamed(m Mapping, addr uint64, loss Loss) Location {
	name := fmt.Sprintf("[unknown] %s+%#x", m.File, addr)
	return Location{Mapping: m, Address: addr, Lines: []Line{{Function: name, Linkage: name}}, Loss: loss}
}
