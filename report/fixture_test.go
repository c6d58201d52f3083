package report

import (
	"time"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
)

func ptr[T any](v T) *T { return &v }

const second = int64(1e9)

// step is a sound step of 5 s in which every request was delivered.
func step(index int, name string, hz, msPerRequest float64) Step {
	requests := uint64(5 * hz)
	usage := msPerRequest * 1e6 * float64(requests)
	return Step{
		Step: ladder.Step{
			Index: index, Name: name, OfferedHz: hz, DeliveredHz: hz, DeliveredInWindow: requests,
			P50Ms: ptr(1.418), P99Ms: ptr(12.6), P999Ms: ptr(101.3),
			CPUMsPerRequest: ptr(msPerRequest), Cores: ptr(usage / 5e9),
			ThrottledCPUSeconds: ptr(0.02), PeriodsThrottled: ptr(0.06), RSSBytes: ptr(uint64(23_456_789)),
		},
		Profile: "demo/arm/steps/" + name + "/profile.pb.gz",
		Account: account(),
		Cost: &Cost{WindowNs: 5e9, AgentCPUNs: 21_000_000, BPFNs: ptr(uint64(34_000_000)), ArmNs: ptr(uint64(usage)),
			AgentRSSBytes: 61_000_000, MapBytes: 9_500_000},
		Checks: []attribution.Check{
			{Name: attribution.CheckClosure, Value: 1.0004, Want: 1, Bound: ptr(0.012), OK: true},
			{Name: attribution.CheckWallCharged, Value: -1.25e6, Unit: "ns", OK: true, Detail: "−0.1 % of wall"},
			{Name: "scheduled − Σ", Value: 0, Want: 0, Bound: ptr(0.0), Unit: "requests", OK: true},
		},
	}
}

func threadTime(ns int64) attribution.ThreadTime {
	return attribution.ThreadTime{Ns: ns, MeanThreads: float64(ns) / float64(5*second)}
}

func group(name string, threads int, onCPU, queue, futex, read, idle int64) attribution.AccountRow {
	r := attribution.AccountRow{
		Group: name, Threads: threads, OnCPU: threadTime(onCPU), RunQueue: threadTime(queue),
		Blocked: []attribution.ReasonRow{
			{Reason: "futex", Limited: true, Time: threadTime(futex), Intervals: 9}, {Reason: "read", Object: "pipe", Time: threadTime(read), Intervals: 3},
		},
		BlockedTotal: threadTime(futex + read), Idle: threadTime(idle),
		Lifetime: threadTime(onCPU + queue + futex + read + idle),
	}
	if idle > 0 {
		r.IdleReasons = []attribution.ReasonRow{{Reason: "epoll_pwait", Time: threadTime(idle), Intervals: 7}}
	}
	return r
}

func account() *attribution.Account {
	a := &attribution.Account{
		WindowNs: 5 * second,
		Groups: []attribution.AccountRow{
			group("worker-*", 4, 1_234_567_890, 345_678_901, 10_000_000_000, 8_419_753_209, 0),
			group("loop-*", 1, 800_000_000, 100_000_000, 0, 1_000_000, 4_099_000_000),
		},
		Total: group("", 5, 2_034_567_890, 445_678_901, 10_000_000_000, 8_420_753_209, 4_099_000_000),
		Notes: []string{"threads in epoll_pwait may also wait for a downstream answer"},
	}
	a.AddWakers([]attribution.Waker{
		{Group: "worker-*", Reason: "futex", Limited: true, Waker: "loop-*", Thread: true, Comm: "loop-0", Draws: 400, Ns: 7_500_000_000},
		{Group: "worker-*", Reason: "futex", Limited: true, Waker: "interrupt", Draws: 112, Ns: 2_500_000_000},
		{Group: "worker-*", Reason: "read", Object: "pipe", Waker: "client", Thread: true, Outside: true, Comm: "client", Draws: 3, Ns: 8_419_753_209},
		{Group: "loop-*", Reason: "read", Object: "pipe", Waker: "not drawn", Ns: 1_000_000},
	}, nil)
	return a
}

// throttle tells throttled time of a thread group apart, of which lo ns were in run-queue wait.
func throttle(a *attribution.Account, group int, lo, hi int64) {
	a.ThrottledSeparated = true
	for i := range a.Groups {
		a.Groups[i].Throttled = &attribution.ThreadRange{}
	}
	for _, row := range []*attribution.AccountRow{&a.Groups[group], &a.Total} {
		row.RunQueue = threadTime(row.RunQueue.Ns - lo)
		row.Throttled = &attribution.ThreadRange{Lo: threadTime(lo), Hi: threadTime(hi)}
	}
}

// table is 1000 samples over the layers given, with Σ charged to apportion.
func table(msPerRequest float64, samples map[string]int64) attribution.Table {
	layers := []string{"syscalls", "interrupt", "runtime", "codec", "transport", "framework", "application", "other"}
	requests := uint64(6000)
	total := int64(msPerRequest * 1e6 * float64(requests))
	t := attribution.Table{
		Charge: attribution.Leaf, Unit: "nanoseconds", TotalNs: total, TotalFromAccount: true, Samples: 1000, Requests: requests,
		MsPerRequest: ptr(msPerRequest),
		Residual: &attribution.Residual{UsageNs: total - total/500, ChargedNs: total, Ns: -total / 500, Share: -0.002,
			MsPerRequest: ptr(-msPerRequest / 500)},
		Bootstrap: attribution.Bootstrap{Blocks: 50, Resamples: 2000, Seed: 1, Confidence: 0.95},
	}
	for _, l := range layers {
		n := samples[l]
		share := float64(n) / 1000
		half := 0.001 + share/10
		row := attribution.Row{Layer: l, About: "what " + l + " holds", Samples: n, Ns: total * n / 1000,
			Share:        attribution.Estimate{Value: share, Interval: &attribution.Interval{Lo: share - half, Hi: share + half}},
			MsPerRequest: &attribution.Estimate{Value: msPerRequest * share}}
		if n < 10 {
			row.TooFew = "fewer than 10 samples"
		}
		t.Rows = append(t.Rows, row)
	}
	if n := samples["missing stack"]; n > 0 {
		share := float64(n) / 1000
		t.Unattributed = []attribution.Row{{Layer: "missing stack", Samples: n, Ns: total * n / 1000,
			Share: attribution.Estimate{Value: share}, MsPerRequest: &attribution.Estimate{Value: msPerRequest * share}}}
	}
	return t
}

func arm(name string, steps ...Step) Arm {
	return Arm{Name: name, Run: "r-" + name, Protocol: name, Body: "realistic", Dir: "demo/" + name, QuotaCPUs: 0.4,
		Started: time.Date(2026, 9, 7, 8, 0, 0, 0, time.UTC), Host: "Linux 6.12 arm64, 2 CPUs, 999 Hz", Steps: steps,
		Reading: ladder.Reading{Rule: ladder.DefaultKneeRule(),
			Knee:    &ladder.Knee{Step: 1, OfferedHz: 1200, NextHz: ptr(2400.0), Why: "delivered 61.0 % of offered"},
			Plateau: &ladder.Plateau{Shape: ladder.Flat, MeanHz: 1464.2, MinHz: 1460, MaxHz: 1468.4, PeakHz: 1468.4, Steps: 2},
			Cores:   &ladder.Fit{InterceptCores: 0.0123, MsPerRequest: 0.2501, MaxResidualCores: 0.004, Steps: 3}}}
}

// fourArms is a whole demo with something of everything.
func fourArms() *Report {
	r := &Report{SchemaVersion: SchemaVersion, Title: "Rung demo", Dir: "demo", Rules: "preset go"}
	for i, name := range []string{"rest-h1", "rest-h2c", "grpc-unary", "grpc-stream"} {
		ms := []float64{0.2701, 0.3114, 0.2245, 0.0987}[i]
		warm, low, top := step(0, "00-200", 200, 2*ms), step(1, "01-1200", 1200, ms), step(2, "02-2400", 2400, 0.9*ms)
		warm.Warmup = true
		top.DeliveredHz, top.OverflowHz, top.CapLimited = 1464.2, 935.8, true
		top.InFlightAtEnd, top.CPUMsPerAttempt = 64, ptr(0.8*ms)
		throttle(top.Account, 0, 200_000_000, []int64{200_000_000, 245_000_000}[i%2]) // a kernel with a bound only in every second
		top.P50Ms, top.P99Ms, top.P999Ms = ptr(96.2), ptr(4686.35), ptr(25248.7)
		top.PeriodsThrottled, top.ThrottledCPUSeconds = ptr(0.9876), ptr(2.315)
		top.Flags = []ladder.Flag{{Kind: ladder.FlagCapLimited, Detail: "overflow is 39 % of scheduled"},
			{Kind: ladder.FlagInFlight, Detail: "0 at start, 64 at end"}}
		r.Arms = append(r.Arms, arm(name, warm, low, top))
		r.Matched.Columns = append(r.Matched.Columns, MatchedArm{Arm: name, Step: "01-1200", Table: table(ms, map[string]int64{
			"syscalls": 281, "interrupt": 60, "runtime": 234, "codec": 180, "transport": 150, "framework": 50, "application": 30,
			"other": int64(15 - 4*i), "missing stack": int64(4 * i)})})
	}
	r.Matched.RateHz = ptr(1200.0)
	r.Arms[1].Steps[2].Losses = []Loss{{Name: "stack table full", Count: 17, Meaning: "on-CPU samples without a stack: row lost stack"}}
	r.Arms[1].Steps[2].Checks[0] = attribution.Check{Name: attribution.CheckClosure, Value: 1.031, Want: 1, Bound: ptr(0.012),
		Detail: "Σ charged exceeds usage_usec by 61 ms"}
	return r
}

// troubled is one arm where nearly everything is missing.
func troubled() *Report {
	gone := step(1, "01-100", 100, 0.3)
	gone.Account, gone.Cost, gone.Profile, gone.Checks = nil, nil, "", nil
	gone.CPUMsPerRequest, gone.Cores, gone.ThrottledCPUSeconds, gone.PeriodsThrottled, gone.RSSBytes = nil, nil, nil, nil, nil
	const noAgent = "no record: the agent was not reachable"
	gone.Absent = map[string]string{"cpuMsPerRequest": noAgent, "cores": noAgent, "throttledCpuSeconds": noAgent,
		"periodsThrottled": noAgent, "rssBytes": noAgent, "account": noAgent}
	gone.Warnings = []string{"missing: record: the agent was not reachable", "sent below offered: 3 of 500"}
	gone.Flags = []ladder.Flag{{Kind: ladder.FlagAgentMissing, Detail: noAgent}}

	v1 := step(2, "02-200", 200, 0.3)
	v1.ThrottledCPUSeconds, v1.PeriodsThrottled = nil, nil
	v1.Absent = map[string]string{"throttledCpuSeconds": "no cpu controller in this cgroup", "periodsThrottled": "no cpu controller in this cgroup"}
	v1.Cost.BPFNs, v1.Cost.BPFMissing = nil, "the kernel refuses BPF statistics"
	v1.HeapBytes = ptr(uint64(63_000_000))

	void := step(3, "03-400", 400, 0.3)
	void.DeliveredHz, void.DeliveredInWindow = 0, 0
	void.P50Ms, void.P99Ms, void.P999Ms, void.CPUMsPerRequest = nil, nil, nil, nil
	const nothing = "nothing was delivered"
	void.Absent = map[string]string{"p50Ms": nothing, "p99Ms": nothing, "p999Ms": nothing, "cpuMsPerRequest": nothing}
	void.Flags = []ladder.Flag{{Kind: ladder.FlagVoid, Detail: "the arm died"}}

	a := arm("rest-h1", gone, v1, void)
	a.QuotaCPUs, a.Reading = 0, ladder.Reading{Rule: ladder.DefaultKneeRule(), NoKnee: "2 usable steps, want 3"}
	a.Warnings = []string{"step 04-800 was not finished"}
	return &Report{SchemaVersion: SchemaVersion, Title: "Rung report", Dir: "run it's", Rules: "preset go", Arms: []Arm{a},
		Matched:  Matched{Reason: "one arm alone has nothing to be compared with"},
		Warnings: []string{"hostile \x1b[31mname\x1b[0m | with `markup` <b>"}}
}
