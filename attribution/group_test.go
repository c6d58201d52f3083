package attribution

import (
	"slices"
	"strings"
	"testing"
)

func TestGrouper(t *testing.T) {
	g, err := NewGrouper("gc=G1 .*|GC Thread#[0-9]+", "io=epoll-[0-9]+", "first two=worker-[01]", "gc=VM.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		g    *Grouper
		comm string
		want string
	}{
		{nil, "worker-3", "worker-*"},
		{&Grouper{}, "worker-3", "worker-*"},
		{g, "G1 Conc#0", "gc"},
		{g, "GC Thread#1", "gc"},
		{g, "my GC Thread#1", "my GC Thread#*"}, // the whole name, not a part
		{g, "VM Thread", "gc"},
		{g, "worker-1", "first two"},
		{g, "worker-11", "worker-*"},
		{g, "", ""},
		{SingleThreads(), "worker-3", "worker-3 (42)"},
	} {
		if got := c.g.Group(c.comm, 42); got != c.want {
			t.Errorf("%v: %q is in group %q, want %q", c.g.Rules(), c.comm, got, c.want)
		}
	}
	if again, err := NewGrouper(g.Rules()...); err != nil || !slices.Equal(again.Rules(), g.Rules()) {
		t.Errorf("its own form: %v, %v", again.Rules(), err)
	}
	if !(*Grouper)(nil).Folds() || !(&Grouper{}).Folds() || g.Folds() || SingleThreads().Folds() {
		t.Error("what folds is told wrong")
	}
}

func TestGrouperErrors(t *testing.T) {
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{[]string{"gc"}, `thread group "gc": write NAME=REGEXP`},
		{[]string{""}, `write NAME=REGEXP`},
		{[]string{"=G1.*"}, "the name is empty"},
		{[]string{" gc=G1.*"}, "begins or ends with a space"},
		{[]string{"g\x1bc=G1.*"}, "cannot be printed"},
		{[]string{"g\xffc=G1.*"}, "cannot be printed"},
		{[]string{strings.Repeat("g", 65) + "=a"}, "longer than 64 bytes"},
		{[]string{"gc="}, "the regexp is empty"},
		{[]string{"gc=G1("}, "bad regexp"},
		{[]string{"gc=a)|(b"}, "bad regexp"},
		{[]string{"all=.*", "gc=G1.*"}, `thread group "gc=G1.*" can never match: "all=.*" before it takes every thread; put it last`},
		{[]string{"all=.+", "gc=G1.*"}, "can never match"},
	} {
		if _, err := NewGrouper(c.texts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.texts, err, c.want)
		}
	}
	if _, err := NewGrouper("gc=G1.*", "rest=.*"); err != nil {
		t.Errorf("a last rule that takes the rest: %v", err)
	}
}

func TestGrouperWarnings(t *testing.T) {
	g, err := NewGrouper("gc=G1.*", "none=nosuch", "rest=.*")
	if err != nil {
		t.Fatal(err)
	}
	got := g.Warnings([]string{"G1 Main", "a", "b"})
	if len(got) != 1 || !strings.Contains(got[0], `"none=nosuch" took none of 3 threads`) {
		t.Errorf("%q", got)
	}
	got = g.Warnings([]string{"a", "b"})
	if len(got) != 3 || !strings.Contains(got[2], `"rest=.*" took all of 2 threads`) {
		t.Errorf("%q", got)
	}
	if got := (*Grouper)(nil).Warnings([]string{"a"}); got != nil {
		t.Errorf("without rules: %q", got)
	}
}

const groupsYAML = `
layers:
  - name: a
    match: [{prefix: a}]
idle:
  - thread_group: pool-*
    reason: futex
thread_groups:
  - name: gc
    regexp: ["G1.*", "GC Thread#[0-9]+"]
  - name: pool
    regexp: pool-[0-9]+
`

// TestGrouperOfRuleFiles: a later file is tried before an earlier one.
func TestGrouperOfRuleFiles(t *testing.T) {
	r, err := ParseRules(Source{"a.yaml", []byte(groupsYAML)}, Source{"b.yaml", []byte("thread_groups: [{name: first, regexp: G1 Main}]")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"first=G1 Main", "gc=G1.*", "gc=GC Thread#[0-9]+", "pool=pool-[0-9]+"}
	if got := r.Grouper().Rules(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	threads := []Thread{
		{Tid: 1, Comm: "pool-1", LifetimeNs: 10, Blocked: []Blocked{{Reason: "futex", Ns: 10}}},
		{Tid: 2, Comm: "pool-2", LifetimeNs: 10, OnCPUWallNs: 10},
		{Tid: 3, Comm: "G1 Conc#0", LifetimeNs: 10, OnCPUWallNs: 10},
		{Comm: "tail-*", LifetimeNs: 50, OnCPUWallNs: 50, Folded: 5},
	}
	a, err := NewAccount(threads, 10, r)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, g := range a.Groups {
		got[g.Group] = g.Threads
	}
	if len(got) != 3 || got["pool"] != 2 || got["gc"] != 1 || got["tail-*"] != 5 || a.Total.Threads != 8 || a.Total.Residual.Ns != 0 {
		t.Errorf("%v, total %+v", got, a.Total)
	}
	if a.Total.Idle.Ns != 10 {
		t.Errorf("idle %d ns: a rule on pool-* holds for a thread that a rule calls pool", a.Total.Idle.Ns)
	}
	for _, c := range []struct{ file, want string }{
		{"thread_groups: [{regexp: a}]", "a.yaml: a thread group has no name"},
		{"thread_groups: [{name: a}]", `a.yaml:1:24: thread group "a" has no regexp`},
		{"thread_groups: [{name: a, regexp: '('}]", `a.yaml:1:35: thread group "a": bad regexp`},
		{"thread_groups: [{name: a, regexp: ''}]", "an empty string"},
		{"thread_groups: [{name: a, regexp: '.*'}, {name: b, regexp: b}]", `thread group "a=.*" takes every thread, so that "b=b" behind it can never match`},
		{"thread_groups: [{name: a, glob: b}]", "unknown key"},
	} {
		if _, err := ParseRules(Source{"a.yaml", []byte(c.file)}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.file, err, c.want)
		}
	}
}
