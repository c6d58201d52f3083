package agent

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/bpf"
)

// What a call to open a window is checked for, before anything is armed.

const (
	// An edge may lie this far ahead and, flagged as late, this far back.
	// Beyond, the caller's clock conversion is wrong.
	farthestAhead = time.Hour
	farthestBack  = 10 * time.Second
	// windowsHeld is how many windows of a target the kernel side holds.
	windowsHeld = 2
)

func checkStart(req *rungv1.StartStepRequest) error {
	switch {
	case req.Run == "" || req.Step == "":
		return errors.New("run and step must be named")
	case len(req.Run) > 256 || len(req.Step) > 256:
		return errors.New("the names of run and step may have at most 256 bytes each")
	case len(req.Targets) == 0:
		return errors.New("name at least one target; ListTargets names them")
	case req.ExpiresAfterNs > uint64(maxExpiry):
		return fmt.Errorf("expires_after_ns is longer than %v", maxExpiry)
	}
	return nil
}

// checkEdge refuses an instant of another boot, or one that no working clock
// conversion gives.
func (a *Agent) checkEdge(at uint64, bootID string) error {
	if bootID != "" && bootID != a.bootID {
		return status.Errorf(codes.FailedPrecondition, "the edge was converted for boot %s, but this host runs boot %s: it was restarted; read its clock again", bootID, a.bootID)
	}
	if at == 0 {
		return nil
	}
	if bootID == "" {
		return status.Error(codes.InvalidArgument, "at_mono_ns needs the boot_id that it was converted for")
	}
	ahead := int64(at - uint64(now()))
	if ahead > int64(farthestAhead) || ahead < -int64(farthestBack) {
		return status.Errorf(codes.OutOfRange, "the edge lies %v ahead of this host's CLOCK_MONOTONIC; possible are %v back to %v ahead", time.Duration(ahead), farthestBack, farthestAhead)
	}
	return nil
}

// named finds targets by name and brings them up to date.
func (a *Agent) named(names []string) ([]*target, error) {
	var found []*target
	for _, name := range names {
		i := slices.IndexFunc(a.targets, func(t *target) bool { return t.Name == name })
		if i < 0 {
			var known []string
			for _, t := range a.targets {
				known = append(known, t.Name)
			}
			return nil, status.Errorf(codes.NotFound, "no target %q; this agent has %q", name, known)
		}
		t := a.targets[i]
		if slices.Contains(found, t) {
			return nil, status.Errorf(codes.InvalidArgument, "target %q is named twice", name)
		}
		a.resolve(t)
		if t.unavailable != "" {
			return nil, status.Errorf(codes.FailedPrecondition, "target %q cannot be profiled: %s", name, t.unavailable)
		}
		found = append(found, t)
	}
	return found, nil
}

// sameStart compares what two calls ask for.
func sameStart(a, b *rungv1.StartStepRequest) bool {
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	slices.Sort(x.Targets)
	slices.Sort(y.Targets)
	return proto.Equal(x, y)
}

// conflict refuses a window that would overlap another one of the same target.
// It gives a window to wait for where the kernel side is full, and the earliest
// instant at which the new window can begin.
func (a *Agent) conflict(targets []*target, key stepKey, at bpf.MonoNs) (busy *window, earliest bpf.MonoNs, err error) {
	for _, t := range targets {
		for _, w := range t.windows {
			holder := w.step
			switch {
			case !holder.ended && !holder.closing && now() < holder.end:
				return nil, 0, status.Errorf(codes.FailedPrecondition, "target %q is held by %v until that is ended, or expires at %s; %v would overlap it: one run at a time can measure a target", t.Name, holder.stepKey, a.wall(holder.end), key)
			case at != 0 && at < holder.end:
				return nil, 0, status.Errorf(codes.FailedPrecondition, "target %q is held by %v until %d ns; %v would begin %v before that", t.Name, holder.stepKey, holder.end, key, time.Duration(holder.end-at))
			}
			earliest = max(earliest, holder.end)
		}
		if len(t.windows) >= windowsHeld {
			busy = t.windows[0]
		}
	}
	return busy, earliest, nil
}
