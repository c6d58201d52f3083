// Package newc writes initramfs archives: cpio in the "newc" format that the
// kernel unpacks (Documentation/driver-api/early-userspace/buffer-format.rst).
package newc

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Writer writes one archive. Everything belongs to uid and gid 0 and has mtime
// 0, so the same input gives the same bytes. Parent folders are added by
// themselves. Not for concurrent use.
type Writer struct {
	w       io.Writer
	ino     uint32
	entries map[string]bool // paths in the archive
	err     error           // the first error; later calls return it
}

// NewWriter starts an archive; Close ends it.
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, entries: map[string]bool{}}
}

// Types of file in a cpio mode, from stat(2).
const (
	typeDir    = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
	typeDevice = 0o020000 // character device
)

// Dir adds a folder with mode 0755, once.
func (w *Writer) Dir(name string) error {
	return w.entry(name, typeDir|0o755, 0, 0, nil)
}

// File adds a regular file with the given content.
func (w *Writer) File(name string, perm fs.FileMode, data []byte) error {
	return w.entry(name, typeFile|uint32(perm.Perm()), 0, int64(len(data)), strings.NewReader(string(data)))
}

// Link adds a symbolic link.
func (w *Writer) Link(name, target string) error {
	return w.entry(name, typeLink|0o777, 0, int64(len(target)), strings.NewReader(target))
}

// Device adds a character device node.
func (w *Writer) Device(name string, perm fs.FileMode, major, minor uint32) error {
	return w.entry(name, typeDevice|uint32(perm.Perm()), major<<16|minor, 0, nil)
}

// Copy adds what lies at host under name: a file with its permissions, a
// folder with all below it, a symbolic link below a folder as a link. The host
// path itself may be a link.
func (w *Writer) Copy(name, host string) error {
	info, err := os.Stat(host)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return w.copyFile(name, host, info)
	}
	return filepath.WalkDir(host, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(host, p)
		if err != nil {
			return err
		}
		to := path.Join(name, filepath.ToSlash(rel))
		info, err := d.Info()
		switch {
		case err != nil:
			return err
		case p == host || d.IsDir():
			return w.Dir(to)
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return w.Link(to, target)
		}
		return w.copyFile(to, p, info)
	})
}

func (w *Writer) copyFile(name, host string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is neither a file nor a folder", host)
	}
	f, err := os.Open(host)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.entry(name, typeFile|uint32(info.Mode().Perm()), 0, info.Size(), f)
}

// Close ends the archive. It does not close the underlying writer.
func (w *Writer) Close() error {
	w.record("TRAILER!!!", 0, 0, 0, nil)
	return w.err
}

// entry adds one file with its parents. A path twice is an error, except for folders.
func (w *Writer) entry(name string, mode, rdev uint32, size int64, data io.Reader) error {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	switch {
	case w.err != nil || name == "":
		return w.err
	case size >= 1<<32:
		return w.fail(fmt.Errorf("%s: %d bytes are too many for cpio", name, size))
	case w.entries[name] && mode&0o170000 == typeDir:
		return nil
	case w.entries[name]:
		return w.fail(fmt.Errorf("%s is twice in the archive", name))
	}
	if parent := path.Dir(name); parent != "." {
		if err := w.Dir(parent); err != nil {
			return err
		}
	}
	w.entries[name] = true
	w.record(name, mode, rdev, size, data)
	return w.err
}

// record writes header, name and data, each padded to four bytes.
func (w *Writer) record(name string, mode, rdev uint32, size int64, data io.Reader) {
	if w.err != nil {
		return
	}
	w.ino++
	links := 1
	if mode&0o170000 == typeDir {
		links = 2
	}
	// Magic, ino, mode, uid, gid, links, mtime, size, dev, rdev, length of name, checksum.
	head := fmt.Sprintf("070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s\x00",
		w.ino, mode, 0, 0, links, 0, size, 0, 0, rdev>>16, rdev&0xffff, len(name)+1, 0, name)
	if _, err := io.WriteString(w.w, head+pad(int64(len(head)))); err != nil {
		w.fail(err)
		return
	}
	if data == nil {
		return
	}
	n, err := io.Copy(w.w, data)
	if err == nil && n != size {
		err = fmt.Errorf("%s: %d bytes, expected %d: it changed while it was read", name, n, size)
	}
	if err == nil {
		_, err = io.WriteString(w.w, pad(size))
	}
	if err != nil {
		w.fail(err)
	}
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = fmt.Errorf("write initramfs: %w", err)
	}
	return w.err
}

func pad(n int64) string { return "\x00\x00\x00"[:(4-n%4)%4] }
