//go:build linux

package bpf

import (
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// statsSwitch holds the kernel's BPF run-time statistics on while windows are
// armed: they cost two clock reads per program run.
type statsSwitch struct {
	closer io.Closer
	err    error
}

func (s *statsSwitch) on() {
	if s.closer == nil {
		s.closer, s.err = ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	}
}

func (s *statsSwitch) off() {
	if s.closer != nil {
		s.closer.Close()
		s.closer = nil
	}
}

func (s *statsSwitch) close() error {
	s.off()
	return nil
}

// Costs gives what each program has run while windows were armed. Where the
// kernel refuses statistics it answers a *MissingError.
func (p *Profiler) Costs() ([]ProgramCost, error) {
	p.mu.Lock()
	err := p.stats.err
	p.mu.Unlock()
	if err != nil {
		return nil, &MissingError{"BPF run-time statistics", "grant CAP_SYS_ADMIN, or set the sysctl kernel.bpf_stats_enabled", err}
	}
	var costs []ProgramCost
	for _, prog := range []struct {
		name string
		*ebpf.Program
	}{
		{rungProgOnSwitch, p.objects.OnSwitch}, {rungProgOnWaking, p.objects.OnWaking}, {rungProgOnWakeup, p.objects.OnWakeup},
		{rungProgOnWakeupNew, p.objects.OnWakeupNew}, {rungProgOnFork, p.objects.OnFork},
		{rungProgOnMigrate, p.objects.OnMigrate},
		{rungProgOnClock, p.objects.OnClock}, {rungProgReport, p.objects.Report},
		{rungProgPrepare, p.objects.Prepare},
	} {
		stats, err := prog.Stats()
		if err != nil {
			return nil, fmt.Errorf("read the cost of %s: %w", prog.name, err)
		}
		costs = append(costs, ProgramCost{prog.name, stats.RunCount, uint64(stats.Runtime)})
	}
	return costs, nil
}

// MapBytes is the kernel memory that the maps account for; 0 where the kernel does not say.
func (p *Profiler) MapBytes() uint64 {
	var bytes uint64
	m := &p.objects.rungMaps
	for _, each := range []*ebpf.Map{m.Counters, m.Dead, m.Memos, m.Roots, m.Samples, m.Scratches, m.Stacks, m.Targets, m.Threads, m.Trees} {
		if info, err := each.Info(); err == nil {
			if n, ok := info.Memlock(); ok {
				bytes += n
			}
		}
	}
	return bytes
}
