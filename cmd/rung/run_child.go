//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// childSpec says what a campaign starts: an arm, a driver, an agent.
type childSpec struct {
	name string
	argv []string
	env  []string // added to this process's own
	dir  string
	log  string // file that both output streams are appended to
	// line gets each whole line of the streams, from two goroutines, one at a time.
	line func(text string, stderr bool)
	// stop and grace: how it is ended.
	stop  syscall.Signal
	grace time.Duration
}

// child is a process of the campaign in a group of its own: Ctrl-C reaches the
// campaign alone, which ends its children in order. It is terminated when the
// campaign dies.
type child struct {
	spec     childSpec
	cmd      *exec.Cmd
	exited   chan struct{} // closed once it was reaped; exitErr is set before
	exitErr  error
	stopping atomic.Bool
}

func startChild(spec childSpec) (*child, error) {
	log, err := os.OpenFile(spec.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, diskError(fmt.Errorf("start %s: %w", spec.name, err))
	}
	c := &child{spec: spec, exited: make(chan struct{}), cmd: exec.Command(spec.argv[0], spec.argv[1:]...)}
	c.cmd.Env, c.cmd.Dir = append(os.Environ(), spec.env...), spec.dir
	var one sync.Mutex
	stream := func(stderr bool) io.Writer {
		w := &lineWriter{log: forgivingWriter{log}}
		if spec.line != nil {
			w.line = func(text string) {
				one.Lock()
				defer one.Unlock()
				spec.line(text, stderr)
			}
		}
		return w
	}
	c.cmd.Stdout, c.cmd.Stderr = stream(false), stream(true)
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	// A descendant that holds the streams open must not hold the campaign.
	c.cmd.WaitDelay = time.Second
	if err := c.cmd.Start(); err != nil {
		log.Close()
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("start %s: no program %s (%w)", spec.name, spec.argv[0], err)
		}
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	go func() {
		c.exitErr = c.cmd.Wait()
		log.Close()
		close(c.exited)
	}()
	return c, nil
}

// forgivingWriter loses a log's lines rather than the process that writes them:
// on a full disk an arm must not die of its output.
type forgivingWriter struct{ io.Writer }

func (w forgivingWriter) Write(data []byte) (int, error) {
	_, _ = w.Writer.Write(data)
	return len(data), nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// running says whether it has not ended. A nil child runs nothing.
func (c *child) running() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.exited:
		return false
	default:
		return true
	}
}

// end asks the child to end, and after its grace kills what is left of its group.
func (c *child) end() {
	if c == nil {
		return
	}
	c.stopping.Store(true)
	if c.running() {
		// To the child alone: os.Process guards against a number that is used again.
		_ = c.cmd.Process.Signal(c.spec.stop)
		select {
		case <-c.exited:
		case <-time.After(c.spec.grace):
			_ = c.cmd.Process.Kill()
			<-c.exited
		}
	}
	// Numbers are handed out in a circle, so the group's is no other's yet.
	_ = syscall.Kill(-c.pid(), syscall.SIGKILL)
}

// fate tells people how it ended, with the end of its log.
func (c *child) fate() string {
	how := "ended by itself with exit code 0"
	if c.running() {
		how = "still runs"
	} else if c.exitErr != nil {
		how = "ended: " + c.exitErr.Error()
	}
	text := fmt.Sprintf("%s %s (log: %s)", c.spec.name, how, filepath.Base(c.spec.log))
	if tail := logTail(c.spec.log, 5); tail != "" {
		text += "\n" + tail
	}
	return text
}
