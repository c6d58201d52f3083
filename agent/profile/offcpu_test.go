package profile

import (
	"bytes"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// Kernel stacks as the programs in the scheduler take them, the profiler's own
// frames at the leaf.
func init() {
	for addr, name := range map[uint64]string{
		0xe000: "bpf_prog_6deef7357e7b4530_draw_interval", 0xe010: "bpf_prog_0123456789abcdef_on_switch [bpf]",
		0xe020: "bpf_trace_run4", 0xe030: "__traceiter_sched_switch", 0xe040: "__schedule", 0xe050: "schedule",
		0xe060: "futex_wait_queue", 0xe070: "__x64_sys_futex", 0xe080: "pipe_read", 0xe090: "__x64_sys_read",
		0xe0a0: "try_to_wake_up", 0xe0b0: "futex_wake", 0xe0c0: "irqentry_exit_to_user_mode", 0xe0d0: "cpuidle_enter",
	} {
		kernelNames[addr] = name
	}
	own := []uint64{0xe001, 0xe011, 0xe021, 0xe031}
	take := func(addrs ...uint64) bpf.Stack { return bpf.Stack{Frames: frames(append(own[:4:4], addrs...)...)} }
	stacks[101] = take(0xe041, 0xe051, 0xe061, 0xe071, 0xff12, 0xff02, 0x1210, 0x1305, 0x1008) // futex in serve
	stacks[102] = take(0xe041, 0xe051, 0xe061, 0xe071, 0xff12, 0xff02, 0x1210, 0x1008)         // futex in main
	stacks[103] = take(0xe041, 0xe051, 0xe081, 0xe091, 0xff12, 0xff02, 0x1210, 0x1008)         // read in main
	stacks[104] = take(0xe041, 0xe051, 0xe0c1, 0xffb2, 0x1305, 0x1008)                         // preempted
	stacks[105] = take(0xe041, 0xe051, 0xe061, 0xe071, 0xff12, 0xff02, 0x1210, 0x1305, 0x1008) // as 101, under another hash
	stacks[111] = take(0xe0a1, 0xe0b1, 0xe071, 0xff12, 0xff02, 0x1210, 0x1305, 0x1008)         // wakes by futex
	stacks[112] = take(0xe0a1, 0xff71, 0xff61, 0xffc1, 0xffb2, 0x1400, 0x1008)                 // wakes from a softirq
	stacks[113] = take(0xe0a1, 0xe0d1)                                                         // wakes from the idle loop
}

var (
	futexReason = bpf.SyscallReason(202, bpf.ObjectNone, true)
	readReason  = bpf.SyscallReason(0, bpf.ObjectPipe, false)
)

func offCPUInput() Input {
	in := input(bpf.Sample{Tgid: 10, Tid: 11, StackHash: 1, Syscall: -1, Count: 3, Block: 2})
	in.Threads = []bpf.Thread{
		{Tid: 11, Tgid: 10, Comm: "worker-3", RunQueueNs: 1000, ThrottledNs: 50,
			Blocked: []bpf.Blocked{{Reason: futexReason, Ns: 1_000_001, Intervals: 90}, {Reason: readReason, Ns: 77, Intervals: 1}}},
		{Tid: 12, Tgid: 10, Comm: "worker-12", Blocked: []bpf.Blocked{{Reason: readReason, Ns: 500, Intervals: 1}}},
	}
	blocked := bpf.OffCPU{Tgid: 10, Tid: 11, State: bpf.StateBlocked, Reason: futexReason}
	row := func(hash, samples, weight, largest uint64, squares float64, waker uint32, wakerStack uint64) bpf.OffCPU {
		r := blocked
		r.StackHash, r.Samples, r.WeightNs, r.LargestNs, r.SquaresNs2 = hash, samples, weight, largest, squares
		r.WakerTgid, r.WakerTid, r.WakerStackHash = 10, waker, wakerStack
		return r
	}
	in.OffCPU = []bpf.OffCPU{
		row(101, 40, 600_000, 30_000, 9e9, 12, 111),
		row(105, 2, 100_000, 80_000, 1e9, 12, 111), // one sample with 101
		row(102, 30, 200_000, 9_000, 4e9, 99, 112),
		{Tgid: 10, Tid: 11, State: bpf.StateRunQueue, Reason: bpf.ReasonNone, StackHash: 104, Samples: 2, WeightNs: 800, LargestNs: 500},
		{Tgid: 10, Tid: 11, State: bpf.StateRunQueue, Reason: bpf.ReasonNone, StackHash: 101, Samples: 1, WeightNs: 200, LargestNs: 200},
		{Tgid: 10, Tid: 12, State: bpf.StateBlocked, Reason: readReason, StackHash: 103, Samples: 1, WeightNs: 400, LargestNs: 400},
		{Tgid: 10, Tid: 12, State: bpf.StateRunQueue, Reason: bpf.ReasonNone, StackHash: 103, Samples: 4, WeightNs: 9, LargestNs: 3},
	}
	return in
}

func TestOffCPU(t *testing.T) {
	p, stats, err := Build(offCPUInput())
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "off_cpu", p)
	if want := (Stats{OnCPU: Losses{Samples: 3}, OffCPU: Losses{Samples: 76}, Undrawn: 2, UndrawnNs: 127, Unaccounted: 4}); stats != want {
		t.Errorf("stats %+v, want %+v", stats, want)
	}
	var buf bytes.Buffer
	if err := p.Write(&buf); err != nil {
		t.Fatal(err)
	}
	if p, err = profile.ParseData(buf.Bytes()); err != nil {
		t.Fatal(err)
	}
	totals := map[string]int64{}
	for _, s := range p.Sample {
		set := 0
		for i, v := range s.Value {
			totals[p.SampleType[i].Type] += v
			if v != 0 && i >= columnRunQueue {
				set++
			}
		}
		if s.Label[LabelState][0] == StateOnCPU {
			if set != 0 || len(s.NumLabel[LabelDraws]) != 0 {
				t.Errorf("an on-CPU sample has off-CPU values: %v %v", s.Value, s.NumLabel)
			}
			continue
		}
		if set != 1 || s.Value[columnSamples] != 0 || s.Value[columnCPU] != 0 || s.NumUnit[LabelDraws][0] != "count" {
			t.Errorf("off-CPU sample %v, labels %v %v", s.Value, s.NumLabel, s.NumUnit)
		}
		if names := frameNames(s); strings.Contains(names, "bpf_") || strings.Contains(names, "traceiter") {
			t.Errorf("the profiler's own frames are in %q", names)
		}
	}
	want := map[string]int64{"samples": 3, "cpu": 3 * p.Period, StateRunQueue: 1000, StateThrottled: 50, StateBlocked: 1_000_578}
	for name, ns := range want {
		if totals[name] != ns {
			t.Errorf("%s adds up to %d, want %d", name, totals[name], ns)
		}
	}
	if p.DefaultSampleType != "cpu" {
		t.Errorf("default is %s", p.DefaultSampleType)
	}
}

func frameNames(s *profile.Sample) string {
	var names []string
	for _, l := range s.Location {
		for _, line := range l.Line {
			names = append(names, line.Function.Name)
		}
	}
	return strings.Join(names, " ")
}

// The standard error is that of the linearised ratio, and 0 for exact strata. Here
// the draws stand for half of the total: what they missed doubles it.
func TestStandardError(t *testing.T) {
	s := newStratum(stratumKey{}, 2_000_000, []bpf.OffCPU{
		{StackHash: 1, WeightNs: 750_000, SquaresNs2: 9e9}, {StackHash: 2, WeightNs: 250_000, SquaresNs2: 16e9},
	})
	want := 2 * 2_000_000 * math.Sqrt(0.25*0.25*9e9+0.75*0.75*16e9) / 1e6
	if got := s.standardError(1_500_000, 9e9); math.Abs(got-want) > 1e-6*want {
		t.Errorf("standard error %f, want %f", got, want)
	}
	if a, b := s.standardError(1_500_000, 9e9), s.standardError(500_000, 16e9); math.Abs(a-b) > 1e-6 {
		t.Errorf("two parts of one whole have errors %f and %f", a, b)
	}
	if got := s.standardError(2_000_000, 25e9); got != 0 {
		t.Errorf("the whole has an error of %f", got)
	}
}

// Strata add up to their totals, whatever the weights, and no order of rows shows.
func TestStrataAddUp(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for range 100 {
		var rows []bpf.OffCPU
		threads := []bpf.Thread{{Tid: 1, RunQueueNs: rng.Uint64N(1e12), ThrottledNs: rng.Uint64N(2)}, {Tid: 1, RunQueueNs: rng.Uint64N(1e3)}}
		for i := range rng.Uint64N(40) {
			weight := rng.Uint64N(1 << rng.UintN(64))
			rows = append(rows, bpf.OffCPU{Tid: 1, State: bpf.StateRunQueue, Reason: bpf.ReasonNone, StackHash: i % 5, Samples: 1, WeightNs: weight})
		}
		all, unaccounted := strata(threads, rows)
		var total, want int64
		for _, s := range all {
			sum := int64(0)
			for _, ns := range s.ns {
				sum += ns
			}
			if s.ns != nil && uint64(sum) != s.totalNs {
				t.Fatalf("rows add up to %d of %d", sum, s.totalNs)
			}
			total += int64(s.totalNs)
		}
		for _, th := range threads {
			want += int64(th.RunQueueNs + th.ThrottledNs)
		}
		if total != want || unaccounted != 0 {
			t.Fatalf("strata add up to %d of %d, %d draws unaccounted", total, want, unaccounted)
		}
	}
	var first string
	for range 5 {
		in := offCPUInput()
		rng.Shuffle(len(in.OffCPU), func(i, j int) { in.OffCPU[i], in.OffCPU[j] = in.OffCPU[j], in.OffCPU[i] })
		p, _, err := Build(in)
		if err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = p.String()
		} else if p.String() != first {
			t.Fatal("another order of rows gave another profile")
		}
	}
}

func TestTrimOwn(t *testing.T) {
	for leafFirst, want := range map[string]int{
		"bpf_prog_1_x bpf_trace_run4 __traceiter_sched_switch __schedule schedule": 3,
		"U U __bpf_trace_sched_switch __traceiter_sched_switch __schedule":         4,
		"bpf_trampoline_6442 __schedule bpf_prog_1_x":                              1,
		"__schedule bpf_trace_run4":                                                0,
		"U __schedule":                                                             0,
		"U U":                                                                      0,
		"":                                                                         0,
	} {
		var names []string
		for _, n := range strings.Fields(leafFirst) {
			if n == "U" {
				n = UnknownKernel
			}
			names = append(names, n)
		}
		if got := trimOwn(names); got != want {
			t.Errorf("%q: %d frames, want %d", leafFirst, got, want)
		}
	}
}

// Package attribution reads what Build writes: the errors that it works out for
// single stacks are those that stand on them.
func TestAttributionReadsOffCPU(t *testing.T) {
	p, _, err := Build(offCPUInput())
	if err != nil {
		t.Fatal(err)
	}
	o, err := attribution.OffCPUFromPprof(p)
	if err != nil || len(o.Warnings) != 0 {
		t.Fatalf("%v, %+v", err, o)
	}
	stderr := map[string]int64{}
	for _, s := range p.Sample {
		if reason := s.Label[LabelReason]; len(reason) > 0 && reason[0] == "futex" {
			stderr[frameNames(s)] = s.NumLabel[LabelStderr][0]
		}
	}
	var ns int64
	for _, top := range attribution.TopStacks(o, StateBlocked, 0) {
		ns += top.Ns
		var names []string
		for _, f := range top.Frames {
			names = append(names, f.Function)
		}
		want, ok := stderr[strings.Join(names, " ")]
		if !ok || top.TooFew != "" {
			continue
		}
		delete(stderr, strings.Join(names, " "))
		if got := *top.StderrThreads * float64(o.WindowNs); math.Abs(got-float64(want)) > 2 {
			t.Errorf("%v: standard error %f ns, the label says %d ns", names, got, want)
		}
		if top.Reason != "futex, timed" {
			t.Errorf("reason %q", top.Reason)
		}
	}
	if ns != 1_000_578 || len(stderr) > 1 {
		t.Errorf("stacks add up to %d ns; no interval: %v", ns, stderr)
	}
}

// Of very many threads, samples are of thread groups: nothing of their time is
// lost, and variances add up.
func TestOffCPUOfManyThreads(t *testing.T) {
	in := input()
	in.Comms = map[uint32]string{}
	var want int64
	for i := range uint32(maxStrata + 1) {
		tid, comm := 100+i, "pool-1"
		if i%2 == 1 {
			comm = "other"
		}
		in.Comms[tid] = comm
		in.Threads = append(in.Threads, bpf.Thread{Tid: tid, Tgid: 10, Comm: comm, Blocked: []bpf.Blocked{{Reason: readReason, Ns: 1000, Intervals: 1}}})
		want += 1000
		if i%3 > 0 {
			in.OffCPU = append(in.OffCPU,
				bpf.OffCPU{Tgid: 10, Tid: tid, State: bpf.StateBlocked, Reason: readReason, StackHash: 103, Samples: 3, WeightNs: 600, LargestNs: 300, SquaresNs2: 1e4},
				bpf.OffCPU{Tgid: 10, Tid: tid, State: bpf.StateBlocked, Reason: readReason, StackHash: 104, Samples: 2, WeightNs: 400, LargestNs: 200, SquaresNs2: 1e4})
		}
	}
	p, stats, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Sample) != 6 { // two groups, two stacks each and one that was not drawn
		t.Errorf("%d samples, want 6", len(p.Sample))
	}
	var got, draws, deviations int64
	for _, s := range p.Sample {
		got += s.Value[columnBlocked]
		draws += s.NumLabel[LabelDraws][0]
		if s.NumLabel[LabelTid] != nil || s.Label[LabelThread] != nil || s.Label[LabelThreadGroup] == nil {
			t.Errorf("labels %v, %v", s.Label, s.NumLabel)
		}
		if s.NumLabel[LabelStderr] != nil {
			deviations++
			// About 2,730 threads, each with the error of its own two stacks, but for
			// the correction of the ratio.
			one := math.Sqrt(0.4*0.4*1e4 + 0.6*0.6*1e4)
			if r := float64(s.NumLabel[LabelStderr][0]) / (one * math.Sqrt(2730)); r < 0.95 || r > 1.05 {
				t.Errorf("standard error is %.3f of what independent threads give", r)
			}
		}
	}
	if got != want || uint64(draws) != stats.OffCPU.Samples || deviations != 4 {
		t.Errorf("%d ns of %d, %d draws of %d, %d samples with a standard error", got, want, draws, stats.OffCPU.Samples, deviations)
	}
}
