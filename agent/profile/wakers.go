package profile

import (
	"cmp"
	"slices"
	"strings"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// maxWakers is how many wakers of one thread group and reason are told apart,
// where there are more than maxWakerRows of single threads.
const (
	maxWakers    = 16
	maxWakerRows = 4096
)

// Names that stand in a waker's place for what is no thread, or has no name.
const (
	WakerInterrupt = "interrupt"
	WakerIdle      = "idle"
	WakerNobody    = "nobody"
	WakerUndrawn   = "not drawn"
	WakerOther     = "other"
	WakerExited    = "[exited]" // a thread that was gone before its name was read
)

// Wakers says who ended the blocked time of each thread and reason, from the
// drawn intervals: its time adds up, over the wakers, to the account's exact
// total. Too many of them are given for whole thread groups instead. nameOf gives the name of a thread of another
// target or none; in.Comms is asked first.
//
// A wake from an interrupt or softirq is the interrupt's: the thread beneath
// happened to run. That holds for the loopback device too, whose softirq runs
// inside the sender's call.
func Wakers(in Input, nameOf func(tgid, tid uint32) (string, bool)) []*rungv1.Waker {
	w := &wakers{builder: builder{in: in, kernel: map[uint64]string{}}, nameOf: nameOf, interrupts: map[uint64]bool{}}
	all, _ := strata(in.Threads, in.OffCPU)
	for _, w.whole = range []bool{false, true} {
		w.sums = map[sleep]map[wakerKey]*wakerSum{}
		for i := range all {
			if all[i].state == bpf.StateBlocked {
				w.add(&all[i])
			}
		}
		if w.rows() <= maxWakerRows {
			break
		}
	}
	return w.list()
}

// sleep is who slept in what. comm and tid are not set where rows are of whole
// groups.
type sleep struct {
	group  string
	comm   string
	tid    uint32
	reason Reason
}

type wakerKey struct {
	kind    rungv1.Waker_Kind
	group   string
	tid     uint32 // not set where rows are of whole groups
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
	whole      bool            // rows are of whole groups
	sums       map[sleep]map[wakerKey]*wakerSum
}

func (w *wakers) add(s *stratum) {
	comm := symbol.Printable(w.in.Comms[s.tid])
	at := sleep{group: w.in.Groups.Group(comm, s.tid), reason: NameReason(s.reason)}
	if !w.whole && comm != "" {
		at.comm, at.tid = comm, s.tid
	}
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
	key.group = w.in.Groups.Group(comm, row.WakerTid)
	if !w.whole {
		key.tid = row.WakerTid
	}
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

// rows is how many there are.
func (w *wakers) rows() int {
	n := 0
	for _, sums := range w.sums {
		n += len(sums)
	}
	return n
}

// list orders the wakers and puts the small ones together.
func (w *wakers) list() []*rungv1.Waker {
	var out []*rungv1.Waker
	for at, sums := range w.sums {
		var own []*rungv1.Waker
		for key, sum := range sums {
			m := at.message(key.kind, key.group)
			m.WakerComm, m.WakerTid, m.Outside, m.Draws, m.Ns = sum.mainComm(), key.tid, key.outside, sum.draws, sum.ns
			own = append(own, m)
		}
		slices.SortFunc(own, compareWakers)
		if w.whole && len(own) > maxWakers {
			other := at.message(rungv1.Waker_KIND_OTHER, WakerOther)
			for _, small := range own[maxWakers:] {
				other.Draws += small.Draws
				other.Ns += small.Ns
			}
			own = append(own[:maxWakers], other)
		}
		out = append(out, own...)
	}
	// Stable: within a thread and reason the order stays, "other" last.
	slices.SortStableFunc(out, func(a, b *rungv1.Waker) int {
		return cmp.Or(strings.Compare(a.ThreadGroup, b.ThreadGroup), cmp.Compare(a.Tid, b.Tid), strings.Compare(a.Reason, b.Reason),
			strings.Compare(a.Object, b.Object), compareBool(a.Limited, b.Limited))
	})
	return out
}

func (s sleep) message(kind rungv1.Waker_Kind, waker string) *rungv1.Waker {
	return &rungv1.Waker{ThreadGroup: s.group, Comm: s.comm, Tid: s.tid,
		Reason: s.reason.Name, Object: s.reason.Object, Limited: s.reason.Limited, Kind: kind, WakerGroup: waker}
}

func compareWakers(a, b *rungv1.Waker) int {
	return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Kind, b.Kind), strings.Compare(a.WakerGroup, b.WakerGroup),
		cmp.Compare(a.WakerTid, b.WakerTid), compareBool(a.Outside, b.Outside))
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
