//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/hsperf"
)

// readJVM reads the counters of a process's JVM from outside: from the file that
// it keeps in its own /tmp, whichever mount namespace that is in. nil of a process
// that has none: it is no HotSpot JVM, or was told to keep them to itself
// (-XX:-UsePerfData, -XX:+PerfDisableSharedMem).
func readJVM(pid int) (*hsperf.Counters, error) {
	if pid <= 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(fmt.Sprintf("/proc/%d/root", pid))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := fs.Glob(root.FS(), "tmp/hsperfdata_*/"+innerPid(pid))
	if err != nil || len(files) != 1 {
		return nil, err
	}
	// It is the process's to say what lies there: a pipe must not hold the campaign.
	f, err := root.OpenFile(files[0], os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, errors.Join(err, fmt.Errorf("%s of process %d is no regular file", files[0], pid))
	}
	data, err := io.ReadAll(io.LimitReader(f, hsperf.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	c, err := hsperf.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s of process %d: %w", files[0], pid, err)
	}
	return &c, nil
}

// innerPid is the process's number in its own namespace, which names the file.
func innerPid(pid int) string {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return fmt.Sprint(pid)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			if pids := strings.Fields(rest); len(pids) > 0 {
				return pids[len(pids)-1]
			}
		}
	}
	return fmt.Sprint(pid)
}

// jvmBetween is what the counters tell of the time between two readings; a
// figure that either lacks is absent.
func jvmBetween(before, after *hsperf.Counters) *campaign.JVM {
	if after == nil {
		return nil
	}
	out := &campaign.JVM{}
	if v, ok := after.HeapUsedBytes(); ok {
		out.HeapUsedBytes = &v
	}
	if before == nil {
		return out
	}
	for _, f := range []struct {
		of   func(hsperf.Counters) (int64, bool)
		into **int64
	}{
		{hsperf.Counters.GCs, &out.GCs}, {hsperf.Counters.GCNs, &out.GCNs},
		{hsperf.Counters.SafepointNs, &out.SafepointNs}, {hsperf.Counters.JITNs, &out.JITNs},
	} {
		a, okBefore := f.of(*before)
		b, okAfter := f.of(*after)
		if okBefore && okAfter && b >= a {
			*f.into = ptrTo(b - a)
		}
	}
	return out
}
