package profile

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

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

// addOffCPU makes samples of off-CPU time: each stratum's adds up to its exact
// total. One of which nothing was drawn is a sample without a stack.
func (b *builder) addOffCPU() {
	b.losses, b.drawn = &b.stats.OffCPU, true
	all, unaccounted := strata(b.in.Threads, b.in.OffCPU)
	b.stats.Unaccounted = unaccounted
	calls := syscallsOf(b.in.OffCPU)
	for i := range all {
		s := &all[i]
		if s.ns == nil {
			b.stats.Undrawn++
			b.stats.UndrawnNs += s.totalNs
			lost := drawnStack{locs: []*profile.Location{b.table.pseudo(RungMapping, LostStack)}, ns: int64(s.totalNs)}
			b.order = append(b.order, b.offCPUSample(s, &lost))
			continue
		}
		for _, d := range b.drawnStacks(s, calls) {
			b.order = append(b.order, b.offCPUSample(s, d))
		}
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
		var key []byte
		for _, l := range locs {
			key = binary.LittleEndian.AppendUint64(key, l.ID)
		}
		d := byStack[string(key)]
		if d == nil {
			d = &drawnStack{locs: locs}
			byStack[string(key)] = d
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

func (b *builder) offCPUSample(s *stratum, d *drawnStack) *profile.Sample {
	name, column := stateColumn(s.state)
	sample := &profile.Sample{
		Location: d.locs,
		Value:    make([]int64, columns),
		Label:    map[string][]string{LabelState: {name}},
		NumLabel: map[string][]int64{LabelTid: {int64(s.tid)}},
		NumUnit:  map[string][]string{},
	}
	sample.Value[column] = d.ns
	b.labelThread(sample, s.tid)
	if s.state == bpf.StateBlocked {
		reason := nameReason(b.in.Arch, s.reason)
		sample.Label[LabelReason] = []string{reason.Name}
		if reason.Object != "" {
			sample.Label[LabelObject] = []string{reason.Object}
		}
		if reason.Limited {
			sample.Label[LabelLimited] = []string{strconv.FormatBool(true)}
		}
	}
	number := func(label, unit string, v float64) {
		sample.NumLabel[label] = []int64{int64(math.Round(v))}
		sample.NumUnit[label] = []string{unit}
	}
	number(LabelDraws, "count", float64(d.draws))
	if d.draws > 0 {
		number(LabelStderr, "nanoseconds", s.standardError(d.ns, d.squares))
		number(LabelSpread, "nanoseconds", s.spread(d.squares))
		number(LabelLargest, "nanoseconds", s.scale()*float64(d.largest))
	}
	return sample
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
