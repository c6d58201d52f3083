package symbol

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// errStale means that a path holds another file than the one mapped.
var errStale = errors.New("the path now holds another file")

// openMapped opens the file behind an area of process pid. In order: the path
// within the process's root, if it still is the mapped file; the mapping
// itself, which also reaches deleted files but needs CAP_CHECKPOINT_RESTORE;
// the process's executable, if that is the mapped file.
func openMapped(procRoot string, pid uint32, a area) (*os.File, identity, error) {
	proc := filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10))
	err := errors.New("file is deleted")
	if !a.deleted {
		var fd int
		if fd, err = openInRoot(filepath.Join(proc, "root"), a.path); err == nil {
			f, id, e := readable(fd, a.path)
			if e == nil && id.matches(a) {
				return f, id, nil
			}
			if e == nil {
				f.Close()
				e = errStale
			}
			err = e
		}
	}
	span := strconv.FormatUint(a.start, 16) + "-" + strconv.FormatUint(a.end, 16)
	for _, link := range []string{filepath.Join(proc, "map_files", span), filepath.Join(proc, "exe")} {
		fd, e := unix.Open(link, unix.O_PATH|unix.O_CLOEXEC, 0)
		if e != nil {
			continue
		}
		f, id, e := readable(fd, a.path)
		if e == nil && (id.matches(a) || filepath.Base(link) == span) {
			return f, id, nil
		}
		if e == nil {
			f.Close()
		}
	}
	return nil, identity{}, fmt.Errorf("open %s of process %d: %w", a.path, pid, err)
}

// openInRoot opens path as the process sees it, for reference only: nothing is
// read, and opening a device or pipe has no effect.
func openInRoot(root, path string) (int, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range 3 { // EAGAIN: a rename went on in parallel
		fd, e := unix.Openat2(dir, path, &how)
		if e == nil {
			return fd, nil
		}
		if err = e; !errors.Is(e, unix.EAGAIN) {
			break
		}
	}
	return -1, err
}

// readable makes a file opened for reference readable if it is a regular one.
// It closes fd.
func readable(fd int, name string) (*os.File, identity, error) {
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, identity{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, identity{}, errors.New("not a regular file")
	}
	// The link leads to the very file that was looked at.
	r, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, identity{}, err
	}
	return os.NewFile(uintptr(r), name), identity{
		dev:   uint64(unix.Major(uint64(st.Dev)))<<32 | uint64(unix.Minor(uint64(st.Dev))),
		inode: st.Ino,
		mtime: time.Unix(st.Mtim.Sec, st.Mtim.Nsec),
		size:  st.Size,
	}, nil
}

// matches compares inodes only: overlayfs and btrfs report other devices by
// stat than in maps.
func (id identity) matches(a area) bool { return id.inode == a.inode }
