// Package machine boots one throw-away virtual machine under qemu, hands it a
// plan and passes on what its payloads print and how they end. The guest has
// no network and no disk: all it has comes in its initramfs.
package machine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rungprof/rung/internal/vmtest/debian"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// Config describes a machine. The zero value of a field with a default takes it.
type Config struct {
	Arch    string // arm64 or amd64
	Kernel  *debian.Kernel
	Init    string // static executable of package guest for Arch
	Busybox string // static busybox for Arch; none if empty
	Files   []File
	Modules []string // beside the virtio ones
	Append  []string // more kernel command line
	CPU     string   // qemu's -cpu; default by Arch
	CPUs    int      // 2
	Memory  string   // 1024M
	Timeout time.Duration
	Console string // file that gets the kernel's console; none if empty
}

// Observer is told what the guest does, payload by payload, from one goroutine.
// Nil functions and writers are passed over.
type Observer struct {
	Start func(i int)
	// Output gives the writers for payload i. A write error does not stop the machine.
	Output func(i int) (stdout, stderr io.Writer)
	Exit   func(i int, exit wire.Exit)
}

// Result is what a machine did.
type Result struct {
	Boot  wire.Boot
	Exits []wire.Exit // one for each payload that ended, in order
	// Prepared, Ready and Total are wall times since Run was called: qemu
	// started, guest ready for its first payload, guest powered off.
	Prepared, Ready, Total time.Duration
}

// Error is a machine that did not finish its plan.
type Error struct {
	Timeout bool // it was ended after Config.Timeout
	Reason  string
	Console string // the last lines of the kernel's console
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s; end of the guest's console:\n%s", e.Reason, e.Console)
}

// virtio is what the guest needs to talk to the host and to have entropy.
var virtio = []string{"virtio_pci", "virtio_console", "virtio_rng"}

// Run boots the machine and returns after it has powered off. The result holds
// what was done until then, also beside an *Error. Cancelling ctx ends qemu.
func Run(ctx context.Context, cfg Config, plan wire.Plan, observer Observer) (res Result, err error) {
	begin := time.Now()
	defer func() { res.Total = time.Since(begin) }()
	dir, err := os.MkdirTemp("", "rung-vm-")
	if err != nil {
		return res, err
	}
	defer os.RemoveAll(dir)
	modules, err := cfg.Kernel.Modules(append(virtio, cfg.Modules...)...)
	if err != nil {
		return res, err
	}
	plan.TimeUnixNs = time.Now().UnixNano()
	initrd := filepath.Join(dir, "initrd")
	if err := writeInitramfs(initrd, cfg, plan, modules); err != nil {
		return res, err
	}
	console := cfg.Console
	if console == "" {
		console = filepath.Join(dir, "console")
	}
	listener, err := net.Listen("unix", filepath.Join(dir, "port"))
	if err != nil {
		return res, err
	}
	defer listener.Close()

	running, cancel := context.WithCancel(ctx)
	if cfg.Timeout > 0 {
		running, cancel = context.WithTimeout(ctx, cfg.Timeout)
	}
	defer cancel()
	args, err := cfg.arguments(initrd, listener.Addr().String(), console)
	if err != nil {
		return res, err
	}
	qemu := exec.CommandContext(running, args[0], args[1:]...)
	var stderr strings.Builder
	qemu.Stdout, qemu.Stderr = &stderr, &stderr
	qemu.WaitDelay = 2 * time.Second
	res.Prepared = time.Since(begin)
	if err := qemu.Start(); err != nil {
		return res, err
	}
	followed := make(chan error, 1)
	go func() { followed <- follow(listener, observer, &res, begin) }()
	qemuErr := qemu.Wait()
	listener.Close() // ends follow where qemu never connected
	followErr := <-followed

	if err := ctx.Err(); err != nil {
		return res, err
	}
	failure := &Error{Console: tail(console, 40)}
	switch {
	case running.Err() != nil:
		failure.Timeout = true
		failure.Reason = fmt.Sprintf("the guest did not finish within %v", cfg.Timeout)
	case followErr != nil:
		failure.Reason = fmt.Sprintf("the guest stopped: %v (qemu: %v %s)", followErr, qemuErr, strings.TrimSpace(stderr.String()))
	case qemuErr != nil:
		failure.Reason = fmt.Sprintf("qemu: %v: %s", qemuErr, strings.TrimSpace(stderr.String()))
	default:
		return res, nil
	}
	return res, failure
}

// follow reads the guest's frames until it is done, and answers that it is.
func follow(listener net.Listener, o Observer, res *Result, begin time.Time) error {
	conn, err := listener.Accept()
	if err != nil {
		return errors.New("qemu did not start")
	}
	defer conn.Close()
	for {
		f, err := wire.Read(conn)
		if err != nil {
			return fmt.Errorf("its port closed: %w", err)
		}
		switch f.Kind {
		case wire.KindBoot:
			res.Ready = time.Since(begin)
			err = json.Unmarshal(f.Data, &res.Boot)
		case wire.KindStart:
			if o.Start != nil {
				o.Start(int(f.Payload))
			}
		case wire.KindStdout, wire.KindStderr:
			if o.Output == nil {
				break
			}
			out, errOut := o.Output(int(f.Payload))
			if f.Kind == wire.KindStderr {
				out = errOut
			}
			if out != nil {
				out.Write(f.Data) // what cannot be shown does not change how payloads end
			}
		case wire.KindExit:
			var exit wire.Exit
			if err = json.Unmarshal(f.Data, &exit); err == nil {
				res.Exits = append(res.Exits, exit)
				if o.Exit != nil {
					o.Exit(int(f.Payload), exit)
				}
			}
		case wire.KindFail:
			err = errors.New(string(f.Data))
		case wire.KindDone:
			_, err = conn.Write([]byte{wire.Ack})
			if err == nil {
				io.Copy(io.Discard, conn) // until qemu ends
			}
			return err
		}
		if err != nil {
			return err
		}
	}
}

// tail returns the last lines of a file, or why it cannot be read.
func tail(file string, lines int) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	list := strings.Split(strings.TrimSpace(strings.ReplaceAll(string(data), "\r", "")), "\n")
	return strings.Join(list[max(0, len(list)-lines):], "\n")
}
