// Package cgroup answers what the kernel has charged to a control group: CPU
// use, CFS throttling, quota, pressure and memory, on pure v2, on hybrid hosts
// (CPU controllers on v1, identity on v2) and on v1.
//
// A figure that could not be read is absent and has a warning that names the
// file; it is never 0. It does not answer what the threads inside were doing:
// that is package bpf.
package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// Figure is a number that may be absent. The zero value is absent.
type Figure struct {
	Value uint64
	OK    bool
}

// Known makes a present figure.
func Known(v uint64) Figure { return Figure{Value: v, OK: true} }

// Ptr gives nil for an absent figure, the form of an optional protobuf field.
func (f Figure) Ptr() *uint64 {
	if !f.OK {
		return nil
	}
	v := f.Value
	return &v
}

// Since is the growth of a counter from an earlier reading. It is absent when
// either reading is, or when the counter ran backwards (the group was replaced).
func (f Figure) Since(earlier Figure) Figure {
	if !f.OK || !earlier.OK || f.Value < earlier.Value {
		return Figure{}
	}
	return Known(f.Value - earlier.Value)
}

// Roots says where this host's hierarchies and processes are seen. Paths of
// groups are relative to their hierarchy's root and begin with a slash.
type Roots struct {
	Mounts
	// Proc is the mount point of procfs, /proc but in tests.
	Proc string
}

// CheckPath refuses what is not a clean absolute path within a hierarchy.
func CheckPath(group string) error {
	switch {
	case !strings.HasPrefix(group, "/"):
		return fmt.Errorf("cgroup %q: the path is relative to the root of the v2 hierarchy and must begin with /", group)
	case strings.HasPrefix(group, "/sys/fs/cgroup"):
		return fmt.Errorf("cgroup %q: leave out the mount point; the path is relative to the root of the v2 hierarchy", group)
	case path.Clean(group) != group:
		return fmt.Errorf("cgroup %q: write it as %q", group, path.Clean(group))
	case strings.ContainsAny(group, "\x00\n"):
		return fmt.Errorf("cgroup %q: control characters", group)
	}
	return nil
}

// Dir is the directory of a group in the v2 hierarchy.
func (r Roots) Dir(group string) string { return filepath.Join(r.V2, group) }

// ID is the v2 identity of a group, the number that the kernel programs filter
// by: on 64-bit kernels the inode of its directory. A removed and recreated
// group has another one. The error wraps fs.ErrNotExist when there is no such
// group.
func (r Roots) ID(group string) (uint64, error) {
	if err := CheckPath(group); err != nil {
		return 0, err
	}
	if r.V2 == "" {
		return 0, fmt.Errorf("cgroup %q: no cgroup v2 hierarchy is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup/unified", group)
	}
	info, err := os.Stat(r.Dir(group))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("cgroup %q: %w%s", group, err, r.nearbyText(group))
	}
	if err != nil {
		return 0, fmt.Errorf("cgroup %q: %w", group, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() {
		return 0, fmt.Errorf("cgroup %q: %s is not a directory", group, r.Dir(group))
	}
	return stat.Ino, nil
}

// Within says whether a group is the ancestor or one of its descendants.
func Within(ancestor, group string) bool {
	return ancestor == "/" || group == ancestor || strings.HasPrefix(group, ancestor+"/")
}

// Processes lists the processes of a v2 group and of all groups below it,
// ascending. Groups that vanish meanwhile are left out.
func (r Roots) Processes(group string) ([]int, error) {
	return processesBelow(r.Dir(group))
}

func processesBelow(dir string) ([]int, error) {
	var pids []int
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			if p != dir && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if !d.IsDir() {
			return nil
		}
		text, err := os.ReadFile(filepath.Join(p, "cgroup.procs"))
		switch {
		case err == nil:
		case p != dir && vanished(err), errors.Is(err, syscall.EOPNOTSUPP): // threaded group: its processes are listed above it
			return nil
		default:
			return err
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			if err != nil {
				return fmt.Errorf("parse %s: %q is not a process id", filepath.Join(p, "cgroup.procs"), field)
			}
			if pid > 0 { // 0: a process outside this pid namespace
				pids = append(pids, pid)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	sort.Ints(pids)
	return pids, nil
}

// vanished says whether the error is that of a group removed under the reader.
func vanished(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV)
}
