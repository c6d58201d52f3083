package loadgen

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// besideAgent is a second agent, with another clock.
func besideAgent(t *testing.T) *fakeAgent {
	a := startAgent(t)
	a.bootID, a.ahead = "another host", int64(time.Hour)
	a.targets = []*rungv1.Target{{Name: "db"}}
	return a
}

// TestSeveralAgents: all windows have the client's edges, each on its own clock.
func TestSeveralAgents(t *testing.T) {
	a, b := startAgent(t), besideAgent(t)
	c := agentConfigFor(t, a, twoSteps...)
	c.Also = []AgentConfig{{Address: b.address, Targets: []string{"db"}}}
	for _, o := range runSteps(t, c, Hooks{}) {
		r := o.Result
		if len(o.Agent) != 1 || len(o.Also) != 1 || o.Also[0].Record.GetTarget().GetName() != "db" || string(o.Also[0].ProfileGz) != "profile" {
			t.Fatalf("step %s: %v, %v; warnings %q", r.Name, o.Agent, o.Also, r.Warnings)
		}
		start, end := a.starts[r.Name], a.ends[r.Name]
		if start.AtMonoNs != r.WindowStartMonoNs || end.AtMonoNs != r.WindowEndMonoNs {
			t.Errorf("step %s: the first agent's window is %d to %d, the client's %d to %d", r.Name, start.AtMonoNs, end.AtMonoNs, r.WindowStartMonoNs, r.WindowEndMonoNs)
		}
		theirs, ends := b.starts[r.Name], b.ends[r.Name]
		shift := int64(theirs.AtMonoNs - r.WindowStartMonoNs)
		if off := time.Duration(shift - b.ahead).Abs(); off > 50*time.Millisecond || int64(ends.AtMonoNs-r.WindowEndMonoNs) != shift || theirs.BootId != "another host" {
			t.Errorf("step %s: the second agent's window is off by %s, shift %d and %d", r.Name, off, shift, int64(ends.AtMonoNs-r.WindowEndMonoNs))
		}
	}
}

// TestSecondAgentRefuses: the step is not driven, and the first agent's window does
// not stay open.
func TestSecondAgentRefuses(t *testing.T) {
	a, b := startAgent(t), besideAgent(t)
	b.refuse = func(string) error { return status.Error(codes.FailedPrecondition, `target "db" is held`) }
	c := agentConfigFor(t, a, twoSteps...)
	c.Also = []AgentConfig{{Address: b.address, Targets: []string{"db"}}}
	outs, _, err := tryRun(t, c, Hooks{})
	var refusal *AgentRefusal
	if !errors.As(err, &refusal) || refusal.Address != b.address || len(outs) != 0 {
		t.Errorf("%d steps, %v", len(outs), err)
	}
	if a.starts["01-100"] == nil || a.ends["01-100"] == nil || a.ends["01-100"].AtMonoNs != 0 {
		t.Errorf("the first agent's window: %v, %v", a.starts, a.ends)
	}
}

// TestSecondAgentIsAway: what it would have measured is missing, the rest is there.
func TestSecondAgentIsAway(t *testing.T) {
	a, b := startAgent(t), besideAgent(t)
	b.server.Stop()
	c := agentConfigFor(t, a, twoSteps[0])
	c.Also = []AgentConfig{{Address: b.address, Targets: []string{"db"}}}
	o := runSteps(t, c, Hooks{})[0]
	if len(o.Agent) != 1 || o.Also != nil || !hasWarning(o.Result, "missing: record: agent "+b.address) || o.Result.Void != "" {
		t.Errorf("records %v, %v; warnings %q", o.Agent, o.Also, o.Result.Warnings)
	}
}

func TestBadAgents(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"an agent of the arm's own beside it": func(c *Config) { c.Agent = nil },
		"each agent once":                     func(c *Config) { c.Also[0].Address = c.Agent.Address },
		"agent-target":                        func(c *Config) { c.Also[0].Targets = nil },
	} {
		c := Config{Protocol: RestH1, Address: "127.0.0.1:1", Agent: &AgentConfig{Address: "a:1", Targets: []string{"x"}},
			Also: []AgentConfig{{Address: "b:1", Targets: []string{"y"}}}}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
