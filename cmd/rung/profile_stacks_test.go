//go:build linux

package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	pprof "github.com/google/pprof/profile"

	"github.com/rungprof/rung/attribution"
)

// pprofOf makes a profile in the form of the agent's from stacks, leaf first,
// of "mapping|function".
type pprofMaker struct {
	p     *pprof.Profile
	where map[string]*pprof.Location
}

func newPprof() *pprofMaker {
	p := &pprof.Profile{DurationNanos: 1000}
	for _, t := range []string{"samples", "cpu", "run-queue", "throttled", "blocked"} {
		unit := "nanoseconds"
		if t == "samples" {
			unit = "count"
		}
		p.SampleType = append(p.SampleType, &pprof.ValueType{Type: t, Unit: unit})
	}
	return &pprofMaker{p, map[string]*pprof.Location{}}
}

func (m *pprofMaker) add(stack string, values [5]int64, labels map[string]string, numbers map[string]int64) {
	s := &pprof.Sample{Value: values[:], Label: map[string][]string{}, NumLabel: map[string][]int64{}}
	for k, v := range labels {
		s.Label[k] = []string{v}
	}
	for k, v := range numbers {
		s.NumLabel[k] = []int64{v}
	}
	for _, frame := range strings.Split(stack, " ← ") {
		loc := m.where[frame]
		if loc == nil {
			mapping, name, _ := strings.Cut(frame, "|")
			id := uint64(len(m.where) + 1)
			f := &pprof.Function{ID: id, Name: name}
			mm := &pprof.Mapping{ID: id, File: mapping}
			loc = &pprof.Location{ID: id, Mapping: mm, Line: []pprof.Line{{Function: f}}}
			m.where[frame] = loc
			m.p.Function = append(m.p.Function, f)
			m.p.Mapping = append(m.p.Mapping, mm)
			m.p.Location = append(m.p.Location, loc)
		}
		s.Location = append(s.Location, loc)
	}
	m.p.Sample = append(m.p.Sample, s)
}

func TestProfiledStates(t *testing.T) {
	m := newPprof()
	worker := func(name string) map[string]string {
		return map[string]string{"thread_group": "worker-*", "thread": name, "state": "on-cpu"}
	}
	m.add("/app|hash ← /app|serve ← /app|main", [5]int64{3, 30}, worker("worker-1"), map[string]int64{"tid": 11, "block": 1})
	m.add("/app|hash ← /app|serve ← /app|main", [5]int64{1, 10}, worker("worker-2"), map[string]int64{"tid": 12, "block": 2})
	m.add("[anon]|[unknown] [anon]+0x10 ← /app|main", [5]int64{1, 10}, worker("worker-1"), map[string]int64{"tid": 11})
	m.add("[anon]|[unknown] [anon]+0x20 ← /app|main", [5]int64{1, 10}, worker("worker-1"), map[string]int64{"tid": 11})
	m.add("[kernel.kallsyms]|vfs_read ← [kernel.entry]|syscall:read ← /app|main", [5]int64{2, 20}, worker("worker-1"), map[string]int64{"tid": 11})
	m.add("[kernel.kallsyms]|schedule ← [kernel.entry]|syscall:read ← /app|main", [5]int64{0, 0, 0, 0, 700},
		map[string]string{"thread_group": "worker-*", "reason": "read", "object": "socket", "limited": "true"}, map[string]int64{"tid": 11, "draws": 4})

	states, err := profiledStates(m.p, stacksOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != 2 || states[0].State != "on-cpu" || states[0].Ns != 80 || states[0].Samples != 8 || states[1].State != "blocked" || states[1].Samples != 4 {
		t.Fatalf("states %+v", states)
	}
	var functions []string
	for _, f := range states[0].Functions {
		functions = append(functions, f.Name)
	}
	if want := []string{"hash", "[unknown] [anon]", "syscall:read"}; !slices.Equal(functions, want) {
		t.Errorf("functions %q, want %q", functions, want)
	}
	if top := states[0].Stacks[0]; top.Threads != "worker-*" || top.Ns != 40 || top.Share != 0.5 || !slices.Equal(top.Frames, []string{"hash", "serve", "main"}) {
		t.Errorf("top stack %+v", top)
	}
	blocked := states[1].Stacks[0]
	if blocked.Reason != "read (socket), timed" || !slices.Equal(blocked.Frames, []string{"syscall:read", "main"}) || blocked.StderrThreads == nil || *blocked.StderrThreads != 0 {
		t.Errorf("blocked %+v", blocked)
	}

	attribution.Regroup(m.p, attribution.SingleThreads())
	single, err := profiledStates(m.p, stacksOptions{top: 1})
	if err != nil || len(single[0].Stacks) != 1 || single[0].Stacks[0].Threads != "worker-1 (11)" || single[0].Stacks[0].Ns != 30 || len(single[0].Functions) != 1 {
		t.Errorf("single threads, one row: %+v, %v", single, err)
	}
	idle, err := attribution.ParseRules(attribution.Source{File: "idle.yaml", Data: []byte("layers:\n  - name: a\n    match: [{prefix: hash}]\nidle:\n  - reason: read\n")})
	if err != nil {
		t.Fatal(err)
	}
	if states, err := profiledStates(m.p, stacksOptions{idle: idle}); err != nil || states[1].IdleNs != 700 || states[1].Ns != 0 || len(states[1].Stacks) != 0 {
		t.Errorf("reads idle: %+v, %v", states, err)
	}
	m.p.Sample[0].Value = m.p.Sample[0].Value[:1]
	if _, err := profiledStates(m.p, stacksOptions{}); err == nil {
		t.Error("a malformed profile is read")
	}
}

// Stacks of a thread group are ranked with the doubt of its own draws.
func TestProfiledStacksOfGroups(t *testing.T) {
	m := newPprof()
	draw := func(stack, group string, tid, ns, draws, spread, largest int64) {
		m.add(stack, [5]int64{0, 0, 0, 0, ns}, map[string]string{"thread_group": group, "thread": group, "reason": "futex"},
			map[string]int64{"tid": tid, "draws": draws, "spread_ns": spread, "largest_ns": largest})
	}
	draw("[kernel.kallsyms]|a ← [kernel.entry]|syscall:futex ← /app|lock", "w", 1, 6000, 60, 400, 100)
	draw("[kernel.kallsyms]|b ← [kernel.entry]|syscall:futex ← /app|wait", "w", 1, 4000, 40, 300, 100)
	draw("[kernel.kallsyms]|a ← [kernel.entry]|syscall:futex ← /app|lock", "v", 2, 900, 20, 0, 100)
	draw("/app|few", "u", 3, 500, 20, 90, 10)
	draw("/app|rest", "u", 3, 600, 40, 90, 40)
	states, err := profiledStates(m.p, stacksOptions{})
	if err != nil || len(states) != 1 {
		t.Fatalf("%+v, %v", states, err)
	}
	var order []string
	for _, s := range states[0].Stacks {
		order = append(order, s.Threads+" "+strings.Join(s.Frames, ","))
	}
	want := []string{"w syscall:futex,lock", "w syscall:futex,wait", "v syscall:futex,lock", "u rest", "u few"}
	if !slices.Equal(order, want) {
		t.Fatalf("stacks %q, want %q", order, want)
	}
	top := states[0].Stacks
	stderr := math.Sqrt(0.4*0.4*400*400+0.6*0.6*300*300) / 1000
	if s := top[0]; s.Share != 0.5 || s.StderrThreads == nil || math.Abs(*s.StderrThreads-stderr) > 1e-9 {
		t.Errorf("%+v, want a standard error of %g", s, stderr)
	}
	if s := top[2]; s.StderrThreads == nil || *s.StderrThreads != 0 {
		t.Errorf("all drawn: %+v", s)
	}
	if s := top[4]; s.StderrThreads != nil || s.TooFew != "20 intervals drawn, want 30" {
		t.Errorf("few draws: %+v", s)
	}
}

func TestProfilePrint(t *testing.T) {
	account, err := attribution.NewAccount([]attribution.Thread{
		{Tid: 1, Comm: "busy\x1b[2J", LifetimeNs: 1e9, OnCPUWallNs: 8e8, RunQueueNs: 1e8, ThrottledLoNs: ptrTo(uint64(1e8)), ThrottledHiNs: ptrTo(uint64(2e8))},
		{Tid: 2, Comm: "calm-1", LifetimeNs: 1e9, ThrottledLoNs: ptrTo(uint64(0)), ThrottledHiNs: ptrTo(uint64(0)),
			Blocked: []attribution.Blocked{{Reason: "futex", Limited: true, Ns: 6e8}, {Reason: "read", Object: "pipe", Ns: 4e8 - 1}, {Reason: "write", Ns: 1}}},
	}, 1e9, nil)
	if err != nil {
		t.Fatal(err)
	}
	account.AddWakers([]attribution.Waker{
		{Group: "calm-*", Reason: "futex", Limited: true, Waker: "other", Thread: true, Outside: true, Ns: 5e8, Draws: 9},
		{Group: "calm-*", Reason: "futex", Limited: true, Waker: "nobody", Ns: 1e8, Draws: 1},
	}, nil)
	deep := strings.Split(strings.Repeat("x y ", 12)+"main", " ")
	r := profileResult{
		Target: "process 1", WindowNs: 1e9, Account: account, top: 10,
		States: []profiledState{{State: stateOnCPU, Ns: 8e8, Samples: 800, Functions: []profiledFunction{{Name: "[unknown] [anon]", Share: 1, Samples: 800}},
			Stacks: []profiledStack{{Threads: "busy", Share: 1, Samples: 800, Frames: append([]string{"leaf", "leaf", "leaf"}, deep...)}}}},
	}
	var out strings.Builder
	if err := r.print(&out, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"   0.800      0.100      0.100    0.000     1.000        1  \"busy\\x1b[*J\"\n",
		"   0.000      0.000      0.000    1.000     1.000        1  calm-*\n",
		"                                  0.600                         futex, timed\n                                  0.400                         read (pipe)\n   0.800",
		"throttled lies between 0.100 and 0.200",
		"[unknown] [anon]\n",
		"leaf ×3 ← x ← y ← x ← y ← x ← y ← x ← … 16 more ← y ← main\n",
		"0.500    9      other (outside the target)  calm-*        futex, timed\n\n0.100 mean threads",
		"Losses: none\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log("\n" + out.String())
	}
}
