package profile

import (
	"cmp"
	"slices"
	"strings"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// maxWakers is how many wakers of one thread group and reason are told apart.
const maxWakers = 16

// Names that stand in a waker's place for what is no thread, or has no name.
const (
	WakerInterrupt = "interrupt"
	WakerIdle      = "idle"
	WakerNobody    = "nobody"
	WakerUndrawn   = "not drawn"
	WakerOther     = "other"
	WakerExited    = "[exited]" // a thread that was gone before its name was read
)

// Wakers says who ended the blocked time of each thread group and reason, from
// the drawn intervals: the time of a group and reason adds up, over its wakers,
// to the account's exact total. nameOf gives the name of a thread of another
// target or none; in.Comms is asked first.
//
// A wake from an interrupt or softirq is the interrupt's: the thread beneath
// happened to run. That holds for the loopback device too, whose softirq runs
// inside the sender's call.
func Wakers(in Input, nameOf func(tgid, tid uint32) (string, bool)) []*rungv1.Waker {
	w := &wakers{builder: builder{in: in, kernel: map[uint64]string{}}, nameOf: nameOf,
		interrupts: map[uint64]bool{}, sums: map[sleep]map[wakerKey]*wakerSum{}}
	all, _ := strata(in.Threads, in.OffCPU)
	for i := range all {
		if all[i].state == bpf.StateBlocked {
			w.add(&all[i])
		}
	}
	return w.list()
}

// sleep is who slept in what.
type sleep struct {
	group  string
	reason Reason
}

type wakerKey struct {
	kind    rungv1.Waker_Kind
	group   string
	outside bool
}

type wakerSum struct {
	draws, ns uint64
	byComm    map[string]uint64 // ns
}

type wakers struct {
	builder    // for kernel names
	nameOf     func(tgid, tid uint32) (string, bool)
	interrupts map[uint64]bool // by stack hash
	sums       map[sleep]map[wakerKey]*wakerSum
}

func (w *wakers) add(s *stratum) {
	at := sleep{attribution.ThreadGroup(symbol.Printable(w.in.Comms[s.tid])), NameReason(s.reason)}
	if w.in.Arch != "" {
		at.reason = nameReason(w.in.Arch, s.reason)
	}
	if w.sums[at] == nil {
		w.sums[at] = map[wakerKey]*wakerSum{}
	}
	if s.ns == nil {
		sumOf(w.sums[at], wakerKey{kind: rungv1.Waker_KIND_UNDRAWN, group: WakerUndrawn}).ns += s.totalNs
		return
	}
	for i, row := range s.rows {
		key, comm := w.waker(row)
		sum := sumOf(w.sums[at], key)
		sum.draws += row.Samples
		sum.ns += uint64(s.ns[i])
		if comm != "" {
			sum.byComm[comm] += uint64(s.ns[i])
		}
	}
}

func sumOf(m map[wakerKey]*wakerSum, key wakerKey) *wakerSum {
	if m[key] == nil {
		m[key] = &wakerSum{byComm: map[string]uint64{}}
	}
	return m[key]
}

// waker tells who ended a drawn interval.
func (w *wakers) waker(row bpf.OffCPU) (key wakerKey, comm string) {
	switch {
	case row.WakerTid == 0 && row.WakerStackHash == 0:
		return wakerKey{kind: rungv1.Waker_KIND_NONE, group: WakerNobody}, ""
	case w.isInterrupt(row.WakerStackHash):
		return wakerKey{kind: rungv1.Waker_KIND_INTERRUPT, group: WakerInterrupt}, ""
	case row.WakerTid == 0:
		return wakerKey{kind: rungv1.Waker_KIND_IDLE, group: WakerIdle}, ""
	}
	key.kind = rungv1.Waker_KIND_THREAD
	comm, ok := w.in.Comms[row.WakerTid]
	if !ok {
		key.outside = true
		comm, ok = w.nameOf(row.WakerTgid, row.WakerTid)
	}
	if !ok {
		key.group = WakerExited
		return key, ""
	}
	comm = symbol.Printable(comm)
	key.group = attribution.ThreadGroup(comm)
	return key, comm
}

// isInterrupt says whether interrupt handling lies on a waker's kernel stack.
func (w *wakers) isInterrupt(hash uint64) bool {
	is, ok := w.interrupts[hash]
	if ok || hash == 0 {
		return is
	}
	stack, _ := w.in.Stack(hash)
	var names []string
	for _, f := range stack.Frames {
		if f.Kind == bpf.FrameKernel {
			at := f.Value
			if len(names) > 0 && at > 0 {
				at-- // a return address, as in userPart
			}
			names = append(names, w.kernelName(at))
		}
	}
	_, at := classify(names[trimOwn(names):])
	w.interrupts[hash] = at >= 0
	return at >= 0
}

// list orders the wakers and puts the small ones together.
func (w *wakers) list() []*rungv1.Waker {
	var out []*rungv1.Waker
	for at, sums := range w.sums {
		var own []*rungv1.Waker
		for key, sum := range sums {
			own = append(own, &rungv1.Waker{
				ThreadGroup: at.group, Reason: at.reason.Name, Object: at.reason.Object, Limited: at.reason.Limited,
				Kind: key.kind, WakerGroup: key.group, WakerComm: sum.mainComm(), Outside: key.outside, Draws: sum.draws, Ns: sum.ns,
			})
		}
		slices.SortFunc(own, compareWakers)
		if len(own) > maxWakers {
			other := &rungv1.Waker{ThreadGroup: at.group, Reason: at.reason.Name, Object: at.reason.Object, Limited: at.reason.Limited,
				Kind: rungv1.Waker_KIND_OTHER, WakerGroup: WakerOther}
			for _, small := range own[maxWakers:] {
				other.Draws += small.Draws
				other.Ns += small.Ns
			}
			own = append(own[:maxWakers], other)
		}
		out = append(out, own...)
	}
	// Stable: within a group and reason the order stays, "other" last.
	slices.SortStableFunc(out, func(a, b *rungv1.Waker) int {
		return cmp.Or(strings.Compare(a.ThreadGroup, b.ThreadGroup), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Object, b.Object), compareBool(a.Limited, b.Limited))
	})
	return out
}

func compareWakers(a, b *rungv1.Waker) int {
	return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.WakerGroup, b.WakerGroup), compareBool(a.Outside, b.Outside))
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// mainComm is the name with the most time, the first of equals.
func (s *wakerSum) mainComm() string {
	best := ""
	for comm, ns := range s.byComm {
		if best == "" || ns > s.byComm[best] || ns == s.byComm[best] && comm < best {
			best = comm
		}
	}
	return best
}
