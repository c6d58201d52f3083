package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/testing/protocmp"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/bpf"
)

func u64(v uint64) *uint64   { return &v }
func f64(v float64) *float64 { return &v }

// TestRecord fills a window with known figures and looks at all of its record.
func TestRecord(t *testing.T) {
	r := newRig(t)
	k := r.kernel
	read := int32(0) // of amd64
	if runtime.GOARCH == "arm64" {
		read = 63
	}
	k.costs = []bpf.ProgramCost{{Name: "on_switch", Runs: 10, RunTimeNs: 1000}}
	k.counters["stack_table_full"] = 5
	k.stacks[7] = bpf.Stack{Frames: []bpf.Frame{{Kind: bpf.FrameKernel, Value: 0x10}}, UserMissing: true}
	at := r.mustStart("run", "500", 20*time.Millisecond, "web")
	k.awaitEdges(1)
	k.mu.Lock()
	k.counters = bpf.Counters{"stack_table_full": 7, "sample_lost": 0}
	k.costs = []bpf.ProgramCost{{Name: "on_switch", Runs: 25, RunTimeNs: 4000}, {Name: "on_tick", Runs: 1, RunTimeNs: 2}}
	k.threads = []bpf.Thread{
		{Tid: 71, Tgid: 71, Comm: "main", StartNs: 5, LifetimeNs: 100, OnCPUWallNs: 60, OnCPUChargedNs: 61, OnCPUSkewNs: 2, RunQueueNs: 7, ThrottledNs: 3, ThrottledSlackNs: 4, RunQueueSkewNs: -1, StoppedNs: 1,
			Blocked: []bpf.Blocked{{Reason: bpf.SyscallReason(read, bpf.ObjectPipe, true), Ns: 20, Intervals: 2}, {Reason: bpf.ReasonFault, Ns: 9, Intervals: 1}}, Switches: 3, Wakeups: 2},
		{Tid: 72, Tgid: 71, Comm: "worker-1", StartNs: uint64(at) + 3, LifetimeNs: 10, OnCPUWallNs: 10, NoEvent: true},
		{Tid: 79, Tgid: 71, Comm: "gone\xff\x1b", StartNs: 6, LifetimeNs: 4, StoppedNs: 4, Exited: true},
	}
	k.samples = []bpf.Sample{
		{Tgid: 71, Tid: 71, StackHash: 7, InKernel: true, Syscall: read, Count: 3},
		{Tgid: 71, Tid: 72, StackHash: 0, Syscall: -1, Block: 1, Count: 2},
	}
	k.offCPU = []bpf.OffCPU{{Tgid: 71, Tid: 71, State: bpf.StateBlocked, Reason: k.threads[0].Blocked[0].Reason, StackHash: 7, Samples: 2, WeightNs: 20, LargestNs: 11,
		WakerTgid: 80, WakerTid: 81, WakerStackHash: 7}}
	k.mu.Unlock()
	write(t, r.root, map[string]string{
		"proc/80/task/81/comm":      "client-7\n",
		"proc/71/task/72/stat":      "72 (worker) R) R 1 71 71\n",
		"cg/web/cpu.stat":           "usage_usec 14000\nuser_usec 9000\nsystem_usec 5000\nnr_periods 12\nnr_throttled 5\nthrottled_usec 1000\n",
		"cg/web/cpu.pressure":       "some avg10=0.00 avg60=0.00 avg300=0.00 total=1300\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"proc/71/task/71/schedstat": "1061 210 5\n",
		"proc/71/task/72/schedstat": "6000 700 9\n",
	})
	end := now() + bpf.MonoNs(40*time.Millisecond)
	if err := r.end("run", "500", end); err != nil {
		t.Fatal(err)
	}
	got := r.mustGet("run", "500")["web"]
	want := &rungv1.StepRecord{
		Run: "run", Step: "500",
		Target: &rungv1.Target{Name: "web", Selector: &rungv1.Target_Cgroup{Cgroup: "/web"}, CgroupId: got.record.Target.CgroupId},
		Window: &rungv1.Window{BootId: "boot-1", StartMonoNs: uint64(at), EndMonoNs: uint64(end), BlockNs: 1e9},
		Counters: &rungv1.Counters{
			Sources:   []string{"cgroup2 cpu.stat", "cgroup2 cpu.max", "cgroup2 cpu.pressure", "cgroup2 memory.current", "proc stat rss"},
			UsageUsec: u64(10000), UserUsec: u64(6000), SystemUsec: u64(4000),
			NrPeriods: u64(2), NrThrottled: u64(1), ThrottledUsec: u64(223),
			MemoryCurrentBytes: u64(4096), QuotaCpus: f64(0.5), QuotaPeriodUsec: u64(100000),
			RssBytes: u64(25 * uint64(os.Getpagesize())), PressureSomeUsec: u64(66),
		},
		Threads: []*rungv1.Thread{
			{Tid: 71, Tgid: 71, Comm: "main", StartNs: 5, LifetimeNs: 100, OnCpuWallNs: 60, OnCpuChargedNs: 61, OnCpuSkewNs: 2, RunQueueNs: 7, ThrottledLoNs: u64(3), ThrottledHiNs: u64(7), RunQueueSkewNs: -1, StoppedNs: 1,
				Blocked: []*rungv1.Blocked{{Reason: "read", Object: "pipe", Limited: true, Ns: 20, Intervals: 2}, {Reason: "page fault", Ns: 9, Intervals: 1}}, Switches: 3, Wakeups: 2,
				SchedstatRunNs: u64(61), SchedstatWaitNs: u64(10)},
			{Tid: 72, ThrottledLoNs: u64(0), ThrottledHiNs: u64(0), Tgid: 71, Comm: "worker-1", StartNs: uint64(at) + 3, LifetimeNs: 10, OnCpuWallNs: 10, NoEvent: true,
				SchedstatRunNs: u64(6000)}, // runnable at the closing edge; born within the window: all it ever ran
			{Tid: 79, ThrottledLoNs: u64(0), ThrottledHiNs: u64(0), Tgid: 71, Comm: "gone??", StartNs: 6, LifetimeNs: 4, StoppedNs: 4, Exited: true},
		},
		Sampling: &rungv1.Sampling{RateHz: 999, PeriodNs: 1001001, Samples: 5, DistinctStacks: 1, ProfileBytes: uint64(len(got.profile)), OffCpuDraws: 2},
		Losses: []*rungv1.Loss{
			{Name: "stack_table_full", Count: 2},
			{Name: "profile_lost_stack", Count: 2},
			{Name: "profile_missing_user_stack", Count: 3},
			{Name: "offcpu_missing_user_stack", Count: 2},
			{Name: "offcpu_undrawn", Count: 3},
		},
		Wakers: []*rungv1.Waker{
			{ThreadGroup: "main", Comm: "main", Tid: 71, Reason: "page fault", Kind: rungv1.Waker_KIND_UNDRAWN, WakerGroup: "not drawn", Ns: 9},
			{ThreadGroup: "main", Comm: "main", Tid: 71, Reason: "read", Object: "pipe", Limited: true, Kind: rungv1.Waker_KIND_THREAD,
				WakerGroup: "client-*", WakerComm: "client-7", WakerTid: 81, Outside: true, Draws: 2, Ns: 20},
		},
		Cost: &rungv1.Cost{MapBytes: 4096, Programs: []*rungv1.ProgramCost{
			{Name: "on_switch", Runs: 15, RunTimeNs: 3000}, {Name: "on_tick", Runs: 1, RunTimeNs: 2}}},
		Host: got.record.Host,
		Config: &rungv1.Config{RateHz: 999, StackBudget: bpf.DefaultStackBudget, MaxStacks: bpf.DefaultMaxStacks,
			MaxStrata: bpf.DefaultMaxStrata, MaxSamples: bpf.DefaultMaxSamples, MaxEnded: bpf.DefaultMaxEnded, MaxThreads: DefaultMaxThreads, MaxAccounts: bpf.DefaultMaxThreads, Clock: "cpu"},
	}
	if diff := cmp.Diff(want, got.record, protocmp.Transform(),
		protocmp.IgnoreFields(&rungv1.Window{}, "start_wall_unix_ns", "start_late_ns", "end_late_ns"),
		protocmp.IgnoreFields(&rungv1.Counters{}, "start_bracket_ns", "end_bracket_ns", "start_read_mono_ns", "end_read_mono_ns"),
		protocmp.IgnoreFields(&rungv1.Cost{}, "agent_cpu_ns", "agent_rss_bytes", "park_ns"),
		protocmp.IgnoreFields(&rungv1.Loss{}, "meaning"),
		protocmp.IgnoreFields(&rungv1.StepRecord{}, "warnings")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, loss := range got.record.Losses {
		if loss.Meaning == "" {
			t.Errorf("%s has no meaning", loss.Name)
		}
	}
	if wall := time.Unix(0, got.record.Window.StartWallUnixNs); time.Since(wall) > time.Minute || time.Since(wall) < 0 {
		t.Errorf("the window began at %v", wall)
	}
	p, err := profile.Parse(bytes.NewReader(got.profile))
	if err != nil {
		t.Fatal(err)
	}
	sums := make([]int64, len(p.SampleType))
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[i] += v
		}
	}
	if !slices.Equal(sums, []int64{5, 5 * 1001001, 7, 3, 29}) {
		t.Errorf("the profile adds up to %d", sums)
	}
	if len(k.released) != 1 {
		t.Errorf("released %v", k.released)
	}
}

func TestProcessTree(t *testing.T) {
	r := newRig(t, Target{Name: "tree", Pid: 71})
	write(t, r.root, map[string]string{"proc/75/stat": procStat(75, 71, 200), "proc/76/stat": procStat(76, 75, 201), "proc/80/stat": procStat(80, 1, 300)})
	record := r.measure("a", "1", "tree").record
	c := record.Counters
	if c.UsageUsec != nil || c.NrThrottled != nil || c.MemoryCurrentBytes != nil {
		t.Errorf("a process tree has cgroup figures: %v", c)
	}
	if c.GetRssBytes() != 75*uint64(os.Getpagesize()) {
		t.Errorf("resident set %d", c.GetRssBytes())
	}
	if !strings.Contains(strings.Join(record.Warnings, "\n"), "a process tree has no cgroup counters") {
		t.Errorf("warnings %q", record.Warnings)
	}
	at := r.mustStart("a", "2", 5*time.Millisecond, "tree")
	write(t, r.root, map[string]string{"proc/71/stat": procStat(71, 1, 999)}) // another process of that number
	if err := r.end("a", "2", at+bpf.MonoNs(40*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if record := r.mustGet("a", "2")["tree"].record; !strings.Contains(record.VoidReason, "replaced within the window") {
		t.Errorf("void %q", record.VoidReason)
	}
}

func TestUnmeasuredIsAbsent(t *testing.T) {
	r := newRig(t)
	r.kernel.costsErr = &bpf.MissingError{Requirement: "BPF statistics", Remedy: "add CAP_SYS_ADMIN", Err: errors.New("operation not permitted")}
	record := r.measure("a", "1", "db").record
	c := record.Counters
	if c.NrPeriods != nil || c.QuotaCpus != nil || c.RssBytes != nil || c.PressureSomeUsec != nil || c.MemoryCurrentBytes != nil {
		t.Errorf("counters %v", c)
	}
	if c.UsageUsec == nil || *c.UsageUsec != 0 {
		t.Errorf("usage %v", c.UsageUsec)
	}
	if len(record.Cost.Programs) != 0 || !strings.Contains(record.Cost.BpfUnavailable, "add CAP_SYS_ADMIN") {
		t.Errorf("cost %v", record.Cost)
	}
	warnings := strings.Join(record.Warnings, "\n")
	for _, part := range []string{"no process left", "memory.current", "cpu.pressure", "cpu.max", "echo +cpu", "no thread"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no %q among %q", part, record.Warnings)
		}
	}
}

// TestChunks streams a profile of several chunks.
func TestChunks(t *testing.T) {
	r := newRig(t)
	seed := uint64(1)
	for i := range uint64(4000) {
		seed = seed*6364136223846793005 + 1442695040888963407
		r.kernel.stacks[i+1] = bpf.Stack{Frames: []bpf.Frame{{Kind: bpf.FrameKernel, Value: seed}}}
		r.kernel.samples = append(r.kernel.samples, bpf.Sample{Tgid: 71, Tid: 71, StackHash: i + 1, InKernel: true, Syscall: 1, Count: 1})
	}
	got := r.measure("a", "1", "web")
	if got.chunks < 2 || (len(got.profile)-1)/chunkBytes+1 != got.chunks {
		t.Errorf("%d bytes in %d chunks", len(got.profile), got.chunks)
	}
	if _, err := profile.Parse(bytes.NewReader(got.profile)); err != nil {
		t.Error(err)
	}
	if got.record.Sampling.DistinctStacks != 4000 {
		t.Errorf("sampling %v", got.record.Sampling)
	}
}

func TestManyThreads(t *testing.T) {
	r := newRig(t)
	for tid := 1000; tid < 1000+maxOracle; tid++ {
		write(t, r.root, map[string]string{filepath.Join("proc/71/task", strconv.Itoa(tid), "schedstat"): "1 2 3\n", filepath.Join("proc/71/task", strconv.Itoa(tid), "stat"): "1 (x) S 1\n"})
	}
	record := r.measure("a", "1", "web").record
	if !strings.Contains(strings.Join(record.Warnings, "\n"), "schedstat is read of 512 threads only") {
		t.Errorf("warnings %q", record.Warnings)
	}
}

func TestVoid(t *testing.T) {
	r := newRig(t)
	r.agent.mu.Lock()
	target := r.agent.targets[0]
	w := &window{target: target, identity: target.identity}
	r.agent.mu.Unlock()
	base := int64(time.Hour)
	for _, test := range []struct {
		moved int64
		gone  bool
		other uint64
		want  string
	}{
		{0, false, 0, ""},
		{int64(100 * time.Microsecond), false, 0, ""}, // within what two clocks can tell
		{int64(2 * time.Second), false, 0, "suspended for 2s"},
		{-int64(2 * time.Second), false, 0, "suspended for -2s"},
		{0, true, 0, "replaced within the window"},
		{0, false, 1, "replaced within the window"},
	} {
		w.identity = target.identity + test.other
		last := edge{suspendedNs: base + test.moved}
		last.counters.Gone = test.gone
		got := r.agent.voidReason(w, edge{suspendedNs: base}, last)
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%+v: void %q", test, got)
		}
	}
}
