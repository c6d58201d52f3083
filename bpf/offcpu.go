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
	drawn := before.drawn()
	var open []OffCPU
	if _, err := p.report(s, func(r *reported) { open = append(open, openDraw(r, w, s)...) }); err != nil {
		return nil, err
	}
	after, err := p.readStrata(s, id)
	if err != nil {
		return nil, err
	}
	out := make([]OffCPU, 0, len(after.keys)+len(open))
	for i, key := range after.keys {
		v := after.values[i]
		out = append(out, OffCPU{
			Tgid: key.Tgid, Tid: key.Tid, State: State(key.State), Reason: Reason(key.Reason),
			StackHash: key.Stack, WakerTgid: key.WakerTgid, WakerTid: key.WakerTid, WakerStackHash: key.WakerStack,
			Samples: v.Samples, WeightNs: v.Weight, LargestNs: v.Largest, SquaresNs2: 1e6 * float64(v.Squares),
		})
	}
	now := after.drawn()
	for _, row := range open {
		if now[row.Tid] == drawn[row.Tid] {
			out = append(out, row)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].before(&out[j]) })
	return out, p.dropStrata(after)
}

// strata are rows of the kernel's tables.
type strata struct {
	keys   []rungStratumKey
	values []rungStratum
	large  int // from here on they lie in large_strata
}

// drawn is how many intervals each thread has given, by tid.
func (s strata) drawn() map[uint32]uint64 {
	n := map[uint32]uint64{}
	for i, key := range s.keys {
		n[key.Tid] += s.values[i].Samples
	}
	return n
}

// readStrata reads the rows of a window, or those of all windows with id 0.
// Some lie in large_strata, once strata is full.
func (p *Profiler) readStrata(s Slot, id uint32) (strata, error) {
	var (
		found  strata
		keys   = make([]rungStratumKey, batch)
		values = make([]rungStratum, batch)
	)
	for _, table := range []*ebpf.Map{p.objects.Strata, p.objects.LargeStrata} {
		var cursor ebpf.MapBatchCursor
		for done := false; !done; {
			n, err := table.BatchLookup(&cursor, keys, values, nil)
			if done = errors.Is(err, ebpf.ErrKeyNotExist); err != nil && !done {
				return strata{}, fmt.Errorf("read off-CPU intervals: %w", err)
			}
			for i, key := range keys[:n] {
				if Slot(key.Slot) == s && (key.Window == id || id == 0) {
					found.keys, found.values = append(found.keys, key), append(found.values, values[i])
				}
			}
		}
		if table == p.objects.Strata {
			found.large = len(found.keys)
		}
	}
	return found, nil
}

// dropStrata removes rows that were read.
func (p *Profiler) dropStrata(rows strata) error {
	if err := errors.Join(
		deleteAll(p.objects.Strata, rows.keys[:rows.large]),
		deleteAll(p.objects.LargeStrata, rows.keys[rows.large:])); err != nil {
		return fmt.Errorf("remove off-CPU intervals: %w", err)
	}
	return nil
}

// deleteAll removes keys from a table; one that is gone is no error.
func deleteAll[K any](m *ebpf.Map, keys []K) error {
	for len(keys) > 0 {
		n, err := m.BatchDelete(keys, nil)
		if err == nil {
			return nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		keys = keys[min(n+1, len(keys)):] // it stops at the key that is gone
	}
	return nil
}

// openDraw gives the drawn interval that a thread was in at the end of a window:
// one row, or two where part of its wait to run was throttled.
func openDraw(r *reported, w Window, s Slot) []OffCPU {
	th := r.thread
	if th == nil || Slot(th.Slot) != s || th.Since >= uint64(w.End) {
		return nil
	}
	row := OffCPU{
		Tgid: th.Tgid, Tid: th.Tid, State: State(th.State), Reason: ReasonNone, StackHash: th.Draw.Stack,
		WakerTgid: th.Draw.WakerTgid, WakerTid: th.Draw.WakerTid, WakerStackHash: th.Draw.WakerStack, Samples: 1,
	}
	halvings, reason := th.Draw.Halvings, Reason(th.Reason)
	if rungState(th.State) == rungStateSTATE_UNKNOWN { // it has been in it since it was added
		row.State, reason = State(r.head.State), Reason(r.head.Reason)
	}
	switch {
	case th.ParkedSince == th.Since:
		row.StackHash, halvings = th.ParkedStack, 0
	case th.Draw.Drawn == 0:
		return nil
	}
	from, to := max(th.Since, uint64(w.Start)), uint64(w.End)
	switch row.State {
	case StateBlocked:
		row.Reason = reason
		return []OffCPU{row.weighing(to-from, halvings)}
	case StateRunQueue:
		var split Thread
		split.runnable(th.Since, r.head.Now, from, to, th.Throttle, r.head.Throttle)
		var rows []OffCPU
		for _, part := range []struct {
			state State
			ns    uint64
		}{{StateRunQueue, split.RunQueueNs}, {StateThrottled, split.ThrottledNs}} {
			if row.State = part.state; part.ns > 0 {
				rows = append(rows, row.weighing(part.ns, halvings))
			}
		}
		return rows
	}
	return nil
}

// weighing is the row of one interval drawn at a chance of 2^-halvings.
func (o OffCPU) weighing(ns uint64, halvings uint8) OffCPU {
	o.WeightNs = ns << halvings
	o.LargestNs = o.WeightNs
	chance := 1 / float64(uint64(1)<<halvings)
	o.SquaresNs2 = (1 - chance) * float64(o.WeightNs) * float64(o.WeightNs)
	return o
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

// Park takes the stacks of the target's threads that are off the CPU: to be called
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
