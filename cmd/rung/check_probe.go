//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// neededCapabilities are those of the DaemonSet, with what each is for.
// CAP_SYS_ADMIN stands for the first three, as in the kernel's own checks.
var neededCapabilities = []struct {
	bit      uint
	name     string
	byAdmin  bool
	neededTo string
}{
	{unix.CAP_BPF, "BPF", true, "load programs"},
	{unix.CAP_PERFMON, "PERFMON", true, "trace the scheduler and sample CPUs"},
	{unix.CAP_CHECKPOINT_RESTORE, "CHECKPOINT_RESTORE", true, "read /proc/PID/map_files"},
	{unix.CAP_SYS_PTRACE, "SYS_PTRACE", false, "read the executables of other users' processes"},
	{unix.CAP_DAC_READ_SEARCH, "DAC_READ_SEARCH", false, "read files that belong to other users"},
	{unix.CAP_SYSLOG, "SYSLOG", false, "name kernel addresses"},
}

func (h host) capabilities() requirement {
	r := requirement{Name: "root or capabilities"}
	const remedy = "run as root, or give the process the capabilities BPF, PERFMON, SYS_PTRACE, DAC_READ_SEARCH, CHECKPOINT_RESTORE and SYSLOG"
	effective, err := h.effectiveCapabilities()
	if err != nil {
		return r.missing(err.Error(), "mount /proc")
	}
	has := func(bit uint) bool { return effective&(1<<bit) != 0 }
	var lacking []string
	for _, c := range neededCapabilities {
		if !has(c.bit) && !(c.byAdmin && has(unix.CAP_SYS_ADMIN)) {
			lacking = append(lacking, fmt.Sprintf("%s (to %s)", c.name, c.neededTo))
		}
	}
	if len(lacking) > 0 {
		return r.missing("lacks "+strings.Join(lacking, ", "), remedy)
	}
	r.Found, r.Status = fmt.Sprintf("CapEff %016x", effective), statusOK
	return r
}

func (h host) effectiveCapabilities() (uint64, error) {
	proc, err := procfs.NewFS(h.path("proc"))
	if err != nil {
		return 0, err
	}
	self, err := proc.Self()
	if err != nil {
		return 0, fmt.Errorf("read /proc/self: %w", err)
	}
	status, err := self.NewStatus()
	if err != nil {
		return 0, fmt.Errorf("read /proc/self/status: %w", err)
	}
	return status.CapEff, nil
}

// openPerfEvent opens what the agent samples with, on the first CPU that this
// process may run on, and closes it.
func openPerfEvent() error {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return fmt.Errorf("sched_getaffinity: %w", err)
	}
	cpu := 0
	for !set.IsSet(cpu) {
		cpu++
	}
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample: 10_000_000, // ns
		Bits:   unix.PerfBitDisabled,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		paranoid, readErr := os.ReadFile("/proc/sys/kernel/perf_event_paranoid")
		if readErr == nil {
			return fmt.Errorf("perf_event_open: %w (kernel.perf_event_paranoid=%s)", err, strings.TrimSpace(string(paranoid)))
		}
		return fmt.Errorf("perf_event_open: %w", err)
	}
	return unix.Close(fd)
}

// tryLoad loads and attaches all programs for a moment.
func tryLoad() (stats, err error) {
	profiler, err := bpf.Load(bpf.Options{RateHz: 19})
	if err != nil {
		return nil, err
	}
	_, stats = profiler.Costs()
	return stats, profiler.Close()
}
