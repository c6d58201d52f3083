package profile

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// States of off-CPU samples, which are the names of their sample types too.
const (
	StateRunQueue  = "run-queue"
	StateThrottled = "throttled"
	StateBlocked   = "blocked"
)

// stateColumn gives an off-CPU state's name and its place among a sample's values.
func stateColumn(s bpf.State) (name string, column int) {
	switch s {
	case bpf.StateRunQueue:
		return StateRunQueue, columnRunQueue
	case bpf.StateThrottled:
		return StateThrottled, columnThrottled
	}
	return StateBlocked, columnBlocked
}

// drawnStack sums the draws of one stratum that shared their named frames.
type drawnStack struct {
	locs    []*profile.Location
	ns      int64
	draws   uint64
	squares float64
	largest uint64 // weight of the largest draw
}

// maxStrata is how many strata have samples of single threads. Where there are
// more, samples are of whole thread groups, as wakers are: those of 10,000 threads
// would be more than anybody reads, and than the agent should hold.
const maxStrata = 8192

// addOffCPU makes samples of off-CPU time: each stratum's adds up to its exact
// total. One of which nothing was drawn is a sample without a stack.
func (b *builder) addOffCPU() {
	b.losses, b.drawn = &b.stats.OffCPU, true
	all, unaccounted := strata(b.in.Threads, b.in.OffCPU)
	b.stats.Unaccounted = unaccounted
	calls := syscallsOf(b.in.OffCPU)
	if len(all) > maxStrata {
		b.groups = map[groupKey]*groupSum{}
	}
	for i := range all {
		s := &all[i]
		if s.ns == nil {
			b.stats.Undrawn++
			b.stats.UndrawnNs += s.totalNs
			lost := drawnStack{locs: []*profile.Location{b.table.pseudo(RungMapping, LostStack)}, ns: int64(s.totalNs)}
			b.addStratum(s, []*drawnStack{&lost})
			continue
		}
		b.addStratum(s, b.drawnStacks(s, calls))
	}
}

// drawnStacks names the stacks of a stratum, in the order of its rows.
func (b *builder) drawnStacks(s *stratum, calls map[uint64]int32) []*drawnStack {
	byStack := map[string]*drawnStack{}
	var order []*drawnStack
	for i, row := range s.rows {
		at := bpf.Sample{Tgid: row.Tgid, Tid: row.Tid, StackHash: row.StackHash, InKernel: true, Syscall: -1, Count: row.Samples}
		if nr, ok := row.Reason.Syscall(); ok {
			at.Syscall = nr
		} else if nr, ok := calls[row.StackHash]; ok && row.State != bpf.StateBlocked {
			at.Syscall = nr
		}
		b.losses.Samples += row.Samples
		locs := b.stack(at)
		id := stackID(locs)
		d := byStack[id]
		if d == nil {
			d = &drawnStack{locs: locs}
			byStack[id] = d
			order = append(order, d)
		}
		d.ns += s.ns[i]
		d.draws += row.Samples
		d.squares += row.SquaresNs2
		d.largest = max(d.largest, row.LargestNs)
	}
	if _, ok := b.in.Comms[s.tid]; !ok {
		for _, d := range order {
			b.losses.NoComm += d.draws
		}
	}
	return order
}

// syscallsOf tells the call of a stack from the blocked intervals that had it: a
// thread waits for the CPU with the stack it was blocked with, or was preempted
// with, and the number of its call is kept for the block alone. A stack that two
// calls share is left out.
func syscallsOf(rows []bpf.OffCPU) map[uint64]int32 {
	calls := map[uint64]int32{}
	shared := map[uint64]bool{}
	for _, row := range rows {
		nr, ok := row.Reason.Syscall()
		if !ok || row.State != bpf.StateBlocked || row.StackHash == 0 {
			continue
		}
		if other, ok := calls[row.StackHash]; ok && other != nr {
			shared[row.StackHash] = true
		}
		calls[row.StackHash] = nr
	}
	for hash := range shared {
		delete(calls, hash)
	}
	return calls
}

// groupKey is what the strata of a thread group that share a sample have in common.
type groupKey struct {
	group  string
	state  bpf.State
	reason bpf.Reason
	stack  string
}

// addStratum makes a sample of each stack of a stratum, or adds it to that of the
// thread group.
func (b *builder) addStratum(s *stratum, stacks []*drawnStack) {
	if b.groups == nil {
		labels := b.offCPULabels(s)
		for _, d := range stacks {
			b.order = append(b.order, b.offCPUSample(s, d, labels))
		}
		return
	}
	group := b.in.Groups.Group(symbol.Printable(b.in.Comms[s.tid]), s.tid)
	for _, d := range stacks {
		key := groupKey{group, s.state, s.reason, stackID(d.locs)}
		sum := b.groups[key]
		if sum == nil {
			sum = &groupSum{sample: b.offCPUSample(s, &drawnStack{locs: d.locs}, b.offCPULabels(s))}
			delete(sum.sample.Label, LabelThread)
			delete(sum.sample.NumLabel, LabelTid)
			b.groups[key] = sum
			b.order = append(b.order, sum.sample)
		}
		_, column := stateColumn(s.state)
		sum.sample.Value[column] += d.ns
		sum.sample.NumLabel[LabelDraws][0] += int64(d.draws)
		if d.draws > 0 {
			// Threads are drawn independently of each other: variances add up.
			sum.stderr = math.Hypot(sum.stderr, s.standardError(d.ns, d.squares))
			sum.spread = math.Hypot(sum.spread, s.spread(d.squares))
			sum.largest = math.Max(sum.largest, s.scale()*float64(d.largest))
			setErrors(sum.sample, sum.stderr, sum.spread, sum.largest)
		}
	}
}

// groupSum is a sample of a thread group, and its errors unrounded.
type groupSum struct {
	sample                  *profile.Sample
	stderr, spread, largest float64
}

// stackID tells named stacks apart.
func stackID(locs []*profile.Location) string {
	id := make([]byte, 0, 8*len(locs))
	for _, l := range locs {
		id = binary.LittleEndian.AppendUint64(id, l.ID)
	}
	return string(id)
}

// offCPULabels are those that the samples of a stratum share.
func (b *builder) offCPULabels(s *stratum) map[string][]string {
	name, _ := stateColumn(s.state)
	labels := map[string][]string{LabelState: {name}}
	b.labelThread(labels, s.tid)
	if s.state == bpf.StateBlocked {
		reason := nameReason(b.in.Arch, s.reason)
		labels[LabelReason] = []string{reason.Name}
		if reason.Object != "" {
			labels[LabelObject] = []string{reason.Object}
		}
		if reason.Limited {
			labels[LabelLimited] = []string{strconv.FormatBool(true)}
		}
	}
	return labels
}

// offCPUUnits are those of every off-CPU sample's numbers.
var offCPUUnits = map[string][]string{
	LabelDraws: {"count"}, LabelStderr: {"nanoseconds"}, LabelSpread: {"nanoseconds"}, LabelLargest: {"nanoseconds"},
}

func (b *builder) offCPUSample(s *stratum, d *drawnStack, labels map[string][]string) *profile.Sample {
	_, column := stateColumn(s.state)
	sample := &profile.Sample{
		Location: d.locs,
		Value:    make([]int64, columns),
		Label:    labels,
		NumLabel: map[string][]int64{LabelTid: {int64(s.tid)}, LabelDraws: {int64(d.draws)}},
		NumUnit:  offCPUUnits,
	}
	sample.Value[column] = d.ns
	if d.draws > 0 {
		setErrors(sample, s.standardError(d.ns, d.squares), s.spread(d.squares), s.scale()*float64(d.largest))
	}
	return sample
}

func setErrors(sample *profile.Sample, stderr, spread, largest float64) {
	for label, ns := range map[string]float64{LabelStderr: stderr, LabelSpread: spread, LabelLargest: largest} {
		sample.NumLabel[label] = []int64{int64(math.Round(ns))}
	}
}

// ownFrames are the kernel's functions on the way from the scheduler to the
// programs that take stacks, and those programs.
var ownFrames = []string{"bpf_prog_", "bpf_trampoline", "__bpf_trace", "bpf_trace_run", "__traceiter_", "bpf_get_stack", "bpf_get_task_stack"}

// maxOwnFrames bounds how far from the leaf they lie.
const maxOwnFrames = 12

// trimOwn counts the frames of the profiler itself at the leaf of a kernel stack
// of names, leaf first. Its programs' own names may be hidden: frames without a
// name count where one of ownFrames lies behind them.
func trimOwn(names []string) int {
	n := 0
	for i, name := range names[:min(len(names), maxOwnFrames)] {
		switch {
		case slices.ContainsFunc(ownFrames, func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
			n = i + 1
		case name != UnknownKernel:
			return n // the scheduler's from here on
		}
	}
	return n
}
