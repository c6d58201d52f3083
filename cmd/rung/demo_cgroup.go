//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rungprof/rung/agent/cgroup"
)

// quotaPeriod is the CFS period of the arms' quotas.
const quotaPeriod = 100 * time.Millisecond

// demoCgroups are the cgroups of one demo: NAME/ARM in the v2 hierarchy, and on
// a hybrid host the same path in v1's cpu and cpuacct. Nothing else is written
// to: a library that makes a cgroup with its controllers would turn them on in
// every ancestor, which regroups other processes. v1's memory hierarchy is left
// alone, since joining a child of its root would take the arm out of the memory
// limit under which the demo itself runs.
type demoCgroups struct {
	mounts cgroup.Mounts
	name   string
	// made, in order: parents before children.
	made []string
}

// armCgroup is the cgroup of one arm.
type armCgroup struct {
	// path is relative to the v2 hierarchy's root: "/NAME/ARM".
	path string
	// dirs are what a process has to join, v2 first.
	dirs []string
}

// add makes the cgroup of one arm with a quota in CPUs, 0 for none. What it
// made before an error is known to remove.
func (g *demoCgroups) add(arm string, quotaCPUs float64) (armCgroup, error) {
	c := armCgroup{path: "/" + g.name + "/" + arm}
	parent := filepath.Join(g.mounts.V2, g.name)
	v2Quota := quotaCPUs > 0 && g.mounts.V1["cpu"] == ""
	if err := g.mkdir(parent); err != nil {
		return c, err
	}
	if v2Quota {
		if err := writeCgroupFile(parent, "cgroup.subtree_control", "+cpu"); err != nil {
			return c, fmt.Errorf("%w (the hierarchy's root does not hand the cpu controller down: echo +cpu > %s)",
				err, filepath.Join(g.mounts.V2, "cgroup.subtree_control"))
		}
	}
	dir := filepath.Join(parent, arm)
	if err := g.mkdir(dir); err != nil {
		return c, err
	}
	c.dirs = append(c.dirs, dir)
	quota, period := usec(quotaCPUs*quotaPeriod.Seconds()), usec(quotaPeriod.Seconds())
	if v2Quota {
		if err := writeCgroupFile(dir, "cpu.max", quota+" "+period); err != nil {
			return c, err
		}
	}
	for _, controller := range []string{"cpu", "cpuacct"} {
		mount := g.mounts.V1[controller]
		if mount == "" {
			continue
		}
		dir := filepath.Join(mount, g.name, arm)
		if !slices.Contains(c.dirs, dir) { // cpu and cpuacct may be mounted together
			if err := g.mkdir(filepath.Dir(dir)); err != nil {
				return c, err
			}
			if err := g.mkdir(dir); err != nil {
				return c, err
			}
			c.dirs = append(c.dirs, dir)
		}
		if controller == "cpu" && quotaCPUs > 0 {
			if err := writeCgroupFile(dir, "cpu.cfs_period_us", period); err != nil {
				return c, err
			}
			if err := writeCgroupFile(dir, "cpu.cfs_quota_us", quota); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// mkdir makes a directory that this demo has not made yet. One that exists is
// somebody else's: an error.
func (g *demoCgroups) mkdir(dir string) error {
	if slices.Contains(g.made, dir) {
		return nil
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make cgroup: %w", err)
	}
	g.made = append(g.made, dir)
	return nil
}

// remove takes away what was made, children first. A cgroup is busy for a
// moment after its last process was reaped, so it tries until ctx is done.
func (g *demoCgroups) remove(ctx context.Context) error {
	var errs []error
	for _, dir := range slices.Backward(g.made) {
		err := os.Remove(dir)
		for errors.Is(err, syscall.EBUSY) && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
			err = os.Remove(dir)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove cgroup: %w", err))
		}
	}
	g.made = nil
	return errors.Join(errs...)
}

func writeCgroupFile(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("set %s: %w", file, err)
	}
	_, err = f.WriteString(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("set %s to %q: %w", file, value, err)
	}
	return nil
}

func usec(seconds float64) string { return strconv.FormatInt(int64(seconds*1e6+0.5), 10) }
