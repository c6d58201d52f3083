//go:build linux

package suite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// reading is the scheduler's own sums of one thread since its start.
type reading struct {
	runNs, waitNs, runs uint64
	// It may have been waiting to run: that wait is added when it ends.
	waiting bool
}

// readings reads all threads of a process that are there now.
func readings(pid uint32) (map[uint32]reading, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	all := make(map[uint32]reading, len(tasks))
	for _, task := range tasks {
		tid, err := strconv.ParseUint(task.Name(), 10, 32)
		if err != nil {
			continue // "." and ".." are all that could be
		}
		r, err := readThread(filepath.Join(dir, task.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return nil, err
		}
		all[uint32(tid)] = r
	}
	return all, nil
}

// readThread reads schedstat, the state, and schedstat again: a thread that is
// not runnable in the middle, and was not put on a CPU in between, did not wait.
func readThread(dir string) (reading, error) {
	first, err := readSchedstat(dir)
	if err != nil {
		return reading{}, err
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return reading{}, err
	}
	again, err := readSchedstat(dir)
	if err != nil {
		return reading{}, err
	}
	first.waiting = stateOf(stat) == 'R' || again.runs != first.runs
	return first, nil
}

func readSchedstat(dir string) (reading, error) {
	path := filepath.Join(dir, "schedstat")
	text, err := os.ReadFile(path)
	if err != nil {
		return reading{}, err
	}
	r, err := parseSchedstat(text)
	if err != nil {
		return reading{}, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

// parseSchedstat reads nanoseconds run, nanoseconds waited to run, times run.
//
//	105893427 2105411 351
func parseSchedstat(text []byte) (reading, error) {
	var n [3]uint64
	fields := bytes.Fields(text)
	if len(fields) != len(n) {
		return reading{}, fmt.Errorf("%q is not three numbers", text)
	}
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseUint(string(field), 10, 64); err != nil {
			return reading{}, fmt.Errorf("%q is not three numbers", text)
		}
	}
	return reading{runNs: n[0], waitNs: n[1], runs: n[2]}, nil
}

// stateOf finds the state in a /proc/PID/task/TID/stat text, "71 (name) S 1 …".
// The name may hold anything, so the last parenthesis counts. 0: none found.
func stateOf(stat []byte) byte {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 || i+2 >= len(stat) {
		return 0
	}
	return stat[i+2]
}
