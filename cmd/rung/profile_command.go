//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// profiledCommand is a command that is stopped at its first instruction until it
// is released. Being traced for that moment stops it after its exec, when it has
// its own name, one thread and its own program: a helper of ours that waited
// before the exec would stand in the account with its threads, and in the symbols
// with its program.
type profiledCommand struct {
	pid     int
	cmd     *exec.Cmd
	release func() error // lets it run, once
	reap    sync.Once
	// stopped: it was still running when stop was called.
	stopped bool
	waitErr error
}

// startStopped starts a command in this process's group, so that the terminal's
// signals reach it. It dies with this process until it is released.
func startStopped(argv []string, stdin io.Reader, stdout, stderr io.Writer) (*profiledCommand, error) {
	c := &profiledCommand{cmd: exec.Command(argv[0], argv[1:]...)}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	c.cmd.WaitDelay = time.Second // for a descendant that holds a pipe of ours open
	started, go_, going := make(chan error), make(chan struct{}), make(chan error, 1)
	go func() {
		// The tracer is a thread, and lets go of the command when it ends.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := c.traceToExec(); err != nil {
			started <- err
			return
		}
		started <- nil
		<-go_
		going <- unix.PtraceDetach(c.pid)
	}()
	if err := <-started; err != nil {
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			return nil, fmt.Errorf("start %s: %w; if kernel.yama.ptrace_scope is 3 no process can be held at its start: start it yourself and name it by --pid", argv[0], err)
		}
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	c.release = sync.OnceValue(func() error {
		close(go_)
		if err := <-going; err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: killed meanwhile
			return fmt.Errorf("let %s run: %w", argv[0], err)
		}
		return nil
	})
	return c, nil
}

// traceToExec starts the command and waits until it stands after its exec.
func (c *profiledCommand) traceToExec() error {
	if err := c.cmd.Start(); err != nil {
		return err
	}
	c.pid = c.cmd.Process.Pid
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(c.pid, &status, unix.WALL, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	if !status.Stopped() {
		return fmt.Errorf("it ended before its first instruction (%v)", status)
	}
	return unix.PtraceSetOptions(c.pid, unix.PTRACE_O_EXITKILL)
}

// stopCommandGrace is how long a command may take to end after SIGTERM.
const stopCommandGrace = 5 * time.Second

// stop ends the command unless it has ended, and reaps it; until then its number
// is its own. It may be called on nil, and again.
func (c *profiledCommand) stop() {
	if c == nil {
		return
	}
	c.reap.Do(func() {
		_ = c.release() // one that cannot be let go is killed below
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if c.stopped = err == nil && info.Signo == 0; c.stopped {
			c.cmd.Process.Signal(syscall.SIGTERM)
			kill := time.AfterFunc(stopCommandGrace, func() { c.cmd.Process.Kill() })
			defer kill.Stop()
		}
		c.waitErr = c.cmd.Wait()
	})
}

// commandEnd says how a command ended.
type commandEnd struct {
	Argv []string `json:"argv"`
	Pid  int      `json:"pid"`
	// StoppedByRung: it was still running when the window had ended, and got SIGTERM.
	StoppedByRung bool `json:"stoppedByRung"`
	// ExitCode is absent when a signal ended it.
	ExitCode *int   `json:"exitCode,omitempty"`
	Signal   string `json:"signal,omitempty"`
}

// end is valid after stop.
func (c *profiledCommand) end() *commandEnd {
	if c == nil {
		return nil
	}
	e := &commandEnd{Argv: c.cmd.Args, Pid: c.pid, StoppedByRung: c.stopped}
	status, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ok && status.Signaled():
		e.Signal = unix.SignalName(status.Signal())
	default:
		code := c.cmd.ProcessState.ExitCode()
		e.ExitCode = &code
	}
	return e
}

func (e *commandEnd) String() string {
	how := "was ended by " + e.Signal
	if e.ExitCode != nil {
		how = fmt.Sprintf("exited with code %d", *e.ExitCode)
	}
	if e.StoppedByRung {
		how += ", after rung's SIGTERM"
	}
	return how
}
