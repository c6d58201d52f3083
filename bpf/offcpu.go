//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"sort"

	"github.com/cilium/ebpf"
)

// State is what a thread was doing over an interval.
type State uint32

// States, as account.h numbers them.
const (
	StateOnCPU     = State(rungStateSTATE_ON_CPU)
	StateRunQueue  = State(rungStateSTATE_RUN_QUEUE)
	StateBlocked   = State(rungStateSTATE_BLOCKED)
	StateStopped   = State(rungStateSTATE_STOPPED)
	StateThrottled = State(rungStateSTATE_THROTTLED)
)

// OffCPU is drawn off-CPU intervals of one stratum (thread, state, reason) that
// shared their stack and their waker. A stratum's exact total is in Thread; its
// share for one stack is that stack's WeightNs over those of the stratum.
type OffCPU struct {
	Tgid, Tid uint32
	State     State
	Reason    Reason // ReasonNone but for StateBlocked
	// StackHash is the key for Profiler.Stack; 0 when the stack was lost.
	StackHash uint64
	// The thread that ended the interval, or that an interrupt found running when
	// it did: WakerStackHash tells. 0 when the interval had not ended in time.
	WakerTgid, WakerTid uint32
	WakerStackHash      uint64
	// Samples drawn; Σ and largest of their durations ÷ chance; and
	// Σ (1 - chance) × (duration ÷ chance)², of which the sampling variance of
	// WeightNs is the estimate.
	Samples, WeightNs, LargestNs uint64
	SquaresNs2                   float64
}

// OffCPU takes the drawn intervals of an ended window out of the kernel's table,
// those that were open at its end included, in a fixed order.
func (p *Profiler) OffCPU(s Slot, id uint32) ([]OffCPU, error) {
	p.mu.Lock()
	_, found, err := p.window(s, id)
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	w := *found
	p.mu.Unlock()
	if w.End == 0 || Now() < w.End {
		return nil, fmt.Errorf("window %d has not ended", id)
	}
	// A thread asleep at the edge is credited by the programs when it wakes, or
	// by us: by us if its strata have not grown around our look at it. After the
	// end each thread can be credited once more, no more.
	before, err := p.readStrata(s, id)
	if err != nil {
		return nil, err
	}
	threads, err := p.report(s)
	if err != nil {
		return nil, err
	}
	after, err := p.readStrata(s, id)
	if err != nil {
		return nil, err
	}
	grown := map[uint32]uint64{}
	out := make([]OffCPU, 0, len(after))
	for key, v := range after {
		grown[key.Tid] += v.Samples - before[key].Samples
		out = append(out, OffCPU{
			Tgid: key.Tgid, Tid: key.Tid, State: State(key.State), Reason: Reason(key.Reason),
			StackHash: key.Stack, WakerTgid: key.WakerTgid, WakerTid: key.WakerTid, WakerStackHash: key.WakerStack,
			Samples: v.Samples, WeightNs: v.Weight, LargestNs: v.Largest, SquaresNs2: 1e6 * float64(v.Squares),
		})
	}
	for _, r := range threads {
		if open, ok := openDraw(r, w, s); ok && grown[r.head.Tid] == 0 {
			out = append(out, open)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].before(&out[j]) })
	return out, p.dropStrata(after)
}

func (p *Profiler) readStrata(s Slot, id uint32) (map[rungStratumKey]rungStratum, error) {
	var (
		found  = map[rungStratumKey]rungStratum{}
		cursor ebpf.MapBatchCursor
		keys   = make([]rungStratumKey, batch)
		values = make([]rungStratum, batch)
	)
	for {
		n, err := p.objects.Strata.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil, fmt.Errorf("read off-CPU intervals: %w", err)
		}
		for i, key := range keys[:n] {
			if Slot(key.Slot) == s && key.Window == id {
				found[key] = values[i]
			}
		}
		if err != nil {
			return found, nil
		}
	}
}

func (p *Profiler) dropStrata(done map[rungStratumKey]rungStratum) error {
	for key := range done {
		if err := p.objects.Strata.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove off-CPU intervals: %w", err)
		}
	}
	return nil
}

// openDraw gives the drawn interval that a thread was in at the end of a window.
func openDraw(r reported, w Window, s Slot) (OffCPU, bool) {
	th := r.thread
	if th == nil || Slot(th.Slot) != s || th.Since >= uint64(w.End) {
		return OffCPU{}, false
	}
	out := OffCPU{
		Tgid: th.Tgid, Tid: th.Tid, State: State(th.State), Reason: ReasonNone, StackHash: th.Draw.Stack,
		WakerTgid: th.Draw.WakerTgid, WakerTid: th.Draw.WakerTid, WakerStackHash: th.Draw.WakerStack, Samples: 1,
	}
	halvings := th.Draw.Halvings
	if out.State == State(rungStateSTATE_UNKNOWN) {
		out.State = State(r.head.State)
		out.Reason = Reason(r.head.Reason)
	}
	switch {
	case out.State == StateBlocked && th.ParkedSince == th.Since:
		out.StackHash, halvings = th.ParkedStack, 0
	case th.Draw.Drawn == 0 || out.State != StateBlocked && out.State != StateRunQueue:
		return OffCPU{}, false
	}
	if out.State == StateBlocked && rungState(th.State) == rungStateSTATE_BLOCKED {
		out.Reason = Reason(th.Reason)
	}
	out.WeightNs = (uint64(w.End) - max(th.Since, uint64(w.Start))) << halvings
	out.LargestNs = out.WeightNs
	chance := 1 / float64(uint64(1)<<halvings)
	out.SquaresNs2 = (1 - chance) * float64(out.WeightNs) * float64(out.WeightNs)
	return out, true
}

func (o *OffCPU) before(p *OffCPU) bool {
	switch {
	case o.Tid != p.Tid:
		return o.Tid < p.Tid
	case o.State != p.State:
		return o.State < p.State
	case o.Reason != p.Reason:
		return o.Reason < p.Reason
	case o.StackHash != p.StackHash:
		return o.StackHash < p.StackHash
	case o.WakerTid != p.WakerTid:
		return o.WakerTid < p.WakerTid
	}
	return o.WakerStackHash < p.WakerStackHash
}

// Park takes the stacks of the target's threads that are asleep: to be called
// just after the opening edge of a window, so that their time in it has a stack.
func (p *Profiler) Park(s Slot) error {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	if err := p.objects.ReportSlot.Set(uint32(s)); err != nil {
		return fmt.Errorf("take the stacks of sleeping threads: %w", err)
	}
	if _, err := readIter(p.parks); err != nil {
		return fmt.Errorf("take the stacks of sleeping threads: %w", err)
	}
	return nil
}
