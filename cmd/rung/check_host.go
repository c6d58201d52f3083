//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// host is what the requirements are read from. Tests give another root and
// other probes.
type host struct {
	goos string
	// root is the directory that stands for /: proc and sys are read below it.
	root string
	cpus int
	// writable says whether this process may make entries in a directory.
	writable func(dir string) error
	// perfEvent opens and closes a CPU clock event on one CPU.
	perfEvent func() error
	// loadBPF loads and attaches the programs and takes them off again. stats
	// says why the kernel does not give the programs' own run time.
	loadBPF func() (stats, err error)
}

func thisHost() host {
	return host{
		goos:      runtime.GOOS,
		root:      "/",
		cpus:      runtime.NumCPU(),
		writable:  func(dir string) error { return unix.Access(dir, unix.W_OK) },
		perfEvent: openPerfEvent,
		loadBPF:   tryLoad,
	}
}

func (h host) path(name string) string { return filepath.Join(h.root, name) }

// requirements probes the host, in the order in which to mend what is missing.
// Loading is tried only where all else it needs is there: its error would
// repeat, less clearly, what another line says.
func (h host) requirements() []requirement {
	if h.goos != "linux" {
		return []requirement{{Name: "Linux", Found: h.goos, Status: statusMissing,
			Remedy: "run rung inside a Linux machine or VM, kernel 6.1 or newer"}}
	}
	all := []requirement{
		{Name: "Linux", Found: h.goos, Status: statusOK},
		h.kernel(),
		h.typeInfo(),
		h.capabilities(),
		h.perfEvents(),
	}
	blocked := missingError(all) != nil
	all = append(all, h.cgroups()...)
	all = append(all, h.loading(blocked)...)
	return append(all, h.processors())
}

func (h host) kernel() requirement {
	r := requirement{Name: fmt.Sprintf("kernel %d.%d or newer", bpf.FloorMajor, bpf.FloorMinor)}
	data, err := os.ReadFile(h.path("proc/sys/kernel/osrelease"))
	if err != nil {
		return r.missing(err.Error(), "mount /proc")
	}
	r.Found = strings.TrimSpace(string(data))
	var missing *bpf.MissingError
	if err := bpf.CheckRelease(r.Found); errors.As(err, &missing) {
		return r.missing(r.Found, missing.Remedy)
	}
	r.Status = statusOK
	return r
}

func (h host) typeInfo() requirement {
	r := requirement{Name: "kernel type information (BTF)", Found: "/sys/kernel/btf/vmlinux", Status: statusOK}
	info, err := os.Stat(h.path("sys/kernel/btf/vmlinux"))
	const remedy = "boot a kernel built with CONFIG_DEBUG_INFO_BTF=y and mount /sys"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r.missing("no /sys/kernel/btf/vmlinux", remedy)
	case err != nil:
		return r.missing(err.Error(), remedy)
	case info.Size() == 0:
		return r.missing("/sys/kernel/btf/vmlinux is empty", remedy)
	}
	return r
}

func (h host) perfEvents() requirement {
	r := requirement{Name: "perf CPU clock event", Found: "opens", Status: statusOK}
	if err := h.perfEvent(); err != nil {
		return r.missing(err.Error(), "run as root or with CAP_PERFMON (Debian's kernels want kernel.perf_event_paranoid at 2 or below, too), on a kernel with CONFIG_PERF_EVENTS=y and no seccomp filter on perf_event_open")
	}
	return r
}

func (h host) processors() requirement {
	r := requirement{Name: "2 CPUs or more", Found: strconv.Itoa(h.cpus), Status: statusOK}
	if h.cpus < 2 {
		r.Status = statusWarning
		r.Remedy = "driver and arm share the one CPU: read no latency from this host"
	}
	return r
}

// loading gives the two lines that need the BPF programs themselves.
func (h host) loading(blocked bool) []requirement {
	load := requirement{Name: "BPF programs load and attach", Found: "yes", Status: statusOK}
	stats := requirement{Name: "BPF run-time statistics (optional)", Found: "yes", Status: statusOK}
	const statsRemedy = "the profiler's own BPF time stays unknown; run as root (CAP_SYS_ADMIN) or set sysctl kernel.bpf_stats_enabled=1 to see it"
	if blocked {
		const first = "mend the missing lines above first"
		return []requirement{load.warning("not tried", first), stats.warning("not tried", first)}
	}
	statsErr, err := h.loadBPF()
	if err != nil {
		load.cause = err
		remedy := "report it with the verifier's log, which goes to standard error"
		var lacking *bpf.MissingError
		if errors.As(err, &lacking) {
			err, remedy = fmt.Errorf("%s: %w", lacking.Requirement, lacking.Err), lacking.Remedy
		}
		return []requirement{load.missing(oneLine(err), remedy), stats.warning("not tried", "the programs must load first")}
	}
	if statsErr != nil {
		stats = stats.warning(oneLine(statsErr), statsRemedy)
	}
	return []requirement{load, stats}
}

func (r requirement) missing(found, remedy string) requirement {
	r.Found, r.Status, r.Remedy = found, statusMissing, remedy
	return r
}

func (r requirement) warning(found, remedy string) requirement {
	r.Found, r.Status, r.Remedy = found, statusWarning, remedy
	return r
}

// oneLine keeps a line of `rung check` a line: a verifier log has thousands.
func oneLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
