//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/agent"
	"github.com/rungprof/rung/agent/cgroup"
)

// profileTarget is what one window is about.
type profileTarget struct {
	agent.Target
	// title names it for people: "process 4711 (java)".
	title    string
	warnings []string
	// command is nil unless it was started for the window.
	command *profiledCommand
	// pidfd refers to the process, whatever becomes of its number; -1 for a cgroup.
	pidfd int
}

// findProfileTarget looks for what the flags name. A command is only looked up
// here; start starts it.
func findProfileTarget(o profileOptions) (*profileTarget, error) {
	t := &profileTarget{pidfd: -1}
	switch {
	case o.hasPid:
		return t, t.findProcess(o.pid)
	case o.cgroup != "":
		return t, t.findCgroup(o.cgroup)
	}
	if _, err := exec.LookPath(o.command[0]); err != nil {
		return nil, fmt.Errorf("the command cannot be started: %w", err)
	}
	return t, nil
}

func (t *profileTarget) findProcess(pid int) error {
	if err := t.hold(pid); err != nil {
		return err
	}
	t.Target = agent.Target{Name: fmt.Sprintf("pid-%d", pid), Pid: uint32(pid)}
	t.title = fmt.Sprintf("process %d", pid)
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil {
		t.title += " (" + strings.TrimSuffix(string(comm), "\n") + ")"
	}
	for p := os.Getpid(); p > 0; p = parentOf(p) {
		if p == pid {
			t.warnings = append(t.warnings, "rung is a descendant of the target and is measured with it")
		}
	}
	return nil
}

// hold opens a process, so that it cannot be taken for a later one.
func (t *profileTarget) hold(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("no process %d: it does not exist, or has ended", pid)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%d is a thread, not a process: name its process (Tgid in /proc/%d/status)", pid, pid)
	case err != nil:
		return fmt.Errorf("process %d: %w", pid, err)
	}
	t.pidfd = fd
	return nil
}

// parentOf is 0 where it cannot be read.
func parentOf(pid int) int {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return 0
	}
	stat, err := proc.Stat()
	if err != nil {
		return 0
	}
	return stat.PPID
}

func (t *profileTarget) findCgroup(path string) error {
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		return err
	}
	if roots.V2 != "" && cgroup.Within(roots.V2, path) { // as a shell completes it
		path = "/" + strings.TrimPrefix(path[len(roots.V2):], "/")
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		path = "/"
	}
	if _, err := roots.ID(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			near := ""
			if names := roots.Nearby(path); len(names) > 0 {
				near = "; there is " + strings.Join(names, ", ")
			}
			return fmt.Errorf("no cgroup %s in the v2 hierarchy at %s: give the path as in the line 0:: of /proc/PID/cgroup%s", path, roots.V2, near)
		}
		return err
	}
	t.Target = agent.Target{Name: "cgroup", Cgroup: path}
	t.title = "cgroup " + path
	if own, err := roots.GroupOf(os.Getpid()); err == nil && cgroup.Within(path, own) {
		t.warnings = append(t.warnings, "rung is in the target and is measured with it")
	}
	return nil
}

// start starts a command, which stays at its first instruction.
func (t *profileTarget) start(argv []string, stdin io.Reader, stdout, stderr io.Writer) error {
	command, err := startStopped(argv, stdin, stdout, stderr)
	if err != nil {
		return err
	}
	if err := t.hold(command.pid); err != nil {
		command.stop()
		return err
	}
	t.command = command
	t.Target = agent.Target{Name: fmt.Sprintf("pid-%d", command.pid), Pid: uint32(command.pid)}
	t.title = fmt.Sprintf("command %s (process %d)", filepath.Base(argv[0]), command.pid)
	return nil
}

// exited answers a channel that is closed when the process has ended: all its
// threads, reaped or not. For a cgroup it never is. The watch ends with done; it
// has a hold of its own, so that close may come before.
func (t *profileTarget) exited(done <-chan struct{}) <-chan struct{} {
	gone := make(chan struct{})
	if t.pidfd < 0 {
		return gone
	}
	pidfd, err := unix.FcntlInt(uintptr(t.pidfd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil { // no file descriptor left: the window ends as planned
		return gone
	}
	go func() {
		defer unix.Close(pidfd)
		for !hasExited(pidfd, 500*time.Millisecond) {
			select {
			case <-done:
				return
			default:
			}
		}
		close(gone)
	}()
	return gone
}

// hasExited waits that long for the target's end; a cgroup has none.
func (t *profileTarget) hasExited(wait time.Duration) bool {
	return t.pidfd >= 0 && hasExited(t.pidfd, wait)
}

func hasExited(pidfd int, wait time.Duration) bool {
	n, _ := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(wait.Milliseconds()))
	return n > 0
}

// close drops the hold.
func (t *profileTarget) close() {
	if t.pidfd >= 0 {
		unix.Close(t.pidfd)
		t.pidfd = -1
	}
}
