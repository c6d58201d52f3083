//go:build linux

package main

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/hsperf"
	"github.com/rungprof/rung/loadgen"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// cpuMeter reads an arm's CPU time, for steps without an agent's record.
type cpuMeter interface {
	// read gives CPU time and, where it is counted, throttled time, both in ns
	// since an arbitrary start.
	read() (usageNs int64, throttledNs *int64, err error)
	source() string
	close()
}

type cgroupMeter struct{ reader *cgroup.Reader }

func newCgroupMeter(roots cgroup.Roots, group string) (cpuMeter, error) {
	r, err := cgroup.Open(roots, group, monotonicNs)
	if err != nil {
		return nil, err
	}
	return cgroupMeter{r}, nil
}

func (m cgroupMeter) read() (int64, *int64, error) {
	r := m.reader.Read()
	if r.Gone || !r.CPU.UsageUsec.OK {
		return 0, nil, errors.New("the cgroup's usage_usec cannot be read")
	}
	var throttled *int64
	if t := r.CPU.ThrottledUsec; t.OK {
		throttled = ptrTo(saturate(microToNano(t.Value)))
	}
	return saturate(microToNano(r.CPU.UsageUsec.Value)), throttled, nil
}

func (m cgroupMeter) source() string { return "cgroup" }
func (m cgroupMeter) close()         { m.reader.Close() }

// clockMeter reads a process's CPU clock: all its threads, ended ones too, but
// not its children.
type clockMeter struct{ clock int32 }

// cpuClockOf is what clock_getcpuclockid(3) gives: the number's complement
// above the three bits that say "process, scheduler's clock".
func cpuClockOf(pid int) int32 { return int32(^uint32(pid))<<3 | 2 }

func newClockMeter(pid int) (cpuMeter, error) {
	m := clockMeter{cpuClockOf(pid)}
	if _, _, err := m.read(); err != nil {
		return nil, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return m, nil
}

func (m clockMeter) read() (int64, *int64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(m.clock, &t); err != nil {
		return 0, nil, err
	}
	return t.Nano(), nil, nil
}

func (m clockMeter) source() string { return "process clock" }
func (m clockMeter) close()         {}

func monotonicNs() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}

// edgeReader reads a meter at the edges that a driver marks.
type edgeReader struct {
	meter cpuMeter // nil: there is none, for the reason in absent
	pid   int      // of the arm, 0 where it is not known

	mu        sync.Mutex
	absent    string
	start     int64
	throttled *int64
	got       *campaign.CPUTime
	late      int64
	jvmStart  *hsperf.Counters
	jvm       *campaign.JVM
}

// line takes a line of the driver's standard output.
func (e *edgeReader) line(text string) {
	m, ok, err := loadgen.ParseMarker([]byte(text))
	if !ok || err != nil {
		return
	}
	defer e.readJVM(m.GetEdge()) // after the CPU time, which is of the instant
	if e.meter == nil {
		return
	}
	usage, throttled, err := e.meter.read()
	late := int64(monotonicNs()) - int64(m.GetAtMonoNs())
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		e.absent = err.Error()
		return
	}
	if m.GetEdge() == rungv1.Marker_EDGE_START {
		e.start, e.throttled, e.late = usage, throttled, late
		return
	}
	if e.late == 0 {
		e.absent = "the driver marked no opening edge"
		return
	}
	e.got = &campaign.CPUTime{UsageNs: usage - e.start, Source: e.meter.source(), StartLateNs: e.late, EndLateNs: late}
	if throttled != nil && e.throttled != nil {
		e.got.ThrottledNs = ptrTo(*throttled - *e.throttled)
	}
}

// readJVM reads the counters of a JVM at an edge. What cannot be read is absent.
func (e *edgeReader) readJVM(edge rungv1.Marker_Edge) {
	counters, err := readJVM(e.pid)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if edge == rungv1.Marker_EDGE_START {
		e.jvmStart = counters
		return
	}
	e.jvm = jvmBetween(e.jvmStart, counters)
}

func (e *edgeReader) jvmResult() *campaign.JVM {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.jvm
}

func (e *edgeReader) result() (*campaign.CPUTime, string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.got == nil && e.absent == "" {
		return nil, "the driver marked no edges"
	}
	if e.got != nil {
		return e.got, ""
	}
	return nil, e.absent
}
