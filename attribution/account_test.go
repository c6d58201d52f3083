package attribution

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func u64(v uint64) *uint64 { return &v }

const testWindow = int64(1e9)

// loopThreads is arm `loop` over one second: a reactor, two workers, Go's own.
func loopThreads() []Thread {
	return []Thread{
		{Tid: 1, Comm: "loop-0", LifetimeNs: 1e9, OnCPUWallNs: 2e8, OnCPUChargedNs: 2e8, RunQueueNs: 1e8, Switches: 10,
			Blocked: []Blocked{{Reason: "epoll_pwait", Ns: 7e8, Intervals: 9}}},
		{Tid: 2, Comm: "worker-0", LifetimeNs: 1e9, OnCPUWallNs: 3e8, OnCPUChargedNs: 3e8, RunQueueNs: 1e8, Switches: 10,
			Blocked: []Blocked{{Reason: "futex", Ns: 5e8, Intervals: 4}, {Reason: "read", Ns: 1e8, Intervals: 2}}},
		{Tid: 3, Comm: "worker-1", LifetimeNs: 5e8, OnCPUWallNs: 1e8, OnCPUChargedNs: 1e8, StoppedNs: 1e8, Switches: 10,
			Blocked: []Blocked{{Reason: "futex", Ns: 3e8, Intervals: 4}}},
		{Tid: 4, Comm: "rung", LifetimeNs: 1e9, OnCPUWallNs: 1e7, OnCPUChargedNs: 1e7, Switches: 10,
			Blocked: []Blocked{{Reason: "nanosleep", Ns: 4.9e8, Intervals: 4}, {Reason: "futex", Ns: 5e8, Intervals: 1}}},
	}
}

func TestAccount(t *testing.T) {
	a, err := NewAccount(loopThreads(), testWindow, mustPreset(t, "go"))
	if err != nil {
		t.Fatal(err)
	}
	var groups []string
	for _, g := range a.Groups {
		groups = append(groups, g.Group)
	}
	if want := []string{"worker-*", "loop-*", "rung"}; !slices.Equal(groups, want) {
		t.Fatalf("groups %v, want %v", groups, want)
	}
	workers, loop, rung := a.Groups[0], a.Groups[1], a.Groups[2]
	// A worker's futex may be its queue or a lock: not called idle.
	if workers.Threads != 2 || workers.Idle.Ns != 0 || !reflect.DeepEqual(workers.Blocked[0], ReasonRow{Reason: "futex", Time: ThreadTime{8e8, 0.8}, Intervals: 8}) ||
		workers.BlockedTotal.Ns != 9e8 || workers.Stopped.MeanThreads != 0.1 {
		t.Errorf("workers: %+v", workers)
	}
	if loop.Idle.MeanThreads != 0.7 || len(loop.Blocked) != 0 || loop.IdleReasons[0].Reason != "epoll_pwait" {
		t.Errorf("loop: %+v", loop)
	}
	if rung.Idle.Ns != 9.9e8 || len(rung.IdleReasons) != 2 || rung.IdleReasons[0].Reason != "futex" {
		t.Errorf("rung: %+v", rung)
	}
	if len(a.Notes) != 2 {
		t.Errorf("notes %q, want what futex cannot tell, of workers and of Go's threads", a.Notes)
	}
	if a.ThrottledSeparated || a.Total.Throttled != nil {
		t.Error("throttled time was not told apart, yet is shown")
	}
	if a.Total.Lifetime.MeanThreads != 3.5 || a.Total.Residual.Ns != 0 || len(a.Warnings) != 0 {
		t.Errorf("total %+v, warnings %q", a.Total, a.Warnings)
	}
}

func TestIdleRulesOfPresetGo(t *testing.T) {
	rules := mustPreset(t, "go")
	for wait, want := range map[[2]string]bool{
		{"rung", "futex"}: true, {"rung", "epoll_pwait"}: true, {"rung", "nanosleep"}: true, {"rung", "read"}: false,
		{"worker-*", "futex"}: false, {"worker-*", "read"}: false, {"worker-*", "nanosleep"}: false,
		{"loop-*", "epoll_pwait"}: true, {"loop-*", "futex"}: false,
		{"downstream", "read"}: true, {"downstream", "clock_nanosleep"}: false,
		{"rung", "disk"}: false, {"rung", "page fault"}: false,
	} {
		if got, _ := rules.isIdle(wait[0], "", wait[1]); got != want {
			t.Errorf("%s blocked in %s: idle %v, want %v", wait[0], wait[1], got, want)
		}
	}
}

// checkAccount: each row's states and residual are its lifetime, groups are the total.
func checkAccount(t *testing.T, a *Account) {
	t.Helper()
	var lifetime, idle, residual int64
	for _, g := range append(a.Groups[:len(a.Groups):len(a.Groups)], a.Total) {
		sum := g.OnCPU.Ns + g.RunQueue.Ns + g.BlockedTotal.Ns + g.Idle.Ns + g.Stopped.Ns + g.Residual.Ns
		if g.Throttled != nil {
			sum += g.Throttled.Lo.Ns
		}
		if sum != g.Lifetime.Ns {
			t.Errorf("group %s: states and residual are %d, lifetime %d", g.Group, sum, g.Lifetime.Ns)
		}
		var blocked int64
		for _, r := range g.Blocked {
			blocked += r.Time.Ns
		}
		if blocked != g.BlockedTotal.Ns {
			t.Errorf("group %s: reasons are %d, blocked %d", g.Group, blocked, g.BlockedTotal.Ns)
		}
	}
	for _, g := range a.Groups {
		lifetime += g.Lifetime.Ns
		idle += g.Idle.Ns
		residual += g.Residual.Ns
	}
	if lifetime != a.Total.Lifetime.Ns || idle != a.Total.Idle.Ns || residual != a.Total.Residual.Ns {
		t.Errorf("groups do not add up to the total %+v", a.Total)
	}
}

func TestAccountAddsUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	comms := []string{"worker-0", "worker-1", "rung", "loop-0", ""}
	reasons := []string{"futex", "epoll_pwait", "read", "disk"}
	for range 200 {
		var threads []Thread
		for range rng.IntN(12) {
			th := Thread{Comm: comms[rng.IntN(len(comms))], LifetimeNs: rng.Uint64N(1e9), OnCPUWallNs: rng.Uint64N(1e9),
				RunQueueNs: rng.Uint64N(1e9), StoppedNs: rng.Uint64N(1e6)}
			for range rng.IntN(4) {
				th.Blocked = append(th.Blocked, Blocked{reasons[rng.IntN(4)], []string{"", "pipe"}[rng.IntN(2)], rng.IntN(2) == 0, rng.Uint64N(1e9), rng.Uint64N(9)})
			}
			if rng.IntN(2) == 0 {
				th.ThrottledLoNs, th.ThrottledHiNs = u64(rng.Uint64N(1e6)), u64(2e6)
			}
			threads = append(threads, th)
		}
		a, err := NewAccount(threads, testWindow, mustPreset(t, "go"))
		if err != nil {
			t.Fatal(err)
		}
		checkAccount(t, a)
		if a.Total.Residual.Ns != 0 && len(a.Warnings) == 0 {
			t.Error("a leak gives no warning")
		}
		again, _ := NewAccount(threads, testWindow, mustPreset(t, "go"))
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(again)
		if string(x) != string(y) {
			t.Fatal("same input, other bytes")
		}
	}
}

func TestAccountThrottled(t *testing.T) {
	threads := []Thread{{Comm: "a", LifetimeNs: 100, OnCPUWallNs: 40, RunQueueNs: 20, ThrottledLoNs: u64(40), ThrottledHiNs: u64(55)}}
	a, err := NewAccount(threads, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkAccount(t, a)
	if th := a.Groups[0].Throttled; !a.ThrottledSeparated || th == nil || th.Lo.Ns != 40 || th.Hi.Ns != 55 {
		t.Errorf("throttled %+v, separated %v", th, a.ThrottledSeparated)
	}
}

// Idle rules know the syscall; rows tell its object and timeout apart.
func TestAccountReasons(t *testing.T) {
	threads := []Thread{{Comm: "loop-0", LifetimeNs: 100, Blocked: []Blocked{
		{Reason: "read", Object: "pipe", Ns: 30, Intervals: 1}, {Reason: "read", Object: "pipe", Ns: 3, Intervals: 2}, {Reason: "read", Object: "socket", Ns: 20, Intervals: 1},
		{Reason: "epoll_pwait", Limited: true, Ns: 40, Intervals: 1}, {Reason: "epoll_pwait", Ns: 4, Intervals: 1}, {Reason: "clock_nanosleep", Limited: true, Ns: 3, Intervals: 1},
	}}}
	a, err := NewAccount(threads, 100, mustPreset(t, "go"))
	if err != nil {
		t.Fatal(err)
	}
	checkAccount(t, a)
	names := func(rows []ReasonRow) (names []string) {
		for _, r := range rows {
			names = append(names, r.Name())
		}
		return names
	}
	if got := names(a.Total.Blocked); !slices.Equal(got, []string{"read (pipe)", "read (socket)", "clock_nanosleep"}) || a.Total.Blocked[0].Intervals != 3 {
		t.Errorf("blocked in %q: %+v", got, a.Total.Blocked)
	}
	if got := names(a.Total.IdleReasons); !slices.Equal(got, []string{"epoll_pwait, timed", "epoll_pwait"}) {
		t.Errorf("idle in %q", got)
	}
}

func TestAccountEdges(t *testing.T) {
	if _, err := NewAccount(nil, 0, nil); err == nil {
		t.Error("a window without length gives an account")
	}
	a, err := NewAccount(nil, 1, nil)
	if err != nil || len(a.Warnings) != 1 || a.Total.Threads != 0 {
		t.Errorf("no threads: %+v, %v", a, err)
	}
}

func TestThreadGroup(t *testing.T) {
	for comm, want := range map[string]string{
		"worker-3":        "worker-*",
		"worker-12":       "worker-*",
		"worker7":         "worker*",
		"loop-0":          "loop-*",
		"qtp1234567-45":   "qtp*-*",
		"pool-1-thread-2": "pool-*-thread-*",
		"kworker/0:1":     "kworker/*:*",
		"GC Thread#0":     "GC Thread#*",
		"G1 Conc#0":       "G1 Conc#*",
		"C1 CompilerThre": "C1 CompilerThre",
		"C2 CompilerThre": "C2 CompilerThre",
		"rest-h1":         "rest-h1",
		"server":          "server",
		"42":              "*",
		"":                "",
	} {
		if got := ThreadGroup(comm); got != want {
			t.Errorf("ThreadGroup(%q) = %q, want %q", comm, got, want)
		}
	}
}

func TestChecks(t *testing.T) {
	usage := int64(6.1e8)
	sound := func() CheckInput {
		threads := loopThreads()
		for i := range threads {
			threads[i].SchedstatRunNs = u64(threads[i].OnCPUWallNs + 20_000) // 2 µs per switch
			threads[i].SchedstatWaitNs = u64(threads[i].RunQueueNs)
		}
		return CheckInput{Threads: threads, UsageNs: &usage, CPUs: 2, TickNs: 1e6, Samples: 610, PeriodNs: 1e6}
	}
	for name, c := range map[string]struct {
		change func(*CheckInput)
		broken []string // and all others sound
		absent []string
	}{
		"sound":          {func(*CheckInput) {}, nil, nil},
		"closure":        {func(in *CheckInput) { v := int64(6.2e8); in.UsageNs = &v }, []string{CheckClosure}, nil},
		"within bracket": {func(in *CheckInput) { v := int64(6.2e8); in.UsageNs = &v; in.BracketNs = 4e6 }, nil, nil},
		"schedstat run":  {func(in *CheckInput) { in.Threads[1].SchedstatRunNs = u64(3.1e8) }, []string{CheckSchedstatRun}, nil},
		"wall":           {func(in *CheckInput) { in.Threads[1].OnCPUWallNs += 1e7; in.Threads[1].RunQueueNs -= 1e7 }, []string{CheckSchedstatWait}, nil},
		"skew": {func(in *CheckInput) {
			in.Threads[1].RunQueueNs += 1e7
			in.Threads[1].OnCPUWallNs -= 1e7
			in.Threads[1].RunQueueSkewNs = -1e7
		}, nil, nil},
		"schedstat wait":   {func(in *CheckInput) { in.Threads[1].SchedstatWaitNs = u64(0) }, []string{CheckSchedstatWait}, nil},
		"many samples":     {func(in *CheckInput) { in.Samples = 900 }, []string{CheckSamplesExpected}, nil},
		"few samples":      {func(in *CheckInput) { in.Samples = 400 }, []string{CheckSamplesExpected}, nil},
		"leak":             {func(in *CheckInput) { in.Threads[0].RunQueueNs++; in.Threads[1].RunQueueNs-- }, []string{CheckAccountCloses}, nil},
		"no usage":         {func(in *CheckInput) { in.UsageNs = nil }, nil, []string{CheckClosure}},
		"no CPUs":          {func(in *CheckInput) { in.CPUs = 0 }, nil, []string{CheckClosure}},
		"no samples taken": {func(in *CheckInput) { in.PeriodNs = 0 }, nil, []string{CheckSamplesExpected}},
		"no schedstat": {func(in *CheckInput) {
			for i := range in.Threads {
				in.Threads[i].SchedstatRunNs, in.Threads[i].SchedstatWaitNs = nil, nil
			}
		}, nil, []string{CheckSchedstatRun, CheckRunOffset, CheckSchedstatWait, CheckWaitOffset}},
		"no threads": {func(in *CheckInput) { in.Threads = nil }, nil, []string{CheckAccountCloses, CheckClosure, CheckWallCharged,
			CheckSchedstatRun, CheckRunOffset, CheckSchedstatWait, CheckWaitOffset, CheckSamplesExpected}},
	} {
		t.Run(name, func(t *testing.T) {
			in := sound()
			c.change(&in)
			checks := Checks(in)
			if len(checks) != 8 {
				t.Errorf("%d checks, want 8", len(checks))
			}
			for _, k := range checks {
				wantAbsent := slices.Contains(c.absent, k.Name)
				wantOK := !wantAbsent && !slices.Contains(c.broken, k.Name)
				if k.OK != wantOK || (k.Absent != "") != wantAbsent {
					t.Errorf("%+v; want OK %v, absent %v", k, wantOK, wantAbsent)
				}
				if math.IsNaN(k.Value) || math.IsInf(k.Value, 0) {
					t.Errorf("%s: value %v", k.Name, k.Value)
				}
			}
		})
	}
}

func TestOffsetIsSignedPerSwitch(t *testing.T) {
	checks := Checks(CheckInput{Threads: []Thread{
		{OnCPUWallNs: 1000, Switches: 4, SchedstatRunNs: u64(9000)},
		{OnCPUWallNs: 1000, Switches: 6, SchedstatRunNs: u64(3000)},
		{OnCPUWallNs: 1000, Switches: 90},
	}})
	for _, c := range checks {
		if c.Name == CheckRunOffset && (c.Value != -1000 || c.Bound != nil || !c.OK) {
			t.Errorf("offset %+v, want -1000 ns over the 10 switches that have an oracle", c)
		}
	}
}
