// Package agent measures targets of this host, cgroups or process trees, over
// windows that a load driver opens and closes through the API of package
// rungv1: it reads the cgroup's counters at both edges, takes account and
// samples from the kernel side (package bpf), symbolises them and keeps the
// finished records until they are fetched.
//
// It does not know what load was offered, and it does not say what a function
// belongs to: that is package attribution.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// DefaultRateHz is the rate of on-CPU samples per busy CPU. At 199 Hz sampling
// costs well under 1 % of a core; being prime, it does not beat with timers.
const DefaultRateHz = 199

// Bounds of the threads that have a row of their own in a record, about 300 bytes
// each, a kilobyte once it is JSON: the default, and what fits in a message.
const (
	DefaultMaxThreads = 16384
	MaxMaxThreads     = 100_000
)

// keptSteps and keptBytes bound the finished steps that are kept for fetching: the
// latest ones, of which the last is kept whatever its size.
const (
	keptSteps = 64
	keptBytes = 32 << 20
)

// Config is what an agent measures and how.
type Config struct {
	Targets []Target
	// Loaded is what the kernel side was loaded with.
	Loaded bpf.Options
	// MaxThreads is how many threads of a record have a row of their own, 0 for
	// DefaultMaxThreads; the others are folded, by group.
	MaxThreads int
	// Groups of threads; nil folds the digits of their names.
	Groups *attribution.Grouper
	// Proc and Sys are the mount points of procfs and sysfs; empty means /proc and /sys.
	Proc, Sys string
	// Log gets transitions (a window armed, closed, drained), never samples.
	Log *slog.Logger
}

// Validate names the first thing that is wrong.
func (c Config) Validate() error {
	if err := c.Loaded.Validate(); err != nil {
		return err
	}
	if c.MaxThreads < 0 || c.MaxThreads > MaxMaxThreads {
		return fmt.Errorf("%d threads of a record: must be 1 to %d", c.MaxThreads, MaxMaxThreads)
	}
	if len(c.Targets) == 0 {
		return errors.New("no target: name at least one, as NAME=cgroup:/path or NAME=pid:N")
	}
	if len(c.Targets) > bpf.MaxTargets {
		return fmt.Errorf("%d targets: at most %d are possible", len(c.Targets), bpf.MaxTargets)
	}
	for i, target := range c.Targets {
		if err := target.Validate(); err != nil {
			return err
		}
		if target.Pid != 0 && c.Loaded.Clock == bpf.ClockPerCgroup {
			return fmt.Errorf("target %s is a process tree, which a sampling clock per cgroup does not know: name its cgroup, or take the clock cpu", target.Name)
		}
		for _, other := range c.Targets[:i] {
			if err := disjoint(other, target); err != nil {
				return err
			}
		}
	}
	return nil
}

// Kernel is the kernel side as the agent uses it; [*bpf.Profiler] is one. See
// there for the methods.
type Kernel interface {
	AddCgroup(cgroupID uint64) (bpf.Slot, error)
	AddTree(pid uint32) (bpf.Slot, error)
	Remove(bpf.Slot) error
	Arm(bpf.Slot, bpf.Window) error
	SetEnd(slot bpf.Slot, id uint32, end bpf.MonoNs) error
	Threads(slot bpf.Slot, id uint32) ([]bpf.Thread, error)
	Samples(slot bpf.Slot, id uint32) ([]bpf.Sample, error)
	Park(bpf.Slot) error
	OffCPU(slot bpf.Slot, id uint32) ([]bpf.OffCPU, error)
	Stack(hash uint64) (bpf.Stack, bool)
	Release(slot bpf.Slot, id uint32) error
	WatchProcesses(ctx context.Context, told func(s bpf.Slot, tgid uint32)) error
	Counters() (bpf.Counters, error)
	Costs() ([]bpf.ProgramCost, error)
	MapBytes() uint64
	KernelName(addr uint64) (name string, offset uint64, err error)
}

// Agent holds targets, windows and finished steps. It implements
// [rungv1.AgentServer]; its methods may be called concurrently.
type Agent struct {
	rungv1.UnimplementedAgentServer

	config  Config
	kernel  Kernel
	roots   cgroup.Roots
	host    *rungv1.Host
	symbols *symbol.Symbolizer
	bootID  string
	began   bpf.MonoNs
	log     *slog.Logger
	// wallAheadNs is how far the wall clock is ahead of CLOCK_MONOTONIC.
	wallAheadNs func() int64

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	follow sync.WaitGroup // the goroutines: one for born, and those of each window
	born   born

	mu       sync.Mutex // guards all below, and what hangs on it
	targets  []*target
	steps    map[stepKey]*step
	finished []stepKey // oldest first, within keptSteps and keptBytes
}

// New prepares an agent over a loaded kernel side, which stays the caller's to
// close, after Close. A target that does not exist yet is no error: it is
// looked for again whenever it is named.
func New(config Config, kernel Kernel) (*Agent, error) {
	if config.Proc == "" {
		config.Proc = "/proc"
	}
	if config.Sys == "" {
		config.Sys = "/sys"
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.MaxThreads == 0 {
		config.MaxThreads = DefaultMaxThreads
	}
	if err := config.Validate(); err != nil {
		return nil, err
	}
	roots, err := cgroup.Detect(config.Proc)
	if err != nil {
		return nil, err
	}
	bootID, err := readBootID(config.Proc)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		config: config, kernel: kernel, roots: roots, bootID: bootID, began: now(), log: config.Log,
		host:    readHost(config.Proc, config.Sys, roots.Mode()),
		symbols: symbol.New(symbol.Options{ProcRoot: config.Proc}),
		steps:   map[stepKey]*step{},

		wallAheadNs: wallAheadNs,
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.follow.Go(func() {
		if err := kernel.WatchProcesses(a.ctx, a.born.tell); err != nil {
			a.log.Warn("processes that begin and end within a second may stay without names", "error", err)
		}
	})
	for _, spec := range config.Targets {
		a.targets = append(a.targets, &target{Target: spec})
	}
	for _, t := range a.targets {
		a.resolve(t)
		if t.unavailable != "" {
			a.log.Warn("target unavailable", "target", t.Name, "reason", t.unavailable)
		}
	}
	return a, nil
}

// Close gives up open windows, wakes waiting calls and frees the targets in
// the kernel.
func (a *Agent) Close() error {
	a.mu.Lock()
	a.cancel() // within the lock: no window is armed after it
	a.mu.Unlock()
	a.follow.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, t := range a.targets {
		if t.added {
			errs = append(errs, a.kernel.Remove(t.slot))
			t.added = false
		}
	}
	return errors.Join(append(errs, a.symbols.Close())...)
}
