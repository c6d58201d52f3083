package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/bpf"
)

const (
	// lead is how far ahead an edge is put that shall come as soon as possible:
	// several times what arming it takes.
	lead = 10 * time.Millisecond
	// preparation is how long before an edge its reader opens files.
	preparation = 40 * time.Millisecond
	// defaultExpiry and maxExpiry are lengths of a window nobody ends.
	defaultExpiry = 10 * time.Minute
	maxExpiry     = 24 * time.Hour
	// blocks is the number of bootstrap blocks a window is cut into.
	blocks = 64
	// shortestBlock holds where there is no quota, whose period else is the least.
	shortestBlock = 10 * time.Millisecond
	defaultBlock  = 100 * time.Millisecond
)

type stepKey struct{ run, step string }

func (k stepKey) String() string { return fmt.Sprintf("step %q of run %q", k.step, k.run) }

// step is one window on one or several targets, all with the same edges.
// Guarded by Agent.mu, but for the parts of a window its goroutine owns.
type step struct {
	stepKey
	asked   *rungv1.StartStepRequest // as first received
	askedAt *uint64                  // of EndStep as first received
	at      bpf.MonoNs
	end     bpf.MonoNs // the expiry until EndStep
	ended   bool       // by EndStep
	closing bool       // the closing edge is at hand and cannot be moved any more
	windows []*window
	pending int           // windows not yet drained
	done    chan struct{} // closed when pending is 0
}

// startStep arms the windows of a step. See the API for what it promises.
func (a *Agent) startStep(ctx context.Context, req *rungv1.StartStepRequest) (bpf.MonoNs, error) {
	if err := checkStart(req); err != nil {
		return 0, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := a.checkEdge(req.AtMonoNs, req.BootId); err != nil {
		return 0, err
	}
	key := stepKey{req.Run, req.Step}
	a.mu.Lock()
	defer a.mu.Unlock()
	targets, err := a.named(req.Targets)
	if err != nil {
		return 0, err
	}
	for {
		if known := a.steps[key]; known != nil {
			if !sameStart(known.asked, req) {
				return 0, status.Errorf(codes.AlreadyExists, "%v has been started already with other edges or targets", key)
			}
			return known.at, nil
		}
		at := bpf.MonoNs(req.AtMonoNs)
		busy, earliest, err := a.conflict(targets, key, at)
		if err != nil {
			return 0, err
		}
		if busy == nil {
			if at == 0 {
				at = max(now()+bpf.MonoNs(lead), earliest)
			}
			return a.arm(key, req, targets, at)
		}
		// The window before the last one is still being read: seldom, and short.
		a.mu.Unlock()
		select {
		case <-busy.drained:
		case <-ctx.Done():
		case <-a.ctx.Done():
		}
		a.mu.Lock()
		if ctx.Err() != nil || a.ctx.Err() != nil {
			return 0, status.Errorf(codes.Unavailable, "%v: earlier windows of target %s are still being read", key, busy.target.Name)
		}
	}
}

// arm opens the counters and puts the opening edge into the kernel, with the
// expiry as the closing edge, so that an abandoned window needs nobody to close
// it. When one target fails, none is left armed.
func (a *Agent) arm(key stepKey, req *rungv1.StartStepRequest, targets []*target, at bpf.MonoNs) (bpf.MonoNs, error) {
	expires := time.Duration(req.ExpiresAfterNs)
	if expires == 0 {
		expires = defaultExpiry
	}
	s := &step{
		stepKey: key, asked: proto.CloneOf(req), at: at, end: at + bpf.MonoNs(expires),
		pending: len(targets), done: make(chan struct{}),
	}
	for _, t := range targets {
		w, err := a.armTarget(s, t, time.Duration(req.PlannedNs))
		if err != nil {
			for _, armed := range s.windows {
				a.discard(armed)
			}
			return 0, status.Errorf(codes.Unavailable, "%v: target %q: %v", key, t.Name, err)
		}
		s.windows = append(s.windows, w)
	}
	a.steps[key] = s
	for _, w := range s.windows {
		w.target.windows = append(w.target.windows, w)
		a.follow.Go(func() { a.run(w) })
	}
	a.log.Info("step armed", "run", key.run, "step", key.step, "targets", req.Targets, "at", a.wall(at), "expires", expires)
	return at, nil
}

// endStep arms the closing edge of a step.
func (a *Agent) endStep(req *rungv1.EndStepRequest) (bpf.MonoNs, error) {
	if err := a.checkEdge(req.AtMonoNs, req.BootId); err != nil {
		return 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.steps[stepKey{req.Run, req.Step}]
	switch {
	case s == nil:
		return 0, a.unknown(stepKey{req.Run, req.Step})
	case s.ended && *s.askedAt == req.AtMonoNs:
		return s.end, nil
	case s.ended:
		return 0, status.Errorf(codes.AlreadyExists, "%v has been ended already, at %d ns", s.stepKey, s.end)
	case s.closing || now() >= s.end:
		return 0, status.Errorf(codes.FailedPrecondition, "%v has expired at %s: its window is closed", s.stepKey, a.wall(s.end))
	}
	end := bpf.MonoNs(req.AtMonoNs)
	if end == 0 {
		end = max(now()+bpf.MonoNs(lead), s.at+1)
	}
	if end <= s.at {
		return 0, status.Errorf(codes.InvalidArgument, "%v would end %v before it begins", s.stepKey, time.Duration(s.at-end))
	}
	if end > s.end {
		return 0, status.Errorf(codes.OutOfRange, "%v expires at %d ns, before the edge at %d ns; start it with a later expiry", s.stepKey, s.end, end)
	}
	for _, w := range s.windows {
		if err := a.kernel.SetEnd(w.slot, w.spec.ID, end); err != nil {
			return 0, status.Errorf(codes.Internal, "%v: target %q: %v", s.stepKey, w.target.Name, err)
		}
		w.endLate = late(end)
	}
	s.ended, s.end, s.askedAt = true, end, &req.AtMonoNs
	for _, w := range s.windows {
		w.moved <- struct{}{} // has room for this one move
	}
	return end, nil
}

// late is how long ago an edge was when its arming ended; 0 if it lies ahead.
func late(edge bpf.MonoNs) uint64 {
	if t := now(); t > edge {
		return uint64(t - edge)
	}
	return 0
}

// unknown is the error for a step that is not here.
func (a *Agent) unknown(key stepKey) error {
	return status.Errorf(codes.NotFound, "unknown %v: this agent, which runs since %s, was restarted in it, or it was never started, or dropped (the last %d finished steps are kept)",
		key, a.wall(a.began), keptSteps)
}

// finish counts a drained window, and keeps the step if it was the last one.
func (a *Agent) finish(w *window) {
	a.mu.Lock()
	defer a.mu.Unlock()
	w.target.windows = slices.DeleteFunc(w.target.windows, func(other *window) bool { return other == w })
	close(w.drained)
	s := w.step
	if s.pending--; s.pending > 0 {
		return
	}
	close(s.done)
	a.finished = append(a.finished, s.stepKey)
	for len(a.finished) > keptSteps || len(a.finished) > 1 && a.kept() > keptBytes {
		a.log.Info("finished step dropped", "run", a.finished[0].run, "step", a.finished[0].step)
		delete(a.steps, a.finished[0])
		a.finished = slices.Delete(a.finished, 0, 1)
	}
}

// kept is how many bytes the finished steps take.
func (a *Agent) kept() int {
	n := 0
	for _, key := range a.finished {
		for _, w := range a.steps[key].windows {
			n += w.result.bytes()
		}
	}
	return n
}
