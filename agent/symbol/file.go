package symbol

import (
	"io"
	"time"
)

// identity tells one version of a file from another.
type identity struct {
	dev, inode uint64
	mtime      time.Time
	size       int64
}

// file is an opened ELF file with its tables, each read when first needed.
type file struct {
	id     identity
	f      source
	im     *image   // nil: not an ELF file that can be read
	golang *pclntab // nil: none
	syms   *symtab
	lines  map[uint64]found // by virtual address
	kept   int              // bytes that lines takes, about
	used   uint64
	weight int64
	closed bool
}

// source is what a file is read from.
type source interface {
	io.ReaderAt
	io.Closer
}

type found struct {
	lines []Line
	loss  Loss
}

// maxKept bounds the answers kept per file in bytes; then they are forgotten
// at once.
const maxKept = 8 << 20

// fixedWeight is counted for each file's pages and answers, in bytes.
const fixedWeight = maxPages*pageBytes + maxKept/8

func newFile(f source, id identity) *file {
	file := &file{id: id, f: f, lines: map[uint64]found{}, weight: fixedWeight}
	im, err := openImage(f, id.size)
	if err != nil {
		return file
	}
	file.im = im
	file.golang, _ = findPclntab(im)
	return file
}

// lookup names a virtual address: by Go's table, else by ELF symbols, which
// also name what cgo links into a Go program.
func (f *file) lookup(addr uint64) found {
	if got, ok := f.lines[addr]; ok {
		return got
	}
	got := f.find(addr)
	if f.kept >= maxKept {
		clear(f.lines)
		f.kept = 0
	}
	f.lines[addr] = got
	f.kept += 64
	for _, l := range got.lines {
		f.kept += 96 + len(l.Function) + len(l.Linkage) + len(l.File)
	}
	return got
}

func (f *file) find(addr uint64) found {
	if f.golang != nil {
		if lines, whole, ok := f.golang.lines(addr); ok {
			if !whole {
				return found{lines, NoInlining}
			}
			return found{lines, Named}
		}
	}
	if f.syms == nil {
		f.syms = readSymtab(f.im)
		f.weight += f.syms.bytes()
	}
	if name, ok := f.syms.lookup(addr); ok {
		return found{[]Line{elfLine(name)}, Named}
	}
	return found{nil, NoSymbol}
}

func (f *file) close() error {
	f.closed = true
	return f.f.Close()
}

// fileCache holds files by identity, the least recently used ones closed
// beyond its bounds.
type fileCache struct {
	maxFiles int
	maxBytes int64
	tick     uint64
	files    map[identity]*file
}

func newFileCache(maxFiles int, maxBytes int64) *fileCache {
	return &fileCache{maxFiles: maxFiles, maxBytes: maxBytes, files: map[identity]*file{}}
}

// add takes ownership of f and returns the cached file of its identity.
func (c *fileCache) add(f source, id identity) *file {
	got, ok := c.files[id]
	if ok {
		f.Close()
	} else {
		got = newFile(f, id)
		c.files[id] = got
	}
	c.touch(got)
	c.trim(got)
	return got
}

// find returns a cached file by device and inode alone, for processes that
// can no longer be asked; nil if there is none.
func (c *fileCache) find(dev, inode uint64) *file {
	var newest *file
	for id, f := range c.files {
		if id.dev == dev && id.inode == inode && (newest == nil || id.mtime.After(newest.id.mtime)) {
			newest = f
		}
	}
	return newest
}

func (c *fileCache) touch(f *file) {
	c.tick++
	f.used = c.tick
}

// trim closes files until the bounds hold, except the one in use.
func (c *fileCache) trim(inUse *file) {
	for {
		var total int64
		var oldest *file
		for _, f := range c.files {
			total += f.weight
			if f != inUse && (oldest == nil || f.used < oldest.used) {
				oldest = f
			}
		}
		if oldest == nil || len(c.files) <= c.maxFiles && total <= c.maxBytes {
			return
		}
		delete(c.files, oldest.id)
		oldest.close()
	}
}

func (c *fileCache) close() error {
	var err error
	for id, f := range c.files {
		if e := f.close(); err == nil {
			err = e
		}
		delete(c.files, id)
	}
	return err
}
