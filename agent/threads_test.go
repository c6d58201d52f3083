package agent

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// TestMaxThreads folds all but the busiest threads, and the account still closes.
func TestMaxThreads(t *testing.T) {
	groups, err := attribution.NewGrouper("odd=worker-[0-9]*[13579]", "none=nosuch")
	if err != nil {
		t.Fatal(err)
	}
	r := newRigWith(t, Config{MaxThreads: 3, Groups: groups})
	for i := range 20 {
		thread := bpf.Thread{
			Tid: uint32(100 + i), Tgid: 71, Comm: fmt.Sprintf("worker-%d", i), LifetimeNs: 1000,
			OnCPUWallNs: uint64(10 * i), OnCPUChargedNs: uint64(10*i + 1), RunQueueNs: 5, ThrottledNs: 2, ThrottledSlackNs: 3, StoppedNs: 1,
			Switches: 2, Wakeups: 1, NoEvent: i == 0,
		}
		thread.Blocked = []bpf.Blocked{{Reason: bpf.ReasonFault, Ns: 1000 - thread.OnCPUWallNs - 8, Intervals: 1}}
		r.kernel.threads = append(r.kernel.threads, thread)
	}
	record := r.measure("a", "1", "web").record
	if len(record.Threads) != 5 {
		t.Fatalf("%d rows, want 3 threads and 2 groups: %v", len(record.Threads), record.Threads)
	}
	var lifetime, charged, switches uint64
	threads := uint32(0)
	for _, m := range record.Threads {
		states := m.OnCpuWallNs + m.RunQueueNs + m.GetThrottledLoNs() + m.StoppedNs
		for _, b := range m.Blocked {
			states += b.Ns
		}
		if states != m.LifetimeNs {
			t.Errorf("%s: %d ns of states, lifetime %d ns", m.Comm, states, m.LifetimeNs)
		}
		lifetime, charged, switches, threads = lifetime+m.LifetimeNs, charged+m.OnCpuChargedNs, switches+m.Switches, threads+max(1, m.FoldedThreads)
	}
	if lifetime != 20_000 || charged != 190*10+20 || switches != 40 || threads != 20 {
		t.Errorf("lifetime %d ns, charged %d ns, %d switches, %d threads", lifetime, charged, switches, threads)
	}
	for i, want := range []string{"worker-17", "worker-18", "worker-19"} {
		if m := record.Threads[i]; m.Comm != want || m.FoldedThreads != 0 {
			t.Errorf("kept %s, want %s, the busiest", m.Comm, want)
		}
	}
	odd := record.Threads[3]
	want := &rungv1.Thread{Comm: "odd", FoldedThreads: 8, LifetimeNs: 8000, OnCpuWallNs: 640, OnCpuChargedNs: 648, RunQueueNs: 40,
		ThrottledLoNs: u64(16), ThrottledHiNs: u64(40), StoppedNs: 8, Switches: 16, Wakeups: 8,
		Blocked: []*rungv1.Blocked{{Reason: "page fault", Ns: 8000 - 640 - 64, Intervals: 8}}}
	if !proto.Equal(odd, want) {
		t.Errorf("%v, want %v", odd, want)
	}
	if rest := record.Threads[4]; rest.Comm != "worker-*" || rest.FoldedThreads != 9 {
		t.Errorf("%v", rest)
	}
	warnings := strings.Join(record.Warnings, "\n")
	for _, part := range []string{"17 of 20 threads have no row of their own", "(--max-threads 3)", `thread group "none=nosuch" took none of 20 threads`} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no %q among %q", part, record.Warnings)
		}
	}
	if c := record.Config; c.MaxThreads != 3 || fmt.Sprint(c.ThreadGroups) != "[odd=worker-[0-9]*[13579] none=nosuch]" {
		t.Errorf("config %v", c)
	}
}

func TestMaxThreadsBounds(t *testing.T) {
	for _, n := range []int{-1, MaxMaxThreads + 1} {
		c := Config{Loaded: bpf.Options{RateHz: 1}, MaxThreads: n, Targets: []Target{{Name: "a", Pid: 1}}}
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), "must be 1 to 100000") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
