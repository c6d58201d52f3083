//go:build linux

package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// cpuController gives the root of the hierarchy that has the CPU controller.
func (h *host) cpuController() (root string, v1 bool, err error) {
	for _, dir := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"} {
		if _, err := os.Stat(filepath.Join(dir, "cpu.shares")); err == nil {
			return dir, true, nil
		}
	}
	if h.cgroup2 == "" {
		return "", false, errors.New("no CPU controller is mounted: mount one")
	}
	if err := os.WriteFile(filepath.Join(h.cgroup2, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
		return "", false, fmt.Errorf("no CPU controller: %w: run as root where one can be written", err)
	}
	return h.cgroup2, false, nil
}

// weigh gives a cgroup some times the CPU of any other.
func weigh(dir string, v1 bool, times int) error {
	file, value := "cpu.weight", min(100*times, 10_000)
	if v1 {
		file, value = "cpu.shares", 1024*times
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(value)), 0); err != nil {
		return fmt.Errorf("set a weight: %w", err)
	}
	return nil
}

// makeRoom makes the cgroup that workloads run in, with more weight than a
// neighbour: one that is busy for seconds leaves too little to a pinned worker
// to do its work in time. "" where there is no CPU controller; it is then done without.
func (h *host) makeRoom() (dir string, remove func() error, err error) {
	root, v1, err := h.cpuController()
	if err != nil {
		return "", func() error { return nil }, nil
	}
	dir, remove, err = makeCgroup(root, "room")
	if err != nil {
		return "", nil, err
	}
	return dir, remove, weigh(dir, v1, 10)
}

func joinCgroup(dir string, c *child) error {
	return os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(int(c.Pid))), 0)
}
