package agent

import (
	"context"
	"io"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/bpf"
)

// rig is an agent over a fake kernel and a fake host, served on a real socket.
type rig struct {
	t      *testing.T
	root   string
	kernel *fakeKernel
	boot   string // boot id that the agent must give
	agent  *Agent
	client rungv1.AgentClient
	stop   func() error // idempotent
}

func newRig(t *testing.T, targets ...Target) *rig {
	t.Helper()
	return newRigWith(t, Config{Targets: targets})
}

// newRigWith fills in what config leaves open.
func newRigWith(t *testing.T, config Config) *rig {
	t.Helper()
	targets := config.Targets
	if targets == nil {
		targets = []Target{{Name: "web", Cgroup: "/web"}, {Name: "db", Cgroup: "/db"}}
	}
	r := &rig{t: t, root: fakeHost(t), kernel: newFakeKernel(), boot: "boot-1"}
	config.Targets, config.Loaded.RateHz = targets, 999
	config.Proc, config.Sys = filepath.Join(r.root, "proc"), filepath.Join(r.root, "sys")
	a, err := New(config, r.kernel)
	if err != nil {
		t.Fatal(err)
	}
	r.agent = a
	r.client, r.stop = serve(t, a)
	return r
}

// serve serves an agent on a unix socket and answers a client of it.
func serve(t *testing.T, a *Agent) (rungv1.AgentClient, func() error) {
	t.Helper()
	listener, err := Listen("unix://" + filepath.Join(t.TempDir(), "agent.sock"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, listener, a) }()
	stop := func() error {
		cancel()
		err := <-served
		served <- err
		return err
	}
	conn, err := grpc.NewClient(Address(listener), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return rungv1.NewAgentClient(conn), stop
}

func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

// start begins a step after a delay, which may be negative.
func (r *rig) start(run, step string, after time.Duration, targets ...string) (bpf.MonoNs, error) {
	at := now() + bpf.MonoNs(after)
	resp, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{
		Run: run, Step: step, Targets: targets, AtMonoNs: uint64(at), BootId: "boot-1", PlannedNs: uint64(64 * time.Second),
	})
	return bpf.MonoNs(resp.GetAtMonoNs()), err
}

func (r *rig) mustStart(run, step string, after time.Duration, targets ...string) bpf.MonoNs {
	r.t.Helper()
	at, err := r.start(run, step, after, targets...)
	if err != nil {
		r.t.Fatal(err)
	}
	return at
}

// end ends a step at an instant, 0 for now.
func (r *rig) end(run, step string, at bpf.MonoNs) error {
	_, err := r.client.EndStep(r.context(), &rungv1.EndStepRequest{Run: run, Step: step, AtMonoNs: uint64(at), BootId: "boot-1"})
	return err
}

// fetched is what GetStep streamed of one target.
type fetched struct {
	record  *rungv1.StepRecord
	profile []byte
	chunks  int
}

func (r *rig) get(run, step string) (map[string]fetched, error) {
	stream, err := r.client.GetStep(r.context(), &rungv1.GetStepRequest{Run: run, Step: step})
	if err != nil {
		return nil, err
	}
	all := map[string]fetched{}
	var name string
	closed := false
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			if !closed {
				r.t.Error("the stream ended without a clock stamp")
			}
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		switch part := part.Part.(type) {
		case *rungv1.GetStepResponse_Record:
			name = part.Record.Target.Name
			all[name] = fetched{record: part.Record}
		case *rungv1.GetStepResponse_ProfileChunk:
			f := all[name]
			f.profile = append(f.profile, part.ProfileChunk...)
			f.chunks++
			all[name] = f
		case *rungv1.GetStepResponse_Clock:
			closed = part.Clock.BootId == r.boot && part.Clock.ReceivedMonoNs <= part.Clock.SentMonoNs
		}
	}
}

func (r *rig) mustGet(run, step string) map[string]fetched {
	r.t.Helper()
	all, err := r.get(run, step)
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

// measure runs one short window and answers its record.
func (r *rig) measure(run, step, target string) fetched {
	r.t.Helper()
	at := r.mustStart(run, step, 5*time.Millisecond, target)
	if err := r.end(run, step, at+bpf.MonoNs(30*time.Millisecond)); err != nil {
		r.t.Fatal(err)
	}
	return r.mustGet(run, step)[target]
}

func code(err error) codes.Code { return status.Code(err) }
