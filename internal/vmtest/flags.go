package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/rungprof/rung/internal/vmtest/debian"
	"github.com/rungprof/rung/internal/vmtest/gobuild"
	"github.com/rungprof/rung/internal/vmtest/hosttool"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// machineFlags choose a kernel and a machine.
type machineFlags struct {
	arch, kernel string
	suites       []string
	update       bool
	append       []string
	modules      []string
	cpu          string
	cpus         int
	memory       string
	timeout      time.Duration
	console      string
	verbose      bool
}

func (m *machineFlags) register(f *pflag.FlagSet) {
	f.StringVar(&m.arch, "arch", "arm64", "guest's architecture: arm64 or amd64")
	f.StringVar(&m.kernel, "kernel", "6.12.*-cloud", "pattern of a Debian kernel package, without linux-image- and the architecture; the newest match is taken")
	f.StringArrayVar(&m.suites, "suite", nil, "look for kernels in this Debian suite too, as trixie-backports; repeatable")
	f.BoolVar(&m.update, "update", false, "ask the archives again for the newest match")
	f.StringArrayVar(&m.append, "append", nil, "more kernel command line; repeatable")
	f.StringArrayVar(&m.modules, "module", nil, "insert this kernel module, with what it depends on; repeatable")
	f.StringVar(&m.cpu, "cpu", "", "qemu's processor model (default max; on arm64 with the emulator's own pointer authentication)")
	f.IntVar(&m.cpus, "cpus", 2, "processors of the guest, 1 to 64")
	f.StringVar(&m.memory, "memory", "1024M", "memory of the guest, in qemu's notation")
	f.DurationVar(&m.timeout, "timeout", 240*time.Second, "end the machine after this wall time, exit 124; 0: never")
	f.StringVar(&m.console, "console", "", "write the guest's console to this file")
	f.BoolVarP(&m.verbose, "verbose", "v", false, "print what is fetched, and the times of the run")
}

// workshop is what is ready before any machine starts.
type workshop struct {
	module gobuild.Module
	config machine.Config
	dir    string // temporary, for executables
	logf   func(string, ...any)
}

// open checks the host, gets the kernel and builds init. Call close.
func (m *machineFlags) open(ctx context.Context, stderr io.Writer) (*workshop, error) {
	if m.cpus < 1 || m.cpus > 64 {
		return nil, usage(fmt.Errorf("--cpus %d: want 1 to 64", m.cpus))
	}
	if m.timeout < 0 {
		return nil, usage(fmt.Errorf("--timeout %v: want 0 or more", m.timeout))
	}
	qemu, err := machine.Qemu(m.arch)
	if err != nil {
		return nil, usage(fmt.Errorf("--arch: %w", err))
	}
	if err := hosttool.Require(qemu, "apt-get", "apt-cache", "apt-config", "dpkg-deb", "xz"); err != nil {
		return nil, usage(err)
	}
	w := &workshop{logf: func(format string, args ...any) {
		fmt.Fprintf(stderr, "vmtest: "+format+"\n", args...)
	}}
	cache, err := os.UserCacheDir() // $XDG_CACHE_HOME or ~/.cache
	if err != nil {
		return nil, usage(err)
	}
	store := debian.Store{Dir: filepath.Join(cache, "rung-vm"), Arch: m.arch, Suites: m.suites, Logf: w.logf}
	if w.module, err = gobuild.Find(ctx); err != nil {
		return nil, usage(err)
	}
	kernel, err := store.Kernel(ctx, m.kernel, m.update)
	if err != nil {
		return nil, err
	}
	busybox, err := store.Busybox(ctx)
	if err != nil {
		return nil, err
	}
	if w.dir, err = os.MkdirTemp("", "rung-vmtest-"); err != nil {
		return nil, err
	}
	w.config = machine.Config{
		Arch: m.arch, Kernel: kernel, Init: filepath.Join(w.dir, "init"), Busybox: busybox,
		Modules: m.modules, Append: m.append, CPU: m.cpu, CPUs: m.cpus, Memory: m.memory,
		Timeout: m.timeout, Console: m.console,
	}
	if err := w.module.Build(ctx, m.arch, "./internal/vmtest/guest", w.config.Init); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *workshop) close() { os.RemoveAll(w.dir) }

// logTimes says how long a machine took.
func (w *workshop) logTimes(res machine.Result) {
	w.logf("%s %s: prepared %.2f s, ready after %.2f s (guest uptime %.2f s), powered off after %.2f s",
		w.config.Arch, res.Boot.Release, res.Prepared.Seconds(), res.Ready.Seconds(),
		float64(res.Boot.UptimeMs)/1000, res.Total.Seconds())
}

// parseFile reads HOST or HOST:GUEST.
func parseFile(text string) (machine.File, error) {
	host, guest, named := strings.Cut(text, ":")
	if host == "" || named && !strings.HasPrefix(guest, "/") {
		return machine.File{}, fmt.Errorf("--file %q: want HOST or HOST:GUEST, GUEST an absolute path", text)
	}
	if _, err := os.Stat(host); err != nil {
		return machine.File{}, fmt.Errorf("--file %s: %w", text, err)
	}
	return machine.File{Host: host, Guest: guest}, nil
}

// parseSysctl reads NAME=VALUE.
func parseSysctl(text string) (wire.Sysctl, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" || strings.ContainsAny(name, "/ ") {
		return wire.Sysctl{}, fmt.Errorf("--sysctl %q: want NAME=VALUE, as kernel.kptr_restrict=2", text)
	}
	return wire.Sysctl{Name: name, Value: value}, nil
}
