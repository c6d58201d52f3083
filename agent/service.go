package agent

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// chunkBytes is the length of a profile's parts on the wire.
const chunkBytes = 64 << 10

// ListTargets names the configured targets and what stands in the way of each.
func (a *Agent) ListTargets(context.Context, *rungv1.ListTargetsRequest) (*rungv1.ListTargetsResponse, error) {
	received := now()
	resp := &rungv1.ListTargetsResponse{}
	a.mu.Lock()
	for _, t := range a.targets {
		a.resolve(t)
		resp.Targets = append(resp.Targets, t.message())
	}
	a.mu.Unlock()
	resp.Clock = a.stamp(received)
	return resp, nil
}

// StartStep arms the opening edge of a window.
func (a *Agent) StartStep(ctx context.Context, req *rungv1.StartStepRequest) (*rungv1.StartStepResponse, error) {
	received := now()
	at, err := a.startStep(ctx, req)
	if err != nil {
		return nil, err
	}
	return &rungv1.StartStepResponse{AtMonoNs: uint64(at), Clock: a.stamp(received)}, nil
}

// EndStep arms its closing edge.
func (a *Agent) EndStep(_ context.Context, req *rungv1.EndStepRequest) (*rungv1.EndStepResponse, error) {
	received := now()
	end, err := a.endStep(req)
	if err != nil {
		return nil, err
	}
	return &rungv1.EndStepResponse{AtMonoNs: uint64(end), Clock: a.stamp(received)}, nil
}

// GetStep waits for a step to close and be drained, and streams it.
func (a *Agent) GetStep(req *rungv1.GetStepRequest, stream grpc.ServerStreamingServer[rungv1.GetStepResponse]) error {
	received := now()
	s, err := a.await(stream.Context(), stepKey{req.Run, req.Step})
	if err != nil {
		return err
	}
	for _, w := range s.windows {
		record, err := w.result.unpack()
		if err != nil {
			return fmt.Errorf("record of target %s: %w", w.target.Name, err)
		}
		if err := stream.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_Record{Record: record}}); err != nil {
			return fmt.Errorf("send record of target %s: %w", w.target.Name, err)
		}
		for rest := w.result.profile; len(rest) > 0; {
			n := min(len(rest), chunkBytes)
			if err := stream.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_ProfileChunk{ProfileChunk: rest[:n]}}); err != nil {
				return fmt.Errorf("send profile of target %s: %w", w.target.Name, err)
			}
			rest = rest[n:]
		}
	}
	return stream.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_Clock{Clock: a.stamp(received)}})
}

// await waits until a step is drained.
func (a *Agent) await(ctx context.Context, key stepKey) (*step, error) {
	a.mu.Lock()
	s := a.steps[key]
	var open bool
	var expiry string
	if s != nil {
		open, expiry = !s.ended && !s.closing && now() < s.end, a.wall(s.end)
	}
	a.mu.Unlock()
	if s == nil {
		return nil, a.unknown(key)
	}
	if open {
		return nil, status.Errorf(codes.FailedPrecondition, "%v has no closing edge yet: end it, or wait until it expires at %s", key, expiry)
	}
	select {
	case <-s.done:
		return s, nil
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}
