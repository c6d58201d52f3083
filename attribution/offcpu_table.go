package attribution

import (
	"cmp"
	"slices"
	"strings"
)

// OffCPULayers is the off-CPU time of one state by layer, in mean threads. Rows,
// Unattributed and Idle together hold all of it: their Ns add up to TotalNs.
type OffCPULayers struct {
	State string `json:"state"`
	// Rows are the layers in the rule file's order, `other` last.
	Rows []OffCPURow `json:"rows"`
	// Unattributed is time whose stack is missing, lost, or was cut before its owner.
	Unattributed []OffCPURow `json:"unattributed,omitempty"`
	// Idle is blocked time of threads that wait for work, by the idle rules. It is
	// exact: rules look at thread groups and reasons, not at stacks.
	Idle        ThreadTime `json:"idle"`
	TotalNs     int64      `json:"totalNs"`
	MeanThreads float64    `json:"meanThreads"`
}

// OffCPURow is one layer's part of a state. Its share is of the state's time
// without what is idle.
type OffCPURow struct {
	Layer string `json:"layer"`
	About string `json:"about,omitempty"`
	Estimated
}

// Layers charges off-CPU time to owners: the nearest caller with a layer, past
// the kernel and what is transparent. One element per state of OffCPUStates.
func (o *OffCPU) Layers(r *Rules) []OffCPULayers {
	var out []OffCPULayers
	for _, state := range OffCPUStates {
		out = append(out, o.layersOf(state, r))
	}
	return out
}

func (o *OffCPU) layersOf(state string, r *Rules) OffCPULayers {
	charger := newCharger(r, Owner, true)
	t := OffCPULayers{State: state}
	whole := draws{}
	layers := make([]draws, len(r.names))
	notes := map[string]draws{}
	var idle int64
	for i := range o.Stacks {
		s := &o.Stacks[i]
		if s.State != state {
			continue
		}
		t.TotalNs += s.Ns
		if s.isIdle(r) {
			idle += s.Ns
			continue
		}
		whole.add(s)
		v := charger.judge(&Stack{Frames: s.Frames, ThreadGroup: s.ThreadGroup, State: state})
		part := draws{}
		if v.layer < 0 {
			if notes[v.note] == nil {
				notes[v.note] = part
			}
			part = notes[v.note]
		} else {
			if layers[v.layer] == nil {
				layers[v.layer] = part
			}
			part = layers[v.layer]
		}
		part.add(s)
	}
	for i, name := range r.names {
		t.Rows = append(t.Rows, OffCPURow{name, r.about[i], whole.estimate(layers[i], o.WindowNs)})
	}
	for _, note := range sortedKeys(notes, strings.Compare) {
		t.Unattributed = append(t.Unattributed, OffCPURow{note, aboutNote(note), whole.estimate(notes[note], o.WindowNs)})
	}
	t.MeanThreads = float64(t.TotalNs) / float64(o.WindowNs)
	t.Idle = ThreadTime{idle, float64(idle) / float64(o.WindowNs)}
	return t
}

// TopStack is one stack of a state, over all threads that had it.
type TopStack struct {
	Frames []Frame `json:"frames"` // leaf first
	// Reason of blocked time, as ReasonName words it.
	Reason string `json:"reason,omitempty"`
	// ThreadGroups that had it, by name.
	ThreadGroups []string `json:"threadGroups"`
	Estimated
}

// TopStacks gives the n stacks of a state with the most time, descending; n <= 0
// gives all. Stacks differ by frames and reason. Shares are of the state's time
// in o, so what is idle is best left out before (WithoutIdle).
func TopStacks(o *OffCPU, state string, n int) []TopStack {
	type group struct {
		stack *OffCPUStack
		part  draws
		names map[string]bool
	}
	whole := draws{}
	groups := map[string]*group{}
	for i := range o.Stacks {
		s := &o.Stacks[i]
		if s.State != state {
			continue
		}
		whole.add(s)
		key := stackKey(s)
		g := groups[key]
		if g == nil {
			g = &group{s, draws{}, map[string]bool{}}
			groups[key] = g
		}
		g.part.add(s)
		g.names[s.ThreadGroup] = true
	}
	var out []TopStack
	for _, key := range sortedKeys(groups, strings.Compare) {
		g := groups[key]
		top := TopStack{Frames: g.stack.Frames, ThreadGroups: sortedKeys(g.names, strings.Compare), Estimated: whole.estimate(g.part, o.WindowNs)}
		if state == StateBlocked {
			top.Reason = ReasonName(g.stack.Reason, g.stack.Object, g.stack.Limited)
		}
		out = append(out, top)
	}
	slices.SortStableFunc(out, func(a, b TopStack) int { return cmp.Compare(b.Ns, a.Ns) })
	if n > 0 {
		out = out[:min(n, len(out))]
	}
	return out
}

func stackKey(s *OffCPUStack) string {
	var sb strings.Builder
	for _, f := range s.Frames {
		sb.WriteString(f.Function)
		sb.WriteByte(0)
		sb.WriteString(f.Mapping)
		sb.WriteByte(0)
	}
	sb.WriteString(ReasonName(s.Reason, s.Object, s.Limited))
	return sb.String()
}

func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
