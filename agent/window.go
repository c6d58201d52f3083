package agent

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/bpf"
)

// window is a step on one target. After arming it belongs to the goroutine of
// [Agent.run]; endLate is guarded by Agent.mu until the step is closing.
type window struct {
	step      *step
	target    *target
	message   *rungv1.Target // as it was when armed
	identity  uint64         // of the target when armed
	slot      bpf.Slot
	spec      bpf.Window
	reader    *cgroup.Reader // nil for a process tree
	startLate uint64
	endLate   uint64
	moved     chan struct{} // EndStep moved the closing edge
	drained   chan struct{} // closed when the kernel side holds nothing of it
	result    result        // valid when drained
}

// result is what GetStep streams of a window, packed: an agent keeps many.
type result struct {
	record  []byte // a StepRecord on the wire
	profile []byte // gzipped pprof; empty when there is none, for a reason among the warnings
}

func (r result) bytes() int { return len(r.record) + len(r.profile) }

func pack(record *rungv1.StepRecord, profile []byte) result {
	// All strings of a record are valid UTF-8, the only thing that could fail.
	wire, _ := proto.Marshal(record)
	return result{record: wire, profile: profile}
}

func (r result) unpack() (*rungv1.StepRecord, error) {
	record := new(rungv1.StepRecord)
	return record, proto.Unmarshal(r.record, record)
}

// armTarget arms the opening edge on one target.
func (a *Agent) armTarget(s *step, t *target, planned time.Duration) (*window, error) {
	w := &window{
		step: s, target: t, message: t.message(), identity: t.identity, slot: t.slot,
		moved: make(chan struct{}, 1), drained: make(chan struct{}),
	}
	block := shortestBlock
	if t.Cgroup != "" {
		var err error
		if w.reader, err = cgroup.Open(a.roots, t.Cgroup, func() uint64 { return uint64(now()) }); err != nil {
			return nil, err
		}
		if quota, ok := w.reader.Quota(); ok {
			block = time.Duration(quota.PeriodUsec) * time.Microsecond
		}
	}
	if planned > 0 {
		block = max(block, planned/blocks)
	} else {
		block = max(block, defaultBlock)
	}
	w.spec = bpf.Window{ID: t.lastID + 1, Start: s.at, End: s.end, BlockNs: uint64(block)}
	if err := a.kernel.Arm(w.slot, w.spec); err != nil {
		w.close()
		return nil, fmt.Errorf("arm the opening edge: %w", err)
	}
	t.lastID = w.spec.ID
	w.startLate = late(s.at)
	return w, nil
}

// discard takes back an armed window of which nothing is wanted.
func (a *Agent) discard(w *window) {
	defer w.close()
	if err := a.kernel.SetEnd(w.slot, w.spec.ID, w.spec.Start+1); err != nil {
		a.log.Warn("discard window", "target", w.target.Name, "error", err)
		return
	}
	for _, err := range []error{a.drop(w), a.kernel.Release(w.slot, w.spec.ID)} {
		if err != nil {
			a.log.Warn("discard window", "target", w.target.Name, "error", err)
		}
	}
}

// drop drains a window unread. Its off-CPU intervals need no draining: it ended
// with its first nanosecond.
func (a *Agent) drop(w *window) error {
	_, err := a.kernel.Samples(w.slot, w.spec.ID)
	return err
}

// run follows a window through both edges, drains it and makes its record.
func (a *Agent) run(w *window) {
	defer a.finish(w)
	defer w.close()
	remembered := a.remember(w)
	defer remembered()
	first, err := a.readEdge(w, w.step.at)
	if err != nil {
		a.abandon(w)
		return
	}
	parked := a.park(w)
	end, err := a.awaitEnd(w)
	if err != nil {
		a.abandon(w)
		return
	}
	last, err := a.readEdge(w, end)
	if err != nil {
		a.abandon(w)
		return
	}
	remembered()
	record, profile := a.drain(w, end, first, last, parked)
	w.result = pack(record, profile)
	a.log.Info("window drained", "run", w.step.run, "step", w.step.step, "target", w.target.Name,
		"threads", len(record.Threads), "samples", record.GetSampling().GetSamples(), "void", record.VoidReason)
}

// awaitEnd waits until shortly before the closing edge, wherever EndStep puts
// it meanwhile, and then fixes it.
func (a *Agent) awaitEnd(w *window) (bpf.MonoNs, error) {
	for {
		a.mu.Lock()
		end := w.step.end
		wait := int64(end) - int64(now()) - int64(preparation)
		if wait <= 0 {
			w.step.closing = true
			a.mu.Unlock()
			return end, nil
		}
		a.mu.Unlock()
		timer := time.NewTimer(time.Duration(wait))
		select {
		case <-timer.C:
		case <-w.moved:
		case <-a.ctx.Done():
			timer.Stop()
			return 0, a.ctx.Err()
		}
		timer.Stop()
	}
}

// abandon leaves a record that says the agent stopped within the window.
func (a *Agent) abandon(w *window) {
	w.result = pack(&rungv1.StepRecord{
		Run: w.step.run, Step: w.step.step, Target: w.message, Host: a.host,
		VoidReason: "the agent was stopped within the window",
	}, nil)
}

func (w *window) close() {
	if w.reader != nil {
		w.reader.Close()
		w.reader = nil
	}
}
