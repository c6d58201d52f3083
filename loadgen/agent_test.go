package loadgen

import (
	"bytes"
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// fakeAgent answers the four calls with a clock of its own. It measures nothing.
type fakeAgent struct {
	rungv1.UnimplementedAgentServer
	bootID  string
	ahead   int64 // its clock less ours
	targets []*rungv1.Target
	refuse  func(step string) error
	slow    time.Duration // StartStep

	forgetful bool // EndStep knows started steps only

	server  *grpc.Server
	address string

	mu     sync.Mutex
	starts map[string]*rungv1.StartStepRequest
	ends   map[string]*rungv1.EndStepRequest
	endsAt map[string]int64 // when EndStep came, our clock
	chunks [][]byte
}

func startAgent(t *testing.T) *fakeAgent {
	t.Helper()
	boot, err := bootID()
	if err != nil {
		t.Skip("no boot id on this system:", err)
	}
	a := &fakeAgent{
		bootID: boot, targets: []*rungv1.Target{{Name: "arm"}, {Name: "gone", Unavailable: "its cgroup is gone"}},
		starts: map[string]*rungv1.StartStepRequest{}, ends: map[string]*rungv1.EndStepRequest{}, endsAt: map[string]int64{},
		chunks: [][]byte{[]byte("pro"), []byte("file")},
	}
	a.serve(t, filepath.Join(t.TempDir(), "agent.sock"))
	return a
}

func (a *fakeAgent) serve(t *testing.T, path string) {
	t.Helper()
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	a.address = "unix://" + path
	server := grpc.NewServer()
	a.server = server
	rungv1.RegisterAgentServer(server, a)
	go func() { _ = server.Serve(ln) }()
	t.Cleanup(server.Stop)
}

func (a *fakeAgent) stamp() *rungv1.ClockStamp {
	now := uint64(monoNow() + a.ahead)
	return &rungv1.ClockStamp{BootId: a.bootID, ReceivedMonoNs: now, SentMonoNs: now}
}

func (a *fakeAgent) ListTargets(context.Context, *rungv1.ListTargetsRequest) (*rungv1.ListTargetsResponse, error) {
	return &rungv1.ListTargetsResponse{Targets: a.targets, Clock: a.stamp()}, nil
}

func (a *fakeAgent) StartStep(_ context.Context, r *rungv1.StartStepRequest) (*rungv1.StartStepResponse, error) {
	if a.refuse != nil {
		if err := a.refuse(r.Step); err != nil {
			return nil, err
		}
	}
	time.Sleep(a.slow)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.starts[r.Step] = r
	return &rungv1.StartStepResponse{AtMonoNs: r.AtMonoNs, Clock: a.stamp()}, nil
}

func (a *fakeAgent) EndStep(_ context.Context, r *rungv1.EndStepRequest) (*rungv1.EndStepResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.forgetful && a.starts[r.Step] == nil {
		return nil, status.Error(codes.NotFound, "unknown step")
	}
	a.ends[r.Step] = r
	a.endsAt[r.Step] = monoNow()
	return &rungv1.EndStepResponse{AtMonoNs: r.AtMonoNs, Clock: a.stamp()}, nil
}

func (a *fakeAgent) GetStep(r *rungv1.GetStepRequest, s grpc.ServerStreamingServer[rungv1.GetStepResponse]) error {
	a.mu.Lock()
	start, end := a.starts[r.Step], a.ends[r.Step]
	a.mu.Unlock()
	if start == nil || end == nil {
		return status.Error(codes.NotFound, "no such step")
	}
	rec := &rungv1.StepRecord{Run: r.Run, Step: r.Step, Target: &rungv1.Target{Name: start.Targets[0]},
		Window: &rungv1.Window{BootId: a.bootID, StartMonoNs: start.AtMonoNs, EndMonoNs: end.AtMonoNs}}
	if err := s.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_Record{Record: rec}}); err != nil {
		return err
	}
	for _, c := range a.chunks {
		if err := s.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_ProfileChunk{ProfileChunk: c}}); err != nil {
			return err
		}
	}
	return s.Send(&rungv1.GetStepResponse{Part: &rungv1.GetStepResponse_Clock{Clock: a.stamp()}})
}

func agentConfigFor(t *testing.T, a *fakeAgent, steps ...Step) Config {
	t.Helper()
	c := testConfig(startService(t, GRPCStream, "127.0.0.1:0"), steps...)
	c.Agent = &AgentConfig{Address: a.address, Targets: []string{"arm"}}
	return c
}

var twoSteps = []Step{
	{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond},
	{Index: 2, OfferedHz: 200, Duration: 300 * time.Millisecond},
}

func TestAgentWindows(t *testing.T) {
	a := startAgent(t)
	c := agentConfigFor(t, a, twoSteps...)
	for _, o := range runSteps(t, c, Hooks{}) {
		r := o.Result
		if len(o.Agent) != 1 || !bytes.Equal(o.Agent[0].ProfileGz, []byte("profile")) || o.Agent[0].Record.Step != r.Name {
			t.Fatalf("step %s: %v; warnings %q", r.Name, o.Agent, r.Warnings)
		}
		start, end := a.starts[r.Name], a.ends[r.Name]
		if start.AtMonoNs != r.WindowStartMonoNs || end.AtMonoNs != r.WindowEndMonoNs {
			t.Errorf("step %s: the agent's window is %d to %d, the client's %d to %d", r.Name, start.AtMonoNs, end.AtMonoNs, r.WindowStartMonoNs, r.WindowEndMonoNs)
		}
		if start.BootId != r.BootID || start.Run != "run" || start.PlannedNs != r.WindowEndMonoNs-r.WindowStartMonoNs || start.ExpiresAfterNs < start.PlannedNs {
			t.Errorf("step %s: %v", r.Name, start)
		}
		if hasWarning(r, "missing") || hasWarning(r, "window: ") {
			t.Errorf("step %s: warnings %q", r.Name, r.Warnings)
		}
	}
}

// The closing edge reaches the agent before its instant.
func TestAgentEndIsArmedAhead(t *testing.T) {
	a := startAgent(t)
	r := runSteps(t, agentConfigFor(t, a, Step{Index: 1, OfferedHz: 50, Duration: 1200 * time.Millisecond}), Hooks{})[0].Result
	ahead := time.Duration(int64(r.WindowEndMonoNs) - a.endsAt[r.Name])
	if ahead < 100*time.Millisecond || ahead > 450*time.Millisecond {
		t.Errorf("EndStep came %v ahead of the edge, want about 400ms", ahead)
	}
}

// The edges travel in the agent's clock, here of another boot an hour ahead.
func TestAgentOnAnotherClock(t *testing.T) {
	a := startAgent(t)
	a.bootID, a.ahead = "another-boot", int64(time.Hour)
	o := runSteps(t, agentConfigFor(t, a, twoSteps[0]), Hooks{})[0]
	start := a.starts[o.Result.Name]
	off := int64(start.AtMonoNs) - int64(time.Hour) - int64(o.Result.WindowStartMonoNs)
	if start.BootId != "another-boot" || max(off, -off) > int64(100*time.Millisecond) {
		t.Errorf("edge is off by %v; boot %q", time.Duration(off), start.BootId)
	}
	if len(o.Agent) != 1 || hasWarning(o.Result, "begins") {
		t.Errorf("%d records, warnings %q", len(o.Agent), o.Result.Warnings)
	}
}

func TestAgentKilledInMidStep(t *testing.T) {
	a := startAgent(t)
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 900 * time.Millisecond}, twoSteps[1])
	c.Agent = &AgentConfig{Address: a.address, Targets: []string{"arm"}}
	s.at(15, c, a.server.Stop)
	outs, sum, err := tryRun(t, c, Hooks{})
	if err != nil || len(outs) != 2 || len(sum.Void) != 0 {
		t.Fatalf("%v; %+v", err, sum)
	}
	for _, o := range outs {
		if o.Agent != nil || !hasWarning(o.Result, "missing: record: agent unix://") || o.Result.Delivered == 0 {
			t.Errorf("step %s: records %v, delivered %d, warnings %q", o.Result.Name, o.Agent, o.Result.Delivered, o.Result.Warnings)
		}
	}
	if len(sum.Missing) != 2 || !strings.HasPrefix(sum.Missing[0], "01-100: missing: record") {
		t.Errorf("missing: %q", sum.Missing)
	}
}

// An agent that was restarted within a step knows nothing of it: the step is
// void for that reason, and the next one is measured.
func TestAgentRestartedInMidStep(t *testing.T) {
	a := startAgent(t)
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 1200 * time.Millisecond}, twoSteps[1])
	c.Agent = &AgentConfig{Address: a.address, Targets: []string{"arm"}}
	s.at(15, c, func() {
		a.server.Stop()
		a.mu.Lock()
		clear(a.starts)
		a.forgetful = true
		a.mu.Unlock()
		a.serve(t, strings.TrimPrefix(a.address, "unix://"))
	})
	outs, sum, err := tryRun(t, c, Hooks{})
	if err != nil || len(outs) != 2 || len(sum.Void) != 1 || len(sum.Missing) != 1 {
		t.Fatalf("%v; %+v", err, sum)
	}
	first, second := outs[0], outs[1]
	if first.Agent != nil || first.Result.Delivered == 0 || !strings.Contains(first.Result.Void, "does not know the step (restarted?): unknown step") {
		t.Errorf("records %v, delivered %d, void %q, warnings %q", first.Agent, first.Result.Delivered, first.Result.Void, first.Result.Warnings)
	}
	if len(second.Agent) != 1 || second.Result.Void != "" {
		t.Errorf("the step after: records %v, void %q, warnings %q", second.Agent, second.Result.Void, second.Result.Warnings)
	}
}

// An agent that is away at first is asked again at each step.
func TestAgentComesLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	a := startAgent(t)
	a.server.Stop()
	c := agentConfigFor(t, a, twoSteps...)
	c.Agent.Address = "unix://" + path
	c.Gap = 300 * time.Millisecond
	first := true
	var outs []Outcome
	_, err := Run(t.Context(), c, Hooks{StepDone: func(o Outcome) error {
		outs = append(outs, o)
		if first {
			a.serve(t, path)
		}
		first = false
		return nil
	}})
	if err != nil || len(outs) != 2 {
		t.Fatalf("%d steps, %v", len(outs), err)
	}
	if outs[0].Agent != nil || !hasWarning(outs[0].Result, "missing: record") {
		t.Errorf("step 1: %v, %q", outs[0].Agent, outs[0].Result.Warnings)
	}
	if len(outs[1].Agent) != 1 {
		t.Errorf("step 2: %v, %q", outs[1].Agent, outs[1].Result.Warnings)
	}
}

// Another run holds the target: said before the step is driven.
func TestAgentRefuses(t *testing.T) {
	a := startAgent(t)
	a.refuse = func(step string) error {
		if step == "02-200" {
			return status.Error(codes.FailedPrecondition, `target "arm" is held by step "x" of run "y"`)
		}
		return nil
	}
	c := agentConfigFor(t, a, twoSteps...)
	outs, sum, err := tryRun(t, c, Hooks{})
	var refusal *AgentRefusal
	if !errors.As(err, &refusal) || refusal.Step != "02-200" || !strings.Contains(err.Error(), `held by step "x" of run "y"`) {
		t.Errorf("error: %v", err)
	}
	if len(outs) != 1 || sum.Steps != 1 {
		t.Errorf("%d steps were kept, want the one before", len(outs))
	}
}

func TestAgentTargets(t *testing.T) {
	a := startAgent(t)
	for target, want := range map[string]string{"other": "it has: arm, gone", "gone": "its cgroup is gone"} {
		c := agentConfigFor(t, a, twoSteps...)
		c.Agent.Targets = []string{target}
		outs, _, err := tryRun(t, c, Hooks{})
		if err == nil || !strings.Contains(err.Error(), want) || len(outs) != 0 {
			t.Errorf("target %s: %d steps, %v", target, len(outs), err)
		}
	}
}

// A slow agent shortens settle; it does not make the driver send a burst.
func TestSlowAgent(t *testing.T) {
	a := startAgent(t)
	a.slow = MinLead + 100*time.Millisecond
	c := agentConfigFor(t, a, Step{Index: 1, OfferedHz: 50, Duration: 800 * time.Millisecond})
	c.Settle = 400 * time.Millisecond
	o := runSteps(t, c, Hooks{})[0]
	r := o.Result
	if !hasWarning(r, "longer than planned to arm") || len(o.Agent) != 1 || r.Void != "" {
		t.Fatalf("void %q, warnings %q", r.Void, r.Warnings)
	}
	if settle := r.WindowStartMonoNs - r.FirstSendMonoNs; settle > uint64(350*time.Millisecond) {
		t.Errorf("settle is %v", time.Duration(settle))
	}
	if r.Overflow > 0 {
		t.Errorf("overflow %d", r.Overflow)
	}
}

// A dead arm closes the agent's window at once.
func TestArmDiesUnderAnAgent(t *testing.T) {
	a := startAgent(t)
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 30 * time.Second})
	c.Agent = &AgentConfig{Address: a.address, Targets: []string{"arm"}}
	s.at(30, c, s.kill)
	r := runSteps(t, c, Hooks{})[0].Result
	if end := a.ends[r.Name]; r.Void == "" || end == nil || end.AtMonoNs != 0 {
		t.Errorf("void %q, EndStep %v", r.Void, end)
	}
}

func TestOffset(t *testing.T) {
	var o offset
	stamp := func(boot string, in, out uint64) *rungv1.ClockStamp {
		return &rungv1.ClockStamp{BootId: boot, ReceivedMonoNs: in, SentMonoNs: out}
	}
	// 10 there, 4 inside, 30 back: the middle errs by 10, within the bound of 20.
	o.observe(1000, 1044, stamp("b", 5010, 5014))
	if o.ns != 3990 || o.bound != 20 || o.get("b") != 3990 {
		t.Errorf("%+v", o)
	}
	o.observe(2000, 2100, stamp("b", 6010, 6014)) // looser: not taken
	if o.ns != 3990 {
		t.Errorf("%+v", o)
	}
	o.observe(3000, 3004, stamp("b", 7002, 7002)) // tighter
	if o.ns != 4000 || o.bound != 2 {
		t.Errorf("%+v", o)
	}
	o.observe(4000, 5000, stamp("c", 100, 101)) // another boot: nothing known is left
	if o.bootID != "c" || o.bound != 499 {
		t.Errorf("%+v", o)
	}
	o.observe(6000, 6001, nil)
	if o.bootID != "c" {
		t.Errorf("%+v", o)
	}

	var same offset
	same.observe(1000, 1100, stamp("b", 1020, 1030))
	if got := same.get("b"); got != 0 {
		t.Errorf("same boot, bound holds 0: offset %d", got)
	}
	if same.get("other") == 0 {
		t.Error("another boot got offset 0")
	}
	// An estimate grows old: after 100 s its bound is 10 ms wider.
	if got := same.boundAt(1100 + 100e9); got != same.bound+10e6 {
		t.Errorf("bound %d after 100 s", got)
	}
}
