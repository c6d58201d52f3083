package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// AgentConfig names the agent whose windows follow the steps.
type AgentConfig struct {
	Address string   // unix:///path, or HOST:PORT
	Targets []string // names among the agent's targets
	// CallTimeout bounds the calls that arm edges, FetchTimeout the one that
	// brings a step's record and profile.
	CallTimeout, FetchTimeout time.Duration
}

func (a *AgentConfig) validate() error {
	a.CallTimeout = or(a.CallTimeout, 2*time.Second)
	a.FetchTimeout = or(a.FetchTimeout, time.Minute)
	if a.Address == "" {
		return bad("agent", `""`, "unix:///PATH or HOST:PORT")
	}
	if len(a.Targets) == 0 {
		return bad("agent-target", `""`, "the name of one of the agent's targets")
	}
	return nil
}

// AgentRecord is what the agent measured on one target in one step.
type AgentRecord struct {
	Record    *rungv1.StepRecord
	ProfileGz []byte // gzipped pprof; empty if the agent sent none
}

// AgentRefusal is an answer of the agent that keeps a step from being profiled:
// another run holds the target, the target is gone. The step is not driven.
type AgentRefusal struct {
	Address, Step string
	Err           error
}

func (e *AgentRefusal) Error() string {
	return fmt.Sprintf("agent %s refused step %s: %s", e.Address, e.Step, reason(e.Err))
}

func (e *AgentRefusal) Unwrap() error { return e.Err }

// reason is the message of a status without gRPC's wrapping.
func reason(err error) string {
	if s, ok := status.FromError(err); ok {
		return fmt.Sprintf("%s (%s)", s.Message(), s.Code())
	}
	return err.Error()
}

// agentClient drives the agent's windows along the steps of one run.
type agentClient struct {
	cfg    AgentConfig
	run    string
	bootID string // ours
	conn   *grpc.ClientConn
	api    rungv1.AgentClient
	clock  offset
}

func dialAgent(cfg AgentConfig, run, bootID string) (*agentClient, error) {
	conn, err := grpc.NewClient(cfg.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: cfg.CallTimeout,
		}))
	if err != nil {
		return nil, bad("agent", fmt.Sprintf("%q", cfg.Address), "unix:///PATH or HOST:PORT: %v", err)
	}
	return &agentClient{cfg: cfg, run: run, bootID: bootID, conn: conn, api: rungv1.NewAgentClient(conn)}, nil
}

func (a *agentClient) close() { _ = a.conn.Close() }

// unreachable tells an agent that gave no answer from one that refused.
func unreachable(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// call makes one call and learns the agent's clock from its reply.
func call[R interface{ GetClock() *rungv1.ClockStamp }](ctx context.Context, a *agentClient, f func(ctx context.Context) (R, error)) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	sent := monoNow()
	r, err := f(ctx)
	if err == nil {
		a.clock.observe(sent, monoNow(), r.GetClock())
	}
	return r, err
}

// check finds the targets. An agent that cannot be reached is no refusal.
func (a *agentClient) check(ctx context.Context) error {
	var got *rungv1.ListTargetsResponse
	// The first round trip pays for the connection; the second has the tighter clock.
	for range 3 {
		var err error
		got, err = call(ctx, a, func(ctx context.Context) (*rungv1.ListTargetsResponse, error) {
			return a.api.ListTargets(ctx, &rungv1.ListTargetsRequest{})
		})
		if err != nil {
			return err
		}
	}
	var names []string
	found := map[string]*rungv1.Target{}
	for _, t := range got.GetTargets() {
		names = append(names, t.GetName())
		found[t.GetName()] = t
	}
	for _, want := range a.cfg.Targets {
		t := found[want]
		if t == nil {
			return status.Errorf(codes.NotFound, "it has no target %q; it has: %s", want, strings.Join(names, ", "))
		}
		if t.GetUnavailable() != "" {
			return status.Errorf(codes.FailedPrecondition, "target %q cannot be profiled: %s", want, t.GetUnavailable())
		}
	}
	return nil
}

// toAgent converts an instant of ours to the agent's clock.
func (a *agentClient) toAgent(monoNs int64) uint64 {
	return uint64(monoNs + a.clock.get(a.bootID))
}

// toOurs converts back.
func (a *agentClient) toOurs(agentNs uint64) int64 {
	return int64(agentNs) - a.clock.get(a.bootID)
}

// start arms the opening edge at an instant of ours and returns the instant it
// was armed for.
func (a *agentClient) start(ctx context.Context, step string, at int64, planned, expires time.Duration) (int64, error) {
	r, err := call(ctx, a, func(ctx context.Context) (*rungv1.StartStepResponse, error) {
		return a.api.StartStep(ctx, &rungv1.StartStepRequest{
			Run: a.run, Step: step, Targets: a.cfg.Targets,
			AtMonoNs: a.toAgent(at), BootId: a.clock.bootID,
			PlannedNs: uint64(planned), ExpiresAfterNs: uint64(expires),
		})
	})
	if err != nil {
		return 0, err
	}
	return a.toOurs(r.GetAtMonoNs()), nil
}

// end arms the closing edge; at 0 closes the window as soon as it can be.
func (a *agentClient) end(ctx context.Context, step string, at int64) (int64, error) {
	req := &rungv1.EndStepRequest{Run: a.run, Step: step, BootId: a.clock.bootID}
	if at != 0 {
		req.AtMonoNs = a.toAgent(at)
	}
	r, err := call(ctx, a, func(ctx context.Context) (*rungv1.EndStepResponse, error) { return a.api.EndStep(ctx, req) })
	if err != nil {
		return 0, err
	}
	return a.toOurs(r.GetAtMonoNs()), nil
}

// fetch brings the records and profiles of a step that was ended.
func (a *agentClient) fetch(ctx context.Context, step string) ([]AgentRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, a.cfg.FetchTimeout)
	defer cancel()
	stream, err := a.api.GetStep(ctx, &rungv1.GetStepRequest{Run: a.run, Step: step})
	if err != nil {
		return nil, err
	}
	var got []AgentRecord
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		switch p := part.GetPart().(type) {
		case *rungv1.GetStepResponse_Record:
			got = append(got, AgentRecord{Record: p.Record})
		case *rungv1.GetStepResponse_ProfileChunk:
			if len(got) == 0 {
				return nil, errors.New("the agent sent a profile before any record")
			}
			last := &got[len(got)-1]
			last.ProfileGz = append(last.ProfileGz, p.ProfileChunk...)
		}
	}
}
