package attribution

import "slices"

// verdict is where a stack's value goes.
type verdict struct {
	// layer is a display index, or -1 when the stack is unattributed.
	layer int
	// note is the kind of unattributed time, "" with a layer.
	note string
	// self is the frame under which the value is listed within its layer.
	self Frame
}

// charger applies rules to stacks. It remembers what it found per frame, since a
// profile repeats a few thousand frames in every stack.
type charger struct {
	rules  *Rules
	charge Charge
	kernel bool // kernel time to its owner
	// kernelLayer is the layer of kernel time, -1 when the rules have none.
	kernelLayer int
	seen        map[subject]ruling
}

type ruling struct {
	layer       int
	transparent bool
}

func newCharger(r *Rules, charge Charge, kernelToOwner bool) *charger {
	c := &charger{rules: r, charge: charge, kernel: kernelToOwner, seen: map[subject]ruling{}}
	c.kernelLayer = r.layerOf(subject{function: EntryKernel, mapping: MappingEntry})
	if r.names[c.kernelLayer] == Other {
		c.kernelLayer = -1
	}
	return c
}

func (c *charger) rule(f Frame, s *Stack) ruling {
	sub := subject{f.Function, f.Mapping, s.ThreadGroup, s.State}
	if r, ok := c.seen[sub]; ok {
		return r
	}
	r := ruling{layer: c.rules.layerOf(sub)}
	if c.charge == Owner {
		r.transparent = c.rules.isTransparent(sub)
	}
	c.seen[sub] = r
	return r
}

// judge charges one stack.
//
// The leaf decides whether time is the kernel's, and the leaf-most entry to
// which layer kernel time goes: an interrupt that came during a write is the
// interrupt's. A missing user stack does not hide that.
func (c *charger) judge(s *Stack) verdict {
	if len(s.Frames) == 0 {
		return verdict{layer: -1, note: NoteMissing}
	}
	leaf := s.Frames[0]
	if leaf.Mapping == MappingNote {
		return verdict{layer: -1, note: leaf.Function, self: leaf}
	}
	if leaf.Mapping == MappingKernel || leaf.Mapping == MappingEntry {
		return c.judgeKernel(s)
	}
	own := verdict{layer: c.rule(leaf, s).layer, self: leaf}
	// The instructions around a syscall stay where the kernel's time stays.
	if c.charge == Owner && (c.kernel || own.layer != c.kernelLayer) {
		return c.toOwner(own, s, 0)
	}
	return own
}

func (c *charger) judgeKernel(s *Stack) verdict {
	entry, at := leafMostEntry(s.Frames)
	own := verdict{layer: c.rule(entry, s).layer, self: entry}
	// Nobody on the stack asked for an interrupt; but a thread that is off the CPU
	// is in none, whatever names its stack holds.
	if c.charge != Owner || !c.kernel || entry.Function == EntryInterrupt && !slices.Contains(OffCPUStates, s.State) {
		return own
	}
	// The caller is the first user frame behind the kernel's; entries that lie
	// deeper (a fault during a syscall) are passed over.
	for at < len(s.Frames) && (s.Frames[at].Mapping == MappingKernel || s.Frames[at].Mapping == MappingEntry) {
		at++
	}
	return c.toOwner(own, s, at)
}

// toOwner moves a verdict to the nearest frame from position at that is not
// transparent. A caller that no rule names is an owner too: its layer is `other`.
// Skipping it would hand its time to whoever called it. Where all is transparent
// to the root, as in the garbage collector's own threads, nobody asked and the
// verdict stays.
func (c *charger) toOwner(own verdict, s *Stack, at int) verdict {
	for _, f := range s.Frames[at:] {
		if f.Mapping == MappingNote {
			return verdict{layer: -1, note: f.Function, self: own.self}
		}
		if r := c.rule(f, s); !r.transparent {
			return verdict{layer: r.layer, self: own.self}
		}
	}
	return own
}

// leafMostEntry returns the first entry pseudo-frame from the leaf and the
// position behind it. Kernel frames without any are "kernel" by convention.
func leafMostEntry(frames []Frame) (Frame, int) {
	for i, f := range frames {
		switch f.Mapping {
		case MappingEntry:
			return f, i + 1
		case MappingKernel:
		default:
			return Frame{EntryKernel, MappingEntry}, i
		}
	}
	return Frame{EntryKernel, MappingEntry}, len(frames)
}
