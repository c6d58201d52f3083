// Package profile makes the pprof of one target and one window out of the
// kernel side's samples: it names their frames, says with pseudo-frames how
// the kernel was entered, and counts what it could not name. It also tells who
// woke the target's threads. It does not decide which layer a frame belongs to;
// that is package attribution's part.
//
// On-CPU samples have the values samples and cpu. Off-CPU samples have the one
// of their state: run-queue, throttled or blocked, each of which adds up, thread
// by thread and reason by reason, to the account's exact total.
//
// Frames that are no functions stand in mappings of their own:
//
//	[kernel.entry]  syscall:NAME, page fault, interrupt, kernel
//	[rung]          [missing stack], [lost stack], [truncated]
//
// Kernel addresses are left out of the profile: names suffice, and where the
// kernel lies in memory is the host's secret.
package profile

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// Mappings and functions of frames that are not a target's code.
const (
	KernelMapping = "[kernel.kallsyms]"
	EntryMapping  = "[kernel.entry]"
	RungMapping   = "[rung]"

	MissingStack = "[missing stack]" // the walk gave no user frames
	LostStack    = "[lost stack]"    // the kernel side's table was full
	Truncated    = "[truncated]"     // callers beyond the walk's limit

	UnknownKernel = "[unknown] " + KernelMapping // a kernel frame without a name
)

// Labels of each sample. The first three are strings, the others numbers
// without a unit; the format drops such a number where it is 0, so an on-CPU
// sample without LabelBlock is of block 0. Where a thread's name is not known,
// its labels are absent.
const (
	LabelThreadGroup = "thread_group"
	LabelThread      = "thread"
	LabelState       = "state"
	LabelTid         = "tid"
	LabelBlock       = "block" // on-CPU only

	StateOnCPU = "on-cpu"
)

// Labels of off-CPU samples. The strings are those of a blocked one's [Reason];
// where it has no object or limit, the label is absent.
const (
	LabelReason  = "reason"
	LabelObject  = "object"
	LabelLimited = "limited" // "true"

	// LabelDraws is how many intervals the value was estimated from.
	LabelDraws = "draws"
	// LabelStderr is the value's standard error in ns, 0 when every interval was
	// drawn. Those of one thread, state and reason depend on each other, since
	// their sum is exact.
	LabelStderr = "stderr_ns"
	// LabelSpread is the standard error in ns that the value would have if the
	// sum were not exact: its squares do add up over stacks, and the error of
	// several stacks together follows from them.
	LabelSpread = "spread_ns"
	// LabelLargest is the part of the value that one draw brought, in ns.
	LabelLargest = "largest_ns"
)

// Places of a sample's values.
const (
	columnSamples = iota
	columnCPU
	columnRunQueue
	columnThrottled
	columnBlocked
	columns
)

// Process names user addresses of one process; *symbol.Process is one.
type Process interface {
	Lookup(addr uint64) symbol.Location
}

// Processes adapts a Symbolizer to Input.Process.
func Processes(s *symbol.Symbolizer) func(pid uint32) (Process, error) {
	return func(pid uint32) (Process, error) {
		p, err := s.Process(pid)
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// Input is what a profile is made of.
type Input struct {
	Samples []bpf.Sample                        // in any order
	OffCPU  []bpf.OffCPU                        // in any order
	Threads []bpf.Thread                        // the account, for off-CPU totals
	Stack   func(hash uint64) (bpf.Stack, bool) // such as (*bpf.Profiler).Stack
	Comms   map[uint32]string                   // thread name by tid
	Groups  *attribution.Grouper                // of threads; nil folds the digits of names
	Process func(pid uint32) (Process, error)   // asked once per process
	Kernel  symbol.KernelNamer                  // nil: kernel functions stay unnamed
	RateHz  uint32                              // sampling rate, >= 1
	Start   time.Time                           // of the window
	Length  time.Duration                       // of the window
	Arch    string                              // of the syscall numbers, as GOARCH; default this one
}

// Stats says how much of a profile a loss weakens.
type Stats struct {
	OnCPU  Losses // in clock ticks
	OffCPU Losses // in draws
	// Undrawn strata (thread, state, reason) have time and no stack, UndrawnNs
	// together.
	Undrawn, UndrawnNs uint64
	// Unaccounted draws were left out: the account gives their thread no such time.
	Unaccounted uint64
}

// Losses counts samples and how many of them a loss weakens. One may count under
// several losses, under each once.
type Losses struct {
	Samples       uint64
	LostStack     uint64 // no stack at all: table full
	MissingStack  uint64 // no user stack
	Truncated     uint64 // callers missing at the root
	NoProcess     uint64 // the process's mappings could not be read
	NoComm        uint64 // thread name not known
	UnnamedKernel uint64 // some kernel frame has no name
	// User is indexed by symbol.Loss: samples with some user frame so weakened.
	// Index symbol.Named stays 0.
	User symbol.Losses
}

// add counts n samples, each with the losses of one.
func (l *Losses) add(one *Losses, n uint64) {
	l.LostStack += one.LostStack * n
	l.MissingStack += one.MissingStack * n
	l.Truncated += one.Truncated * n
	l.NoProcess += one.NoProcess * n
	l.UnnamedKernel += one.UnnamedKernel * n
	for i := range l.User {
		l.User[i] += one.User[i] * n
	}
}

// Build returns the profile. The same input gives the same bytes when written,
// whatever the order of the samples. An error means that the input is
// unusable; losses are no errors, they are in Stats and in the frames.
func Build(in Input) (*profile.Profile, Stats, error) {
	if in.RateHz == 0 {
		return nil, Stats{}, errors.New("build profile: sampling rate is 0 Hz")
	}
	if in.Stack == nil || in.Process == nil {
		return nil, Stats{}, errors.New("build profile: no lookup for stacks or processes")
	}
	if in.Arch == "" {
		in.Arch = runtime.GOARCH
	}
	b := &builder{
		in:      in,
		table:   newTable(),
		samples: map[string]*profile.Sample{},
		procs:   map[uint32]Process{},
		kernel:  map[uint64]string{},
		stacks:  map[stackKey]namedStack{},
	}
	b.losses = &b.stats.OnCPU
	samples := slices.Clone(in.Samples)
	slices.SortFunc(samples, compareSamples)
	period := int64(1e9) / int64(in.RateHz)
	for _, s := range samples {
		b.add(s, period)
	}
	b.addOffCPU()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{
			{Type: "samples", Unit: "count"},
			{Type: "cpu", Unit: "nanoseconds"},
			{Type: StateRunQueue, Unit: "nanoseconds"},
			{Type: StateThrottled, Unit: "nanoseconds"},
			{Type: StateBlocked, Unit: "nanoseconds"},
		},
		DefaultSampleType: "cpu",
		PeriodType:        &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:            period,
		TimeNanos:         in.Start.UnixNano(),
		DurationNanos:     in.Length.Nanoseconds(),
		Sample:            b.order,
	}
	b.table.into(p)
	if err := p.CheckValid(); err != nil {
		return nil, b.stats, fmt.Errorf("build profile: %w", err)
	}
	return p, b.stats, nil
}

func compareSamples(a, b bpf.Sample) int {
	kernel := func(s bpf.Sample) int {
		if s.InKernel {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(a.Tgid, b.Tgid),
		cmp.Compare(a.Tid, b.Tid),
		cmp.Compare(a.Block, b.Block),
		cmp.Compare(a.StackHash, b.StackHash),
		cmp.Compare(kernel(a), kernel(b)),
		cmp.Compare(a.Syscall, b.Syscall),
		cmp.Compare(a.Count, b.Count),
	)
}

type builder struct {
	in      Input
	table   *table
	samples map[string]*profile.Sample // by stack and labels
	order   []*profile.Sample
	procs   map[uint32]Process // nil: could not be read
	kernel  map[uint64]string
	stacks  map[stackKey]namedStack
	groups  map[groupKey]*groupSum // of off-CPU samples; nil: of single threads
	stats   Stats
	losses  *Losses // of stats, of the kind of samples at hand
	drawn   bool    // stacks at hand were taken by our own programs in the scheduler
}

func (b *builder) add(s bpf.Sample, period int64) {
	if s.Count == 0 {
		return
	}
	b.losses.Samples += s.Count
	locs := b.stack(s)
	key := binary.LittleEndian.AppendUint32(nil, s.Tid)
	key = binary.LittleEndian.AppendUint32(key, s.Block)
	for _, l := range locs {
		key = binary.LittleEndian.AppendUint64(key, l.ID)
	}
	sample, ok := b.samples[string(key)]
	if !ok {
		sample = &profile.Sample{
			Location: locs,
			Value:    make([]int64, columns),
			Label:    map[string][]string{LabelState: {StateOnCPU}},
			NumLabel: map[string][]int64{LabelTid: {int64(s.Tid)}, LabelBlock: {int64(s.Block)}},
		}
		b.labelThread(sample.Label, s.Tid)
		b.samples[string(key)] = sample
		b.order = append(b.order, sample)
	}
	if _, ok := b.in.Comms[s.Tid]; !ok {
		b.losses.NoComm += s.Count
	}
	sample.Value[columnSamples] += int64(s.Count)
	sample.Value[columnCPU] += int64(s.Count) * period
}

func (b *builder) labelThread(labels map[string][]string, tid uint32) {
	if comm, ok := b.in.Comms[tid]; ok {
		comm = symbol.Printable(comm)
		labels[LabelThread] = []string{comm}
		labels[LabelThreadGroup] = []string{b.in.Groups.Group(comm, tid)}
	}
}

// process returns the symbols of a process, nil where it cannot be read.
func (b *builder) process(pid uint32) Process {
	p, ok := b.procs[pid]
	if !ok {
		var err error
		if p, err = b.in.Process(pid); err != nil {
			p = nil
		}
		b.procs[pid] = p
	}
	return p
}
