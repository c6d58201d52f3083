//go:build linux

// Package bpf answers what the kernel knows about the threads of a target:
// where their wall time went and which stacks they ran, within windows whose
// edges are set ahead of time. It names no layer, reads no cgroup file and
// logs nothing.
//
// The programs are written in C under src, read kernel memory only by typed
// loads through BTF pointers, and are committed as objects for amd64 and arm64.
// They need Linux 6.1 with BTF, CAP_BPF and CAP_PERFMON.
package bpf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// MaxRateHz bounds Options.RateHz: above it the clock's own cost distorts.
const MaxRateHz = 9999

// Defaults of [Options].
const (
	DefaultStackBudget = 64
	DefaultMaxStacks   = 8192
	DefaultMaxStrata   = 65536
	DefaultMaxSamples  = 65536
	DefaultMaxEnded    = 16384
	DefaultMaxThreads  = 65536
)

// Options configure a Profiler. 0 is the default of each but RateHz.
type Options struct {
	// RateHz is the rate of the sampling clock on every CPU, 1 … MaxRateHz.
	RateHz uint32
	// StackBudget is how many intervals of a stratum (thread, state, reason) give
	// their stack before the chance of the next halves; below 0: none ever does.
	StackBudget int
	// What the tables hold over all targets: stacks of 4 KiB each, strata by stack
	// and waker, distinct samples, threads that ended and were not read. What does
	// not fit is counted.
	MaxStacks, MaxStrata, MaxSamples, MaxEnded uint32
	// MaxThreads have an account at a time; more have none, and their events are counted.
	MaxThreads uint32
	// Clock is where the sampling clock ticks. ClockPerCgroup needs CgroupMount, the
	// mount point of the v2 hierarchy.
	Clock       Clock
	CgroupMount string
}

// maxTable bounds the tables, whose memory is taken when they are made.
const maxTable = 1 << 22

// Validate says what is out of range.
func (o Options) Validate() error {
	if o.RateHz < 1 || o.RateHz > MaxRateHz {
		return fmt.Errorf("sampling rate %d Hz: want 1 to %d", o.RateHz, MaxRateHz)
	}
	if o.Clock == ClockPerCgroup && o.CgroupMount == "" {
		return errors.New("a sampling clock per cgroup needs the mount point of the v2 hierarchy")
	}
	if o.StackBudget > 1<<20 {
		return fmt.Errorf("stack budget %d: want at most %d", o.StackBudget, 1<<20)
	}
	for name, n := range map[string]uint32{"stacks": o.MaxStacks, "strata": o.MaxStrata, "samples": o.MaxSamples, "ended threads": o.MaxEnded, "threads": o.MaxThreads} {
		if n > maxTable {
			return fmt.Errorf("a table of %d %s: want at most %d", n, name, maxTable)
		}
	}
	return nil
}

// spec is the object with the sizes and constants that o wants.
func (o Options) spec() (*ebpf.CollectionSpec, error) {
	spec, err := loadRung()
	if err != nil {
		return nil, err
	}
	for name, n := range map[string]uint32{
		rungMapStacks:  cmp.Or(o.MaxStacks, DefaultMaxStacks),
		rungMapStrata:  cmp.Or(o.MaxStrata, DefaultMaxStrata),
		rungMapSamples: cmp.Or(o.MaxSamples, DefaultMaxSamples),
		rungMapDead:    cmp.Or(o.MaxEnded, DefaultMaxEnded),
	} {
		spec.Maps[name].MaxEntries = n
	}
	budget := max(cmp.Or(o.StackBudget, DefaultStackBudget), 0)
	return spec, errors.Join(
		spec.Variables["stack_budget"].Set(uint32(budget)),
		spec.Variables["max_threads"].Set(cmp.Or(o.MaxThreads, DefaultMaxThreads)))
}

// Profiler holds the loaded programs. Its methods may be called concurrently.
type Profiler struct {
	objects    rungObjects
	links      []link.Link
	reports    *link.Iter
	parks      *link.Iter
	prepares   *link.Iter
	forgets    *link.Iter
	clocks     clockSet // empty where each target has its own
	options    Options
	names      nameCache
	mu         sync.Mutex // guards what follows, and the kernel's set of targets
	slots      map[Slot]*slot
	serial     uint32 // of the last slot given
	generation uint32
	armed      int // windows that are armed and not released
	stats      statsSwitch
	reporting  sync.Mutex // the kernel side reports on one slot at a time
}

// Now reads CLOCK_MONOTONIC.
func Now() MonoNs {
	var t unix.Timespec
	// Cannot fail: the clock exists and the pointer is valid.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return MonoNs(t.Nano())
}

// Load verifies and attaches the programs; the sampling clock stays off until a
// window is armed. A host that lacks something is a *MissingError; programs that
// it refuses for no such reason are a *LoadError.
func Load(o Options) (*Profiler, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkKernel(); err != nil {
		return nil, err
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return nil, &MissingError{"kernel BTF", "boot a kernel of 6.1 or newer built with CONFIG_DEBUG_INFO_BTF=y", err}
	}
	p := &Profiler{options: o, slots: map[Slot]*slot{}}
	spec, err := o.spec()
	if err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&p.objects, nil); err != nil {
		return nil, loadError(err)
	}
	if err := p.attach(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Profiler) attach() error {
	for _, prog := range []*ebpf.Program{p.objects.OnWaking, p.objects.OnWakeup, p.objects.OnWakeupNew, p.objects.OnFork, p.objects.OnExec, p.objects.OnMigrate, p.objects.OnSwitch} {
		l, err := link.AttachTracing(link.TracingOptions{Program: prog})
		if err != nil {
			return fmt.Errorf("attach %s: %w", prog, err)
		}
		p.links = append(p.links, l)
	}
	var err error
	if p.prepares, err = link.AttachIter(link.IterOptions{Program: p.objects.Prepare}); err != nil {
		return fmt.Errorf("attach the task iterator: %w", err)
	}
	if p.forgets, err = link.AttachIter(link.IterOptions{Program: p.objects.Forget}); err != nil {
		return fmt.Errorf("attach the task iterator: %w", err)
	}
	if p.reports, err = link.AttachIter(link.IterOptions{Program: p.objects.Report}); err != nil {
		return fmt.Errorf("attach the task iterator: %w", err)
	}
	if p.parks, err = link.AttachIter(link.IterOptions{Program: p.objects.ParkThreads}); err != nil {
		return fmt.Errorf("attach the task iterator: %w", err)
	}
	if p.options.Clock == ClockPerCPU {
		p.clocks, err = p.openClocks(-1)
	}
	return err
}

// Close detaches and frees everything. The Profiler must not be used after it.
func (p *Profiler) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	errs = append(errs, p.clocks.close())
	for _, t := range p.slots {
		errs = append(errs, t.clocks.close())
	}
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	for _, it := range []*link.Iter{p.prepares, p.forgets, p.reports, p.parks} {
		if it != nil {
			errs = append(errs, it.Close())
		}
	}
	p.clocks, p.links, p.slots = nil, nil, nil
	return errors.Join(append(errs, p.stats.close(), p.objects.Close())...)
}
