//go:build linux

package bpf

import (
	"fmt"
	"io"
	"iter"
	"reflect"

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
	for name, prog := range members[*ebpf.Program](&p.objects.rungPrograms) {
		stats, err := prog.Stats()
		if err != nil {
			return nil, fmt.Errorf("read the cost of %s: %w", name, err)
		}
		costs = append(costs, ProgramCost{name, stats.RunCount, uint64(stats.Runtime)})
	}
	return costs, nil
}

// MapBytes is the kernel memory that the maps account for; 0 where the kernel does not say.
func (p *Profiler) MapBytes() uint64 {
	var bytes uint64
	for _, m := range members[*ebpf.Map](&p.objects.rungMaps) {
		if info, err := m.Info(); err == nil {
			if n, ok := info.Memlock(); ok {
				bytes += n
			}
		}
	}
	return bytes
}

// members visits what a generated struct holds, with its name in the object.
func members[T any](of any) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		v := reflect.ValueOf(of).Elem()
		for i := range v.NumField() {
			if !yield(v.Type().Field(i).Tag.Get("ebpf"), v.Field(i).Interface().(T)) {
				return
			}
		}
	}
}
