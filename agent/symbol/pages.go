package symbol

import (
	"fmt"
	"io"
)

// A pages gives random access to a file through a few cached pages. Tables of
// any size can so be searched in little memory, and a file that shrinks under
// the reader is an error (a memory map of it would be a fault).
type pages struct {
	r    io.ReaderAt
	size int64
	held map[int64][]byte
}

const (
	pageBytes = 16 << 10
	maxPages  = 64 // held per file, 1 MiB
)

func newPages(r io.ReaderAt, size int64) *pages {
	return &pages{r: r, size: size, held: map[int64][]byte{}}
}

// from returns the bytes at off up to the end of their page, at least one.
// They are valid until the next call.
func (p *pages) from(off int64) ([]byte, error) {
	if off < 0 || off >= p.size {
		return nil, fmt.Errorf("offset %#x lies outside the file of %d bytes: %w", off, p.size, io.ErrUnexpectedEOF)
	}
	index := off / pageBytes
	page, ok := p.held[index]
	if !ok {
		page = make([]byte, min(pageBytes, p.size-index*pageBytes))
		if n, err := p.r.ReadAt(page, index*pageBytes); n < len(page) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(p.held) >= maxPages {
			clear(p.held)
		}
		p.held[index] = page
	}
	return page[off%pageBytes:], nil
}

// read fills b from off.
func (p *pages) read(b []byte, off int64) error {
	for len(b) > 0 {
		src, err := p.from(off)
		if err != nil {
			return err
		}
		n := copy(b, src)
		b, off = b[n:], off+int64(n)
	}
	return nil
}
