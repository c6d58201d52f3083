//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// stopGrace is how long a child may take to end after SIGTERM.
const stopGrace = 5 * time.Second

// process is a child of the demo: another rung command. It is a process group
// of its own, so that Ctrl-C reaches the demo alone, which then stops its
// children in order; and it is terminated when the demo dies.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	log     *os.File
	// exited is closed once the child was reaped; exitErr is set before.
	exited   chan struct{}
	exitErr  error
	stopping atomic.Bool
}

// processSpec says what to start. Both output streams are appended to the log;
// the functions are called with each whole line, from one goroutine per stream.
type processSpec struct {
	name string
	args []string
	// env is added to this process's own.
	env      []string
	logPath  string
	onStdout func(line string)
	onStderr func(line string)
}

func startProcess(spec processSpec) (*process, error) {
	self, err := executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.logPath, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	p := &process{name: spec.name, logPath: spec.logPath, log: log, exited: make(chan struct{})}
	p.cmd = exec.Command(self, spec.args...)
	p.cmd.Env = append(os.Environ(), spec.env...)
	p.cmd.Stdout = &lineWriter{log: log, line: spec.onStdout}
	p.cmd.Stderr = &lineWriter{log: log, line: spec.onStderr}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	p.cmd.WaitDelay = stopGrace
	if err := p.cmd.Start(); err != nil {
		log.Close()
		return nil, fmt.Errorf("start %s: %w", spec.name, err)
	}
	go func() {
		p.exitErr = p.cmd.Wait()
		log.Close()
		close(p.exited)
	}()
	return p, nil
}

// wait gives the child's exit: nil, an *exec.ExitError, or ctx's error, in
// which case the child is stopped first.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.exited:
		return p.exitErr
	case <-ctx.Done():
		p.stop()
		return ctx.Err()
	}
}

// stop asks the child to end and, after stopGrace, ends it. It returns once the
// child was reaped. A nil or ended process is left alone.
func (p *process) stop() {
	if p == nil {
		return
	}
	p.stopping.Store(true)
	// Signals go to the child alone: after it was reaped its number may be another's,
	// which os.Process guards against and kill(-pgid) does not.
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopGrace):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// died says whether the child ended without having been asked to.
func (p *process) died() bool {
	select {
	case <-p.exited:
		return !p.stopping.Load()
	default:
		return false
	}
}

// fate tells people how a child ended, with the end of its log.
func (p *process) fate() error {
	how := "ended by itself"
	if p.exitErr != nil {
		how = p.exitErr.Error()
	}
	text := fmt.Sprintf("%s: %s (%s)", p.name, how, filepath.Base(p.logPath))
	if tail := logTail(p.logPath, 8); tail != "" {
		text += ", its last lines:\n" + tail
	}
	return errors.New(text)
}

// ready waits until a child says, by a message on the channel, that it
// serves.
func (p *process) ready(ctx context.Context, said <-chan string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	select {
	case what := <-said:
		return what, nil
	case <-p.exited:
		return "", p.fate()
	case <-ctx.Done():
		p.stop()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "", fmt.Errorf("did not say that it serves within 20 s: %w", p.fate())
		}
		return "", ctx.Err()
	}
}

// lineWriter copies a stream to a log and hands out its lines. A line longer
// than the limit is handed out in parts.
type lineWriter struct {
	log  io.Writer
	line func(string)
	part []byte
}

const maxLine = 1 << 16

func (w *lineWriter) Write(data []byte) (int, error) {
	if n, err := w.log.Write(data); err != nil || w.line == nil {
		return n, err
	}
	w.part = append(w.part, data...)
	for {
		end := bytes.IndexByte(w.part, '\n')
		if end < 0 {
			break
		}
		w.line(string(bytes.TrimSuffix(w.part[:end], []byte("\r"))))
		w.part = w.part[end+1:]
	}
	if len(w.part) > maxLine {
		w.line(string(w.part))
		w.part = nil
	}
	return len(data), nil
}

// logTail is the last lines of a log, indented; empty when there is none.
func logTail(path string, lines int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	if len(all) == 1 && all[0] == "" {
		return ""
	}
	return "    " + strings.Join(all, "\n    ")
}
