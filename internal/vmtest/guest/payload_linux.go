package main

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// frames sends frames from several goroutines over one port.
type frames struct {
	mu   sync.Mutex
	port *os.File
}

func (f *frames) send(frame wire.Frame) error { return wire.Write(f, frame) }

// Write sends one whole frame.
func (f *frames) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.port.Write(p)
}

// runPayload runs one payload to its end and ends all it leaves behind.
func runPayload(out *frames, index uint16, p wire.Payload) wire.Exit {
	argv, env := p.Argv, append([]string{"PATH=" + wire.PayloadDir + ":/bin", "HOME=/root", "TMPDIR=/tmp", "GOTRACEBACK=all"}, p.Env...)
	exe := argv[0]
	var l *limited
	switch {
	case p.Limited != nil:
		var err error
		if l, err = limit(exe, p.Limited); err != nil {
			return wire.Exit{Code: 127, Error: err.Error()}
		}
		defer l.undo()
		exe, env = l.exe, append(env, l.env)
	case p.Caps != capset.All:
		argv = wrapper(p.Caps, argv)
		exe = argv[0]
	}
	stdout, outEnd, err := os.Pipe()
	if err != nil {
		return wire.Exit{Code: 127, Error: err.Error()}
	}
	stderr, errEnd, err := os.Pipe()
	if err != nil {
		return wire.Exit{Code: 127, Error: err.Error()}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return wire.Exit{Code: 127, Error: err.Error()}
	}
	dir := p.Dir
	if dir == "" {
		dir = wire.PayloadDir
	}
	// Not os/exec: its Wait would compete with reap for the children.
	pid, err := syscall.ForkExec(exe, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   env,
		Files: []uintptr{null.Fd(), outEnd.Fd(), errEnd.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	null.Close()
	outEnd.Close()
	errEnd.Close()
	var copies sync.WaitGroup
	copies.Go(func() { forward(out, index, wire.KindStdout, stdout) })
	copies.Go(func() { forward(out, index, wire.KindStderr, stderr) })
	if err != nil {
		copies.Wait()
		return wire.Exit{Code: 127, Error: "start " + p.Argv[0] + ": " + err.Error()}
	}
	exit := reap(pid, time.Duration(p.TimeoutMs)*time.Millisecond)
	copies.Wait()
	if l != nil && exit.Code == 0 {
		if err := l.unused(); err != nil {
			return wire.Exit{Code: 1, Error: err.Error()}
		}
	}
	return exit
}

// reap waits for the payload and for every process orphaned to init, then
// kills what the payload left running, so that its pipes end.
func reap(pid int, limit time.Duration) wire.Exit {
	timedOut := make(chan struct{})
	if limit > 0 {
		timer := time.AfterFunc(limit, func() {
			close(timedOut)
			unix.Kill(-1, unix.SIGKILL)
		})
		defer timer.Stop()
	}
	var exit wire.Exit
	for {
		var status unix.WaitStatus
		child, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // no child left
			select {
			case <-timedOut:
				exit.Code = wire.TimeoutCode
			default:
			}
			return exit
		case child != pid:
			continue
		}
		exit.Code = status.ExitStatus()
		if status.Signaled() {
			exit.Code = 128 + int(status.Signal())
		}
		unix.Kill(-1, unix.SIGKILL)
	}
}

// forward sends what a pipe carries until it ends.
func forward(out *frames, index uint16, kind wire.Kind, pipe *os.File) {
	defer pipe.Close()
	buf := make([]byte, wire.MaxData)
	for {
		n, err := pipe.Read(buf)
		if n > 0 {
			out.send(wire.Frame{Kind: kind, Payload: index, Data: buf[:n]})
		}
		if err != nil {
			return
		}
	}
}
