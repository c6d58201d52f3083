package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/wire"
)

// mounts in order. A missing securityfs, tracefs or bpf is no error here: the
// kernel lacks it, or locked it down, and the payloads say what they miss.
var mounts = []struct {
	kind, at string
	flags    uintptr
	optional bool
}{
	{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, false},
	{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, false},
	{"devtmpfs", "/dev", unix.MS_NOSUID, false},
	{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, false},
	{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, true},
	{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV, false},
	{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, false},
	{"cgroup2", "/sys/fs/cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, false},
	{"securityfs", "/sys/kernel/security", 0, true},
	{"bpf", "/sys/fs/bpf", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, true},
	{"tracefs", "/sys/kernel/tracing", 0, true},
}

// setUp makes a bare kernel into a place where the agent can run.
func setUp() error {
	unix.Umask(0o022)
	for _, m := range mounts {
		if !m.optional || !strings.HasPrefix(m.at, "/sys/") {
			if err := os.MkdirAll(m.at, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, ""); err != nil && !m.optional {
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.at, err)
		}
	}
	// The root of cgroups has mode 0555. Make it what a delegated subtree is to
	// its owner, so that uid 0 can make cgroups without CAP_DAC_OVERRIDE.
	if err := os.Chmod("/sys/fs/cgroup", 0o755); err != nil {
		return err
	}
	if err := loadModules(wire.ModuleDir); err != nil {
		return err
	}
	if err := enableControllers("/sys/fs/cgroup"); err != nil {
		return err
	}
	if err := raiseLimits(); err != nil {
		return err
	}
	return loopbackUp()
}

// loadModules inserts what the host put in order.
func loadModules(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.ko"))
	if err != nil {
		return err
	}
	slices.Sort(files)
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("insert module %s: %w", file, err)
		}
	}
	return nil
}

// enableControllers lets cgroups below root have every controller there is.
func enableControllers(root string) error {
	list, err := os.ReadFile(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(string(list)) {
		file := filepath.Join(root, "cgroup.subtree_control")
		if err := os.WriteFile(file, []byte("+"+name), 0o644); err != nil {
			return fmt.Errorf("cgroup controller %s: %w", name, err)
		}
	}
	return nil
}

// raiseLimits gives payloads what a container runtime gives: many files, and
// memory to lock for BPF maps on kernels that still count it so.
func raiseLimits() error {
	for resource, n := range map[int]uint64{unix.RLIMIT_NOFILE: 1 << 16, unix.RLIMIT_MEMLOCK: unix.RLIM_INFINITY} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	return nil
}

// loopbackUp brings lo up; the kernel gives it 127.0.0.1 by itself.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("bring lo up: %w", err)
	}
	return nil
}

// openPort waits for the virtio-serial port of that name and opens it.
func openPort(name string, patience time.Duration) (*os.File, error) {
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(text)) == name {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(file)), os.O_RDWR, 0)
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("no virtio port %s after %v", name, patience)
		}
	}
}
