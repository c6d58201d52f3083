//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Clock says where the sampling clock ticks.
type Clock int

const (
	// ClockPerCPU ticks on every online CPU while a window is open. A CPU that
	// runs no target thread is interrupted for nothing, RateHz times a second.
	ClockPerCPU Clock = iota
	// ClockPerCgroup ticks only where a thread of a target cgroup runs, in CPU time
	// of the target, and has no process trees. The kernel starts and stops it at
	// every switch between a target and anything else, which costs more than the
	// ticks it saves unless those are few: a thread pinned beside its peer in
	// another cgroup, at 32,000 switches/s, lost 8 % of its throughput to it at
	// 199 Hz and 18 % at 999 Hz, where ClockPerCPU took 0 % and 2.5 %.
	ClockPerCgroup
)

func (c Clock) String() string {
	if c == ClockPerCgroup {
		return "cgroup"
	}
	return "cpu"
}

// ParseClock reads what String writes.
func ParseClock(text string) (Clock, error) {
	for _, c := range []Clock{ClockPerCPU, ClockPerCgroup} {
		if text == c.String() {
			return c, nil
		}
	}
	return 0, fmt.Errorf("sampling clock %q: want cpu or cgroup", text)
}

// clockSet is sampling events, one per online CPU, with a fixed period and off
// at first: a frequency would make the weight of a sample vary.
type clockSet []int

// openClocks makes a set for a cgroup's directory, or for all threads with -1.
func (p *Profiler) openClocks(cgroupFD int) (clockSet, error) {
	cpus, err := onlineCPUs()
	if err != nil {
		return nil, err
	}
	attr := unix.PerfEventAttr{
		Type:   unix.PERF_TYPE_SOFTWARE,
		Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:   unix.PERF_ATTR_SIZE_VER1,
		Sample: 1e9 / uint64(p.options.RateHz),
		Bits:   unix.PerfBitDisabled,
	}
	flags := unix.PERF_FLAG_FD_CLOEXEC
	if cgroupFD >= 0 {
		flags |= unix.PERF_FLAG_PID_CGROUP
	}
	var set clockSet
	for _, cpu := range cpus {
		fd, err := unix.PerfEventOpen(&attr, cgroupFD, cpu, -1, flags)
		if err == nil {
			set = append(set, fd)
			err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, p.objects.OnClock.FD())
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM):
			err = &MissingError{"permission to sample CPUs", "run as root or with CAP_PERFMON; Debian's kernels want kernel.perf_event_paranoid at 2 or below, or CAP_SYS_ADMIN", err}
		default:
			err = fmt.Errorf("open the sampling clock of CPU %d: %w", cpu, err)
		}
		return nil, errors.Join(err, set.close())
	}
	return set, nil
}

// run turns the clocks on or off.
func (s clockSet) run(on bool) error {
	request := uint(unix.PERF_EVENT_IOC_DISABLE)
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	for _, fd := range s {
		if err := unix.IoctlSetInt(fd, request, 0); err != nil {
			return fmt.Errorf("switch the sampling clock: %w", err)
		}
	}
	return nil
}

func (s clockSet) close() error {
	var errs []error
	for _, fd := range s {
		errs = append(errs, unix.Close(fd))
	}
	return errors.Join(errs...)
}

// fileIDKernfs is the type of a handle that is a kernfs node's id: FILEID_KERNFS
// of linux/exportfs.h.
const fileIDKernfs = 0xfe

// openCgroup opens the directory of a v2 cgroup by its id. It needs
// CAP_DAC_READ_SEARCH.
func (p *Profiler) openCgroup(id uint64) (fd int, err error) {
	mount, err := unix.Open(p.options.CgroupMount, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open the v2 hierarchy %s: %w", p.options.CgroupMount, err)
	}
	defer unix.Close(mount)
	handle := unix.NewFileHandle(fileIDKernfs, binary.NativeEndian.AppendUint64(nil, id))
	fd, err = unix.OpenByHandleAt(mount, handle, unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open cgroup %d below %s: %w", id, p.options.CgroupMount, err)
	}
	return fd, nil
}
