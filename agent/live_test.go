package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/bpf"
)

// liveGroup makes a group of this test's own with a quota of half a CPU, and
// starts shell commands in it. It skips where the host does not let it.
func liveGroup(t *testing.T, commands ...string) (group string, pids []int) {
	t.Helper()
	roots, err := cgroup.Detect("/proc")
	if err != nil || roots.V2 == "" {
		t.Skipf("no cgroup v2 hierarchy here: %v", err)
	}
	group = fmt.Sprintf("/rung-agent-test-%d", os.Getpid())
	dirs := []string{filepath.Join(roots.V2, group)}
	quota := map[string]string{"cpu.max": "50000 100000"}
	if v1 := roots.V1["cpu"]; v1 != "" {
		dirs = append(dirs, filepath.Join(v1, group))
		quota = map[string]string{"cpu.cfs_quota_us": "50000"}
	}
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("cgroups cannot be made here: %v", err)
		}
		t.Cleanup(func() {
			for range 100 { // a killed process leaves its group a little later
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("%s is left behind", dir)
		})
	}
	for file, text := range quota {
		err := os.WriteFile(filepath.Join(dirs[len(dirs)-1], file), []byte(text), 0o644)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			t.Logf("no quota: %v", err) // the cpu controller is not enabled for children of the root
		} else if err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range commands {
		cmd := exec.Command("sh", "-c", "read go; "+command)
		gate, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		for _, dir := range dirs {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintln(gate)
		pids = append(pids, cmd.Process.Pid)
	}
	return group, pids
}

// liveAgent serves an agent over the real kernel side.
func liveAgent(t *testing.T, targets ...Target) *rig {
	t.Helper()
	kernel, err := bpf.Load(bpf.Options{RateHz: 999})
	var missing *bpf.MissingError
	if errors.As(err, &missing) {
		t.Skipf("the kernel side cannot be loaded here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kernel.Close() })
	a, err := New(Config{Targets: targets, Loaded: bpf.Options{RateHz: 999}}, kernel)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, agent: a, boot: a.bootID}
	r.client, r.stop = serve(t, a)
	return r
}

// TestLive measures a group of this host with a real kernel side, and holds the
// account against the cgroup's counters and the threads' schedstat.
func TestLive(t *testing.T) {
	group, pids := liveGroup(t, "while :; do :; done", "while :; do :; done", "while :; do sleep 0.01; done")
	r := liveAgent(t, Target{Name: "live", Cgroup: group}, Target{Name: "self", Pid: uint32(os.Getpid())})

	// Well ahead: an emulated machine takes its time to arm an edge.
	started, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{
		Run: "live", Step: "1", Targets: []string{"live"}, AtMonoNs: uint64(now()) + uint64(500*time.Millisecond), BootId: r.boot})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.client.EndStep(r.context(), &rungv1.EndStepRequest{
		Run: "live", Step: "1", AtMonoNs: started.AtMonoNs + uint64(2*time.Second), BootId: started.Clock.BootId})
	if err != nil {
		t.Fatal(err)
	}
	got := r.mustGet("live", "1")["live"]
	record := got.record
	for _, text := range record.Warnings {
		t.Logf("warning: %s", text)
	}
	if record.VoidReason != "" {
		t.Fatalf("void: %s", record.VoidReason)
	}
	var charged, wall uint64
	seen := map[int]bool{}
	for _, thread := range record.Threads {
		charged += thread.OnCpuChargedNs
		wall += thread.OnCpuWallNs
		seen[int(thread.Tid)] = true
		if thread.SchedstatRunNs == nil {
			continue
		}
		for _, pair := range []struct {
			name  string
			ours  uint64
			truth *uint64
		}{{"run", thread.OnCpuChargedNs, thread.SchedstatRunNs}, {"wait", uint64(int64(thread.RunQueueNs+thread.GetThrottledLoNs()) + thread.RunQueueSkewNs), thread.SchedstatWaitNs}} {
			if pair.truth == nil {
				continue // runnable at an edge: a warning says so
			}
			allowed := float64(*pair.truth)*0.005 + 4000*float64(thread.Switches) + float64(record.Host.TickNs) +
				float64(record.Counters.StartBracketNs+record.Counters.EndBracketNs) + 2e6
			if off := float64(pair.ours) - float64(*pair.truth); off > allowed || off < -allowed {
				t.Errorf("%s %d: %s %d ns, schedstat %d ns", thread.Comm, thread.Tid, pair.name, pair.ours, *pair.truth)
			}
		}
	}
	for _, pid := range pids {
		if !seen[pid] {
			t.Errorf("process %d has no account", pid)
		}
	}
	c := record.Counters
	if c.UsageUsec == nil {
		t.Fatalf("no usage: %v", c)
	}
	usage := float64(*c.UsageUsec) * 1e3
	allowed := float64(record.Host.Cpus)*float64(record.Host.TickNs+c.StartBracketNs+c.EndBracketNs) + 0.003*usage
	if off := float64(charged) - usage; off > allowed || off < -allowed {
		t.Errorf("charged %d ns, usage %.0f ns, off by more than %.0f ns", charged, usage, allowed)
	}
	p, err := profile.Parse(bytes.NewReader(got.profile))
	if err != nil {
		t.Fatal(err)
	}
	checkOffCPU(t, record, p)
	checkWakers(t, record)
	t.Logf("usage %.4f s, charged %.4f s, wall %.4f s; %d threads, %d samples, %d stacks, %d locations; brackets %d and %d ns, late %d and %d ns; agent %d ns",
		usage/1e9, float64(charged)/1e9, float64(wall)/1e9, len(record.Threads), record.Sampling.Samples, record.Sampling.DistinctStacks,
		len(p.Location), c.StartBracketNs, c.EndBracketNs, record.Window.StartLateNs, record.Window.EndLateNs, record.Cost.AgentCpuNs)
	for _, loss := range record.Losses {
		t.Logf("loss %s %d", loss.Name, loss.Count)
	}
	low := 0.7
	if os.Getenv("RUNG_TEST_EMULATED") != "" {
		low = 0.25 // an emulator's timers come late, and ticks that pile up count as one
	}
	if ticks := float64(record.Sampling.Samples) * float64(record.Sampling.PeriodNs); ticks < low*usage || ticks > 1.3*usage {
		t.Errorf("samples stand for %.3f s of %.3f s", ticks/1e9, usage/1e9)
	}
}

// checkOffCPU holds the profile's off-CPU values against the account, to the
// nanosecond, and looks at their stacks.
func checkOffCPU(t *testing.T, record *rungv1.StepRecord, p *profile.Profile) {
	t.Helper()
	want := map[string]int64{}
	for _, thread := range record.Threads {
		want["run-queue"] += int64(thread.RunQueueNs)
		want["throttled"] += int64(thread.GetThrottledLoNs())
		for _, b := range thread.Blocked {
			want["blocked"] += int64(b.Ns)
		}
	}
	got, lost := map[string]int64{}, map[string]int64{}
	for _, s := range p.Sample {
		leaf := s.Location[0].Line[0].Function.Name
		for i, v := range s.Value {
			got[p.SampleType[i].Type] += v
			if leaf == "[lost stack]" {
				lost[p.SampleType[i].Type] += v
			}
		}
		if state := s.Label["state"][0]; state != "on-cpu" && (strings.HasPrefix(leaf, "bpf_") || strings.HasPrefix(leaf, "__bpf") || strings.HasPrefix(leaf, "__traceiter")) {
			t.Errorf("%s: the profiler's own %s is at the leaf", state, leaf)
		}
	}
	for state, ns := range want {
		t.Logf("%s %.4f s, of which without a stack %.4f s", state, float64(got[state])/1e9, float64(lost[state])/1e9)
		if got[state] != ns {
			t.Errorf("%s: the profile has %d ns, the account %d ns", state, got[state], ns)
		}
		// A thread that waits for the CPU at the opening edge gave no stack in the window.
		if state == "blocked" && float64(lost[state]) > 0.1*float64(ns)+1e6 {
			t.Errorf("%s: %d of %d ns have no stack", state, lost[state], ns)
		}
	}
	if record.Sampling.OffCpuDraws == 0 {
		t.Error("no off-CPU interval was drawn")
	}
}

// checkWakers adds the wakers of each reason up to the account's time in it.
func checkWakers(t *testing.T, record *rungv1.StepRecord) {
	t.Helper()
	left := map[string]int64{}
	name := func(reason, object string, limited bool) string { return fmt.Sprint(reason, " ", object, " ", limited) }
	for _, thread := range record.Threads {
		for _, b := range thread.Blocked {
			left[name(b.Reason, b.Object, b.Limited)] += int64(b.Ns)
		}
	}
	for _, w := range record.Wakers {
		left[name(w.Reason, w.Object, w.Limited)] -= int64(w.Ns)
		t.Logf("%s in %s %s woken by %s %q: %.4f s of %d draws", w.ThreadGroup, w.Reason, w.Object, w.WakerGroup, w.WakerComm, float64(w.Ns)/1e9, w.Draws)
	}
	for reason, ns := range left {
		if ns != 0 {
			t.Errorf("%s: wakers miss the account by %d ns", reason, ns)
		}
	}
}
