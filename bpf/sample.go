//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"sort"

	"github.com/cilium/ebpf"
)

// Stack flags, as sample.h sets them.
const (
	stackKernelTruncated = 1 << iota
	stackUserTruncated
	stackUserMissing
)

// batch is how many samples one system call moves.
const batch = 1024

// Samples takes the samples of a window out of the kernel's table, ordered, so
// that the same samples always come in the same order.
func (p *Profiler) Samples(s Slot, id uint32) ([]Sample, error) {
	var (
		out    []Sample
		taken  []rungSampleKey
		cursor ebpf.MapBatchCursor
		keys   = make([]rungSampleKey, batch)
		counts = make([]uint64, batch)
	)
	for done := false; !done; {
		n, err := p.objects.Samples.BatchLookup(&cursor, keys, counts, nil)
		if done = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !done {
			return nil, fmt.Errorf("read samples: %w", err)
		}
		for i, key := range keys[:n] {
			if Slot(key.Slot) != s || key.Window != id {
				continue
			}
			taken = append(taken, key)
			out = append(out, Sample{
				Tgid: key.Tgid, Tid: key.Tid, StackHash: key.Stack, Block: key.Block,
				InKernel: key.InKernel != 0, Syscall: key.Syscall, Count: counts[i],
			})
		}
	}
	if err := deleteAll(p.objects.Samples, taken); err != nil {
		return nil, fmt.Errorf("remove samples: %w", err)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].before(&out[j]) })
	return out, nil
}

func (s *Sample) before(o *Sample) bool {
	switch {
	case s.Tid != o.Tid:
		return s.Tid < o.Tid
	case s.Block != o.Block:
		return s.Block < o.Block
	case s.StackHash != o.StackHash:
		return s.StackHash < o.StackHash
	case s.Syscall != o.Syscall:
		return s.Syscall < o.Syscall
	}
	return !s.InKernel && o.InKernel
}

// Stack gives a stack that a sample named. False: it has been dropped, or the
// hash is 0.
func (p *Profiler) Stack(hash uint64) (Stack, bool) {
	var raw rungStack
	if hash == 0 || p.objects.Stacks.Lookup(hash, &raw) != nil {
		return Stack{}, false
	}
	stack := Stack{
		KernelTruncated: raw.Flags&stackKernelTruncated != 0,
		UserTruncated:   raw.Flags&stackUserTruncated != 0,
		UserMissing:     raw.Flags&stackUserMissing != 0,
	}
	for _, f := range raw.Frames[:min(int(raw.FramesUsed), len(raw.Frames))] {
		stack.Frames = append(stack.Frames, Frame{Value: f.Value, Extra: f.Extra, Kind: FrameKind(f.Kind)})
	}
	return stack, true
}

// stacksKept is the number of stacks up to which none is dropped.
const stacksKept = 2048

// dropStacks removes stacks that no armed window can refer to: those last seen
// before the oldest of them began. A stack that is seen again in the very
// moment of its removal is reported as lost, not silently.
func (p *Profiler) dropStacks() error {
	oldest := Now()
	for _, t := range p.slots {
		for _, w := range t.windows {
			if w.ID != 0 {
				oldest = min(oldest, w.Start)
			}
		}
	}
	var hash uint64
	var raw rungStack
	var old []uint64
	n := 0
	for it := p.objects.Stacks.Iterate(); it.Next(&hash, &raw); n++ {
		if raw.LastUsed < uint64(oldest) {
			old = append(old, hash)
		}
	}
	if n <= stacksKept {
		return nil
	}
	if err := deleteAll(p.objects.Stacks, old); err != nil {
		return fmt.Errorf("drop stacks: %w", err)
	}
	return nil
}
