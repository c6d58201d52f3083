//go:build linux

package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
)

// TestThreadGroupsAgree reads one record with groups of several kinds: account,
// wakers, on-CPU and off-CPU stacks name the same ones, whether they were decided
// on when the record was made or now.
func TestThreadGroupsAgree(t *testing.T) {
	names := map[uint32]string{11: "epoll-1", 12: "epoll-2", 13: "G1 Conc#0", 14: "main"}
	record := func() *rungv1.StepRecord {
		r := &rungv1.StepRecord{Config: &rungv1.Config{}}
		for _, tid := range slices.Sorted(maps.Keys(names)) {
			r.Threads = append(r.Threads, &rungv1.Thread{Tid: tid, Comm: names[tid], LifetimeNs: 1000, OnCpuWallNs: 600,
				Blocked: []*rungv1.Blocked{{Reason: "futex", Ns: 400}}})
			r.Wakers = append(r.Wakers, &rungv1.Waker{Tid: tid, Comm: names[tid], ThreadGroup: "old", Reason: "futex", Ns: 400,
				Kind: rungv1.Waker_KIND_THREAD, WakerGroup: "old", WakerComm: names[tid], WakerTid: tid})
		}
		return r
	}
	m := newPprof()
	for tid, name := range names {
		labels := map[string]string{"thread_group": "old", "thread": name, "reason": "futex"}
		m.add("/app|work", [5]int64{6, 600}, labels, map[string]int64{"tid": int64(tid)})
		m.add("/app|wait", [5]int64{0, 0, 0, 0, 400}, labels, map[string]int64{"tid": int64(tid), "draws": 4})
	}
	var packed bytes.Buffer
	if err := m.p.Write(&packed); err != nil {
		t.Fatal(err)
	}
	rules, err := attribution.NewGrouper("gc=G1.*", "io=epoll-1")
	if err != nil {
		t.Fatal(err)
	}
	made := record()
	made.Config.ThreadGroups = rules.Rules()
	single := record()
	single.Config.SingleThreads = true
	byRules := []string{"epoll-*", "gc", "io", "main"}
	for _, c := range []struct {
		name   string
		record *rungv1.StepRecord
		groups *attribution.Grouper
		want   []string
	}{
		{"folded", record(), nil, []string{"G1 Conc#*", "epoll-*", "main"}},
		{"an old record without configuration", &rungv1.StepRecord{Threads: record().Threads, Wakers: record().Wakers}, nil, []string{"G1 Conc#*", "epoll-*", "main"}},
		{"rules when it was measured", made, nil, byRules},
		{"rules now", record(), rules, byRules},
		{"single threads when it was measured", single, nil, []string{"G1 Conc#0 (13)", "epoll-1 (11)", "epoll-2 (12)", "main (14)"}},
		{"rules now instead of single threads", single, rules, byRules},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, err := groupRecord(c.record, c.groups)
			if err != nil {
				t.Fatal(err)
			}
			if len(g.warnings) > 0 {
				t.Errorf("warnings %q", g.warnings)
			}
			account, err := g.account(1000, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			add := func(where, group string) {
				if !slices.Contains(got[where], group) {
					got[where] = append(got[where], group)
				}
			}
			for _, row := range account.Groups {
				add("account", row.Group)
				for _, reason := range row.Blocked {
					var ns int64
					for _, w := range reason.Wakers {
						add("wakers", w.Waker)
						ns += w.Time.Ns
					}
					if ns != reason.Time.Ns {
						t.Errorf("%s: wakers of %d ns, blocked %d ns", row.Group, ns, reason.Time.Ns)
					}
				}
			}
			p, err := g.profile(packed.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			states, err := profiledStates(p, stacksOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range states {
				for _, stack := range s.Stacks {
					add(s.State, stack.Threads)
				}
			}
			for _, where := range []string{"account", "wakers", "on-cpu", "blocked"} {
				slices.Sort(got[where])
				if !slices.Equal(got[where], c.want) {
					t.Errorf("%s: groups %q, want %q", where, got[where], c.want)
				}
			}
		})
	}
}

// TestThreadGroupsThatStay says what was summed when it was measured.
func TestThreadGroupsThatStay(t *testing.T) {
	rules, err := attribution.NewGrouper("io=epoll.*", "none=nosuch")
	if err != nil {
		t.Fatal(err)
	}
	r := &rungv1.StepRecord{
		Threads: []*rungv1.Thread{{Tid: 1, Comm: "epoll-1"}, {Comm: "epoll-*", FoldedThreads: 7}},
		Wakers:  []*rungv1.Waker{{ThreadGroup: "epoll-*", Reason: "futex", Ns: 1}},
	}
	g, err := groupRecord(r, rules)
	if err != nil {
		t.Fatal(err)
	}
	if g.threads[0].Group != "io" || g.threads[1].Group != "epoll-*" || g.wakers[0].Group != "epoll-*" {
		t.Errorf("%+v %+v", g.threads, g.wakers)
	}
	text := strings.Join(g.warnings, "\n")
	for _, want := range []string{`"none=nosuch" took none of 1 threads`, "7 threads stay in the groups", "1 wakers stay with the thread groups"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q among %q", want, g.warnings)
		}
	}
	r.Config = &rungv1.Config{ThreadGroups: []string{"a=("}}
	if _, err := groupRecord(r, nil); err == nil || !strings.Contains(err.Error(), `the record's thread group "a=("`) {
		t.Errorf("a record with a bad rule: %v", err)
	}
}
