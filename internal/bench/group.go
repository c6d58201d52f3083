//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rungprof/rung/agent/cgroup"
)

// benchGroup is a cgroup of this run's own: in the v2 hierarchy, and on a hybrid
// host in v1's cpuacct too, whose counter is read there.
type benchGroup struct {
	path string // below the root of the v2 hierarchy
	id   uint64
	dirs []string
}

func newGroup(name string) (*benchGroup, error) {
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		return nil, err
	}
	if roots.V2 == "" {
		return nil, errors.New("no cgroup v2 hierarchy is mounted")
	}
	g := &benchGroup{path: fmt.Sprintf("/rung-%s-%d", name, os.Getpid())}
	for _, mount := range []string{roots.V2, roots.V1["cpuacct"]} {
		if mount == "" {
			continue
		}
		dir := filepath.Join(mount, g.path)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("make a cgroup: %w", err), g.remove())
		}
		g.dirs = append(g.dirs, dir)
	}
	if g.id, err = roots.ID(g.path); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// remove takes the cgroup away. It is busy for a moment after its last process
// was reaped.
func (g *benchGroup) remove() error {
	var errs []error
	for _, dir := range g.dirs {
		err := os.Remove(dir)
		for range 100 {
			if !errors.Is(err, syscall.EBUSY) {
				break
			}
			time.Sleep(20 * time.Millisecond)
			err = os.Remove(dir)
		}
		errs = append(errs, err)
	}
	g.dirs = nil
	return errors.Join(errs...)
}
