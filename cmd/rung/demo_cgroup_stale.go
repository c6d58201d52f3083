//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// A demo that was killed leaves its cgroups, and perhaps an arm in one of them.
// The next demo takes them away: the name says who made them, and a process that
// no longer runs will not come back for them.

const demoCgroupPrefix = "rung-demo-"

// demoOwner is the process that made a demo's cgroups.
type demoOwner struct {
	pid int
	// start is the time it started, in clock ticks since boot; namespace the inode
	// of the pid namespace that its number is of. Both are 0 in names of versions
	// that left them out.
	start, namespace uint64
}

// thisOwner is this process.
func thisOwner(proc string) (demoOwner, error) {
	o := demoOwner{pid: os.Getpid()}
	var err error
	if o.namespace, err = pidNamespace(proc); err != nil {
		return o, err
	}
	start, running := startOf(proc, o.pid)
	if !running {
		return o, fmt.Errorf("read %s/%d/stat: this process is not there; mount the /proc of its own pid namespace", proc, o.pid)
	}
	o.start = start
	return o, nil
}

// cgroupName is the name of the owner's cgroups below each hierarchy's root.
func (o demoOwner) cgroupName() string {
	return fmt.Sprintf("%s%d-%d-%d", demoCgroupPrefix, o.pid, o.start, o.namespace)
}

var demoCgroupForm = regexp.MustCompile(`^` + demoCgroupPrefix + `([0-9]+)(?:-([0-9]+)-([0-9]+))?$`)

// parseDemoOwner answers false for a name that no demo gives.
func parseDemoOwner(name string) (demoOwner, bool) {
	parts := demoCgroupForm.FindStringSubmatch(name)
	if parts == nil {
		return demoOwner{}, false
	}
	var o demoOwner
	var errs [3]error
	o.pid, errs[0] = strconv.Atoi(parts[1])
	if parts[2] != "" {
		o.start, errs[1] = strconv.ParseUint(parts[2], 10, 64)
		o.namespace, errs[2] = strconv.ParseUint(parts[3], 10, 64)
	}
	return o, errors.Join(errs[:]...) == nil && o.pid > 0
}

// dead says that the owner runs no more. Of another pid namespace that cannot be
// told.
func (o demoOwner) dead(proc string) bool {
	if o.namespace != 0 {
		if own, err := pidNamespace(proc); err != nil || own != o.namespace {
			return false
		}
	}
	start, running := startOf(proc, o.pid)
	return !running || o.start != 0 && start != o.start
}

func pidNamespace(proc string) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(proc, "self/ns/pid"), &st); err != nil {
		return 0, fmt.Errorf("pid namespace: %w", err)
	}
	return st.Ino, nil
}

// startOf tells when a process started, and whether there is one: a zombie is none.
func startOf(proc string, pid int) (start uint64, running bool) {
	tree, err := procfs.NewFS(proc)
	if err != nil {
		return 0, false
	}
	p, err := tree.Proc(pid)
	if err != nil {
		return 0, false
	}
	stat, err := p.Stat()
	return stat.Starttime, err == nil && stat.State != "Z" && stat.State != "X"
}

// hierarchies are the mounts that a demo makes cgroups in.
func (g *demoCgroups) hierarchies() []string {
	var all []string
	for _, mount := range []string{g.mounts.V2, g.mounts.V1["cpu"], g.mounts.V1["cpuacct"]} {
		if mount != "" && !slices.Contains(all, mount) {
			all = append(all, mount)
		}
	}
	return all
}

// others lists the cgroups of other demos by name: of those whose owner is dead,
// and of those that run or may.
func (g *demoCgroups) others(proc string) (stale, running []string) {
	for _, mount := range g.hierarchies() {
		entries, err := os.ReadDir(mount)
		if err != nil {
			continue // what cannot be read cannot be cleaned either
		}
		for _, e := range entries {
			name := e.Name()
			if !e.IsDir() || !strings.HasPrefix(name, demoCgroupPrefix) || name == g.name || slices.Contains(stale, name) || slices.Contains(running, name) {
				continue
			}
			if owner, ok := parseDemoOwner(name); ok && owner.dead(proc) {
				stale = append(stale, name)
			} else if len(g.processesOf(name)) > 0 {
				running = append(running, name)
			}
		}
	}
	return stale, running
}

// processesOf lists the processes in a demo's cgroups.
func (g *demoCgroups) processesOf(name string) []int {
	var pids []int
	for _, mount := range g.hierarchies() {
		files, _ := filepath.Glob(filepath.Join(mount, name, "*", "cgroup.procs")) // the pattern is good
		for _, file := range append(files, filepath.Join(mount, name, "cgroup.procs")) {
			text, err := os.ReadFile(file)
			if err != nil {
				continue // removed meanwhile
			}
			for _, field := range strings.Fields(string(text)) {
				if pid, err := strconv.Atoi(field); err == nil && pid > 0 && !slices.Contains(pids, pid) {
					pids = append(pids, pid)
				}
			}
		}
	}
	return pids
}

// removeStale ends the arms that a dead demo left behind and removes its cgroups.
// A process that is no arm of Rung's is left alone: then it is an error.
func (g *demoCgroups) removeStale(ctx context.Context, proc, name string) error {
	owner, ok := parseDemoOwner(name)
	if !ok || !owner.dead(proc) {
		return fmt.Errorf("cgroup %s: its demo may still run", name)
	}
	for _, pid := range g.processesOf(name) {
		if owner.namespace == 0 || !killArm(proc, pid) {
			return fmt.Errorf("cgroup %s of a demo that is gone holds process %d, which is no arm of Rung's: end it, and the next demo removes the cgroup", name, pid)
		}
	}
	old := demoCgroups{mounts: g.mounts, name: name}
	for _, mount := range g.hierarchies() {
		top := filepath.Join(mount, name)
		old.made = append(old.made, top)
		children, err := os.ReadDir(top)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove cgroup: %w", err)
		}
		for _, child := range children {
			if child.IsDir() {
				old.made = append(old.made, filepath.Join(top, child.Name()))
			}
		}
	}
	return old.remove(ctx)
}

// killArm ends a process that is `rung arm`, and answers false for any other. A
// process that is gone counts as one.
func killArm(proc string, pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0) // first: what is looked at next is that very process, or the signal fails
	if err != nil {
		return errors.Is(err, syscall.ESRCH)
	}
	defer unix.Close(fd)
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
	}
	if argv := strings.Split(string(line), "\x00"); len(argv) < 2 || argv[1] != "arm" {
		return false
	}
	err = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	return err == nil || errors.Is(err, syscall.ESRCH)
}

// clean removes what dead demos left and notes demos that run: their cgroups are
// their own, but the CPUs are shared. Neither keeps this demo from running.
func (d *demo) clean(ctx context.Context) {
	stale, running := d.cgroups.others("/proc")
	if len(running) > 0 {
		d.warn("another demo runs on this host (" + strings.Join(running, ", ") +
			"): they share its CPUs, and no figure of either stands for an idle host")
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for _, name := range stale {
		if err := d.cgroups.removeStale(ctx, "/proc", name); err != nil {
			d.warn(err.Error())
			continue
		}
		d.progress.note("removed cgroup " + name + " of a demo that was killed")
	}
}
