package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// maxAsked bounds how many processes are asked where they are in v1.
const maxAsked = 256

// membership says where one process is: its v2 group, and its group in each v1
// hierarchy by controller.
type membership struct {
	v2 string
	v1 map[string]string
}

// exiting is PF_EXITING of a task's flags. The kernel shows an exiting process
// at the root of every v1 hierarchy, wherever it was (proc_cgroup_show).
const exiting = 0x4

// memberOf reads PROC/PID/cgroup of a process that is not about to exit.
func (r Roots) memberOf(pid int) (membership, error) {
	tree, err := procfs.NewFS(r.Proc)
	if err != nil {
		return membership{}, err
	}
	proc, err := tree.Proc(pid)
	if err != nil {
		return membership{}, err
	}
	entries, err := proc.Cgroups()
	if err != nil {
		return membership{}, err
	}
	stat, err := proc.Stat() // after the groups: exiting does not end
	if err != nil {
		return membership{}, err
	}
	if stat.Flags&exiting != 0 {
		return membership{}, fmt.Errorf("process %d is exiting: %w", pid, fs.ErrNotExist)
	}
	m := membership{v1: map[string]string{}}
	for _, entry := range entries {
		if entry.HierarchyID == 0 && len(entry.Controllers) == 0 {
			m.v2 = entry.Path
		}
		for _, controller := range entry.Controllers {
			m.v1[controller] = entry.Path
		}
	}
	return m, nil
}

// GroupOf is the v2 group of a process. The error wraps fs.ErrNotExist when
// there is no such process.
func (r Roots) GroupOf(pid int) (string, error) {
	m, err := r.memberOf(pid)
	if err != nil {
		return "", fmt.Errorf("cgroup of process %d: %w", pid, err)
	}
	if m.v2 == "" {
		return "", fmt.Errorf("cgroup of process %d: %s/%d/cgroup names no v2 group", pid, r.Proc, pid)
	}
	return m.v2, nil
}

// place is where a target is in one v1 hierarchy.
type place struct {
	group, dir string
	// shared: processes that are not the target's are in the group too, so its
	// sums are not the target's alone.
	shared bool
}

// locate finds the v1 group that a controller keeps for a v2 group. The kernel
// knows no such relation, so the target's processes are asked; without any, the
// group of the same relative path is taken, if it exists. An error says why
// there is none.
func (r Roots) locate(controller, group string) (place, error) {
	mount := r.V1[controller]
	if mount == "" {
		return place{}, fmt.Errorf("no v1 %s hierarchy is mounted", controller)
	}
	var pids []int
	if r.V2 != "" {
		var err error
		if pids, err = r.Processes(group); err != nil {
			return place{}, err
		}
	}
	var named []string
	for _, pid := range pids[:min(len(pids), maxAsked)] {
		m, err := r.memberOf(pid)
		if err != nil || !Within(group, m.v2) { // exited or moved meanwhile
			continue
		}
		if path, ok := m.v1[controller]; ok {
			named = append(named, counterpart(group, m.v2, path))
		}
	}
	slices.Sort(named)
	named = slices.Compact(named)
	found, err := choose(controller, mount, group, named)
	if err != nil {
		return place{}, err
	}
	at := place{group: found, dir: filepath.Join(mount, found)}
	if info, err := os.Stat(at.dir); err != nil || !info.IsDir() {
		return place{}, fmt.Errorf("v1 %s:%s: %w", controller, found, errors.Join(err, errors.New("not a readable directory")))
	}
	inside, err := processesBelow(at.dir)
	if err != nil {
		return place{}, err
	}
	if r.V2 != "" {
		if pids, err = r.Processes(group); err != nil { // again: some may have been forked since
			return place{}, err
		}
		at.shared = slices.ContainsFunc(inside, func(pid int) bool {
			_, own := slices.BinarySearch(pids, pid)
			return !own
		})
	}
	return at, nil
}

// counterpart takes off a process's v1 path what its v2 path has below the
// target, so that the containers of a pod lead to the pod.
func counterpart(group, v2, v1 string) string {
	below := strings.TrimPrefix(v2, strings.TrimSuffix(group, "/"))
	if below != "" && below != "/" && strings.HasSuffix(v1, below) {
		v1 = strings.TrimSuffix(v1, below)
	}
	if v1 == "" {
		return "/"
	}
	return v1
}

// choose picks one of the v1 groups that the target's processes are in.
func choose(controller, mount, group string, named []string) (string, error) {
	all := len(named) > 0
	for _, name := range named {
		all = all && Within(group, name)
	}
	switch {
	case len(named) == 0, all && len(named) > 1:
		if _, err := os.Stat(filepath.Join(mount, group)); err != nil {
			return "", fmt.Errorf("v1 %s has no group %s, and no process of the target names another", controller, group)
		}
		return group, nil
	case len(named) > 1:
		return "", fmt.Errorf("the target's processes are in several v1 %s groups (%s, %s)", controller, named[0], named[1])
	case named[0] == "/" && group != "/":
		return "", fmt.Errorf("the target's processes are in the root group of v1 %s, which counts the whole host", controller)
	case strings.Contains(named[0], ".."):
		return "", fmt.Errorf("v1 %s:%s lies outside this cgroup namespace", controller, named[0])
	}
	return named[0], nil
}
