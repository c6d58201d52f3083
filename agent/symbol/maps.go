package symbol

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A line of /proc/PID/maps, proc_pid_maps(5):
//
//	7f1c2a400000-7f1c2a428000 r-xp 00026000 fd:01 1835022   /usr/lib/libc.so.6
//
// A newline within a path is written as \012; the path of an unlinked file
// ends in " (deleted)".

// Limits of one maps file. A process may hold vm.max_map_count areas (65530 by
// default, and up to 1048576 in practice); only those that are or were executable are kept.
const (
	maxMapLine  = 8192
	maxMapLines = 1 << 20
	maxAreas    = 1 << 14
)

// area is one executable mapping of a process.
type area struct {
	start, end uint64 // addresses, end excluded
	offset     uint64 // into the file
	dev, inode uint64 // as in maps; inode 0: no file
	path       string // unescaped, "" for anonymous memory
	deleted    bool   // path no longer names the file
}

var errTooManyMappings = errors.New("too many mappings")

// parseMaps returns the executable areas in ascending order.
func parseMaps(r io.Reader) ([]area, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 4096), maxMapLine)
	var areas []area
	for n := 1; sc.Scan(); n++ {
		if n > maxMapLines {
			return nil, errTooManyMappings
		}
		a, exec, err := parseMapLine(sc.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if !exec {
			continue
		}
		if len(areas) > 0 {
			// The file is read in pieces while the process runs, so a mapping
			// that grew in between may reach back into the line before.
			if end := areas[len(areas)-1].end; a.end <= end {
				continue
			} else if a.start < end {
				a.offset += end - a.start
				a.start = end
			}
		}
		if len(areas) == maxAreas {
			return nil, errTooManyMappings
		}
		areas = append(areas, a)
	}
	return areas, sc.Err()
}

func parseMapLine(line string) (a area, exec bool, err error) {
	rest := line
	field := func() string {
		var f string
		f, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
		return f
	}
	span, perms, offset, dev, inode := field(), field(), field(), field(), field()
	from, to, ok := strings.Cut(span, "-")
	if !ok || len(perms) != 4 {
		return a, false, fmt.Errorf("not a mapping: %q", clip(line, 80))
	}
	hex := func(s string, bits int) uint64 {
		v, e := strconv.ParseUint(s, 16, bits)
		err = errors.Join(err, e)
		return v
	}
	a.start, a.end, a.offset = hex(from, 64), hex(to, 64), hex(offset, 64)
	major, minor, ok := strings.Cut(dev, ":")
	if !ok {
		return a, false, fmt.Errorf("not a device: %q", clip(dev, 20))
	}
	a.dev = hex(major, 32)<<32 | hex(minor, 32)
	ino, e := strconv.ParseUint(inode, 10, 64)
	a.inode = ino
	if err = errors.Join(err, e); err != nil {
		return a, false, err
	}
	if a.start >= a.end || a.offset+(a.end-a.start) < a.offset {
		return a, false, fmt.Errorf("mapping is empty or wraps: %q", clip(line, 80))
	}
	path := strings.TrimLeft(rest, " ")
	if p, cut := strings.CutSuffix(path, " (deleted)"); cut && strings.HasPrefix(path, "/") {
		path, a.deleted = p, true
	}
	a.path = strings.ReplaceAll(path, `\012`, "\n")
	return a, perms[2] == 'x', nil
}

// readMaps reads the mappings of a live process. A zombie's are empty.
func readMaps(procRoot string, pid uint32) ([]area, error) {
	path := filepath.Join(procRoot, strconv.FormatUint(uint64(pid), 10), "maps")
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	areas, err := parseMaps(f)
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	if len(areas) == 0 {
		return nil, fmt.Errorf("%s: process %d has no executable mapping: it has exited, or is a kernel thread", path, pid)
	}
	return areas, nil
}
