package profile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

func nameNone(tgid, tid uint32) (string, bool) { return "", false }

func TestWakers(t *testing.T) {
	in := offCPUInput()
	in.OffCPU[1].WakerTid, in.OffCPU[1].WakerStackHash = 0, 113 // the idle loop
	in.OffCPU = append(in.OffCPU,
		bpf.OffCPU{Tgid: 10, Tid: 11, State: bpf.StateBlocked, Reason: futexReason, StackHash: 102, Samples: 1, WeightNs: 50_000},                                                 // open at the end
		bpf.OffCPU{Tgid: 10, Tid: 11, State: bpf.StateBlocked, Reason: futexReason, StackHash: 102, Samples: 1, WeightNs: 30_000, WakerTgid: 7, WakerTid: 8, WakerStackHash: 111}, // a client
		bpf.OffCPU{Tgid: 10, Tid: 11, State: bpf.StateBlocked, Reason: futexReason, StackHash: 102, Samples: 1, WeightNs: 20_000, WakerTgid: 7, WakerTid: 9, WakerStackHash: 111},
	)
	for i := range in.OffCPU { // drawn in full: parts go by weight alone
		in.OffCPU[i].SquaresNs2 = 0
	}
	got := Wakers(in, func(tgid, tid uint32) (string, bool) { return "client-1\x1b", tgid == 7 && tid == 8 })
	futex := func(kind rungv1.Waker_Kind, group, comm string, outside bool, draws, ns uint64) *rungv1.Waker {
		return &rungv1.Waker{ThreadGroup: "worker-*", Comm: "worker-3", Tid: 11, Reason: "futex", Limited: true, Kind: kind, WakerGroup: group, WakerComm: comm, Outside: outside, Draws: draws, Ns: ns}
	}
	by := func(w *rungv1.Waker, tid uint32) *rungv1.Waker { w.WakerTid = tid; return w }
	want := []*rungv1.Waker{
		by(futex(rungv1.Waker_KIND_THREAD, "worker-*", "worker-12", false, 40, 600_001), 12),
		futex(rungv1.Waker_KIND_INTERRUPT, "interrupt", "", false, 30, 200_000),
		futex(rungv1.Waker_KIND_IDLE, "idle", "", false, 2, 100_000),
		futex(rungv1.Waker_KIND_NONE, "nobody", "", false, 1, 50_000),
		by(futex(rungv1.Waker_KIND_THREAD, "client-*?", "client-1?", true, 1, 30_000), 8),
		futex(rungv1.Waker_KIND_THREAD, "[exited]", "", true, 1, 20_000),
		{ThreadGroup: "worker-*", Comm: "worker-3", Tid: 11, Reason: "read", Object: "pipe", Kind: rungv1.Waker_KIND_UNDRAWN, WakerGroup: "not drawn", Ns: 77},
		{ThreadGroup: "worker-*", Comm: "worker-12", Tid: 12, Reason: "read", Object: "pipe", Kind: rungv1.Waker_KIND_NONE, WakerGroup: "nobody", Draws: 1, Ns: 500},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Rules put both the woken and the wakers into their groups.
func TestWakersByRules(t *testing.T) {
	in := offCPUInput()
	var err error
	if in.Groups, err = attribution.NewGrouper("third=worker-3", "twelfth=worker-12"); err != nil {
		t.Fatal(err)
	}
	got := Wakers(in, nameNone)
	if w := got[0]; w.ThreadGroup != "third" || w.WakerGroup != "twelfth" || w.Comm != "worker-3" || w.WakerComm != "worker-12" {
		t.Errorf("%v", w)
	}
	if w := got[len(got)-1]; w.ThreadGroup != "twelfth" {
		t.Errorf("%v", w)
	}
}

// So many wakers that they are given by groups are cut to the largest; all of the
// time stays.
func TestWakersAreBounded(t *testing.T) {
	in := offCPUInput()
	in.OffCPU = nil
	for i := range uint32(40 * 120) {
		tid := 1000 + i
		in.Comms[tid] = fmt.Sprintf("%c-waker", 'A'+i%40)
		in.OffCPU = append(in.OffCPU, bpf.OffCPU{Tgid: 10, Tid: 11, State: bpf.StateBlocked, Reason: futexReason, StackHash: 101,
			Samples: 1, WeightNs: uint64(100 + i%40), WakerTgid: 10, WakerTid: tid, WakerStackHash: 111})
	}
	got := Wakers(in, nameNone)
	var ns, draws uint64
	futex := 0
	for _, w := range got {
		if w.Reason == "futex" {
			ns, draws, futex = ns+w.Ns, draws+w.Draws, futex+1
		}
	}
	if futex != maxWakers+1 || ns != 1_000_001 || draws != 40*120 {
		t.Errorf("%d wakers with %d ns of %d draws", futex, ns, draws)
	}
	if got[0].WakerGroup != "h-waker" || got[maxWakers].Kind != rungv1.Waker_KIND_OTHER {
		t.Errorf("first %v, last %v", got[0], got[maxWakers])
	}
	rand.Shuffle(len(in.OffCPU), func(i, j int) { in.OffCPU[i], in.OffCPU[j] = in.OffCPU[j], in.OffCPU[i] })
	if diff := cmp.Diff(got, Wakers(in, nameNone), protocmp.Transform()); diff != "" {
		t.Errorf("another order of rows gave other wakers:\n%s", diff)
	}
}
