//go:build linux

package main

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/rundir"
)

// A hand-made step: a window of 5 s from 1 s on, 50 blocks of 100 ms, one
// thread that was 1.0 s on the CPU (0.999 s charged, 0.999 s used), 0.5 s in the
// run queue, and blocked for the rest. 1000 samples: 600 in encoding/json, 300
// in a write, 100 in a function of no layer.
const (
	fixtureStart = uint64(1e9)
	fixtureEnd   = uint64(6e9)
)

func fixtureStep(index int, hz float64) rundir.Step {
	n := uint64(5 * hz)
	return rundir.Step{
		Index: index, OfferedHz: hz, Warmup: index == 0,
		Client: &rundir.ClientStep{
			Index: index, OfferedHz: hz, Warmup: index == 0,
			Scheduled: n, Sent: n, Completed: n, Delivered: n, DeliveredInWindow: n,
			ConnectionsWanted: 2, ConnectionsOpen: 2,
			WindowStartMonoNs: fixtureStart, WindowEndMonoNs: fixtureEnd, BootID: "boot",
			FirstSendMonoNs: fixtureStart - 5e8, LastSendMonoNs: fixtureEnd, DrainEndMonoNs: fixtureEnd + 1e6,
			ResponseMs: &rundir.LatencyMs{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
		},
		Record: &rungv1.StepRecord{
			Window: &rungv1.Window{BootId: "boot", StartMonoNs: fixtureStart, EndMonoNs: fixtureEnd, BlockNs: 1e8},
			Counters: &rungv1.Counters{
				UsageUsec: proto.Uint64(999_000), NrPeriods: proto.Uint64(50), NrThrottled: proto.Uint64(5),
				ThrottledUsec: proto.Uint64(250_000), RssBytes: proto.Uint64(20_000_000),
				StartBracketNs: 100_000, EndBracketNs: 200_000,
			},
			Threads: []*rungv1.Thread{{
				Tid: 7, Tgid: 7, Comm: "worker-1", LifetimeNs: 5e9, OnCpuWallNs: 1e9, OnCpuChargedNs: 999e6, RunQueueNs: 5e8,
				Blocked:  []*rungv1.Blocked{{Reason: "futex", Ns: 3e9, Intervals: 3}, {Reason: "read", Ns: 5e8, Intervals: 5}},
				Switches: 100, SchedstatRunNs: proto.Uint64(1e9), SchedstatWaitNs: proto.Uint64(5e8),
			}},
			Wakers: []*rungv1.Waker{
				{ThreadGroup: "worker-*", Reason: "futex", Kind: rungv1.Waker_KIND_THREAD, WakerGroup: "loop-*", WakerComm: "loop-0", Draws: 2, Ns: 2e9},
				{ThreadGroup: "worker-*", Reason: "futex", Kind: rungv1.Waker_KIND_NONE, WakerGroup: "nobody", Draws: 1, Ns: 1e9},
				{ThreadGroup: "worker-*", Reason: "read", Kind: rungv1.Waker_KIND_INTERRUPT, WakerGroup: "interrupt", Draws: 5, Ns: 5e8},
			},
			Sampling: &rungv1.Sampling{RateHz: 1000, PeriodNs: 1e6, Samples: 1000},
			Losses:   []*rungv1.Loss{{Name: "stack table full", Count: 0}},
			Cost: &rungv1.Cost{AgentCpuNs: 10e6, AgentRssBytes: 30e6, MapBytes: 4e6,
				Programs: []*rungv1.ProgramCost{{Name: "switch", Runs: 100, RunTimeNs: 15e6}, {Name: "sample", Runs: 50, RunTimeNs: 5e6}}},
			Host: &rungv1.Host{Kernel: "6.12.0", Arch: "arm64", Cpus: 2, TickNs: 4e6},
		},
	}
}

// fixtureProfile is the pprof of fixtureStep.
func fixtureProfile(t *testing.T) []byte {
	t.Helper()
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e6,
	}
	locations := map[string]*profile.Location{}
	mappings := map[string]*profile.Mapping{}
	at := func(file, function string) *profile.Location {
		if l := locations[function]; l != nil {
			return l
		}
		m := mappings[file]
		if m == nil {
			m = &profile.Mapping{ID: uint64(len(mappings) + 1), File: file}
			mappings[file] = m
			p.Mapping = append(p.Mapping, m)
		}
		f := &profile.Function{ID: uint64(len(p.Function) + 1), Name: function}
		p.Function = append(p.Function, f)
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: m, Line: []profile.Line{{Function: f}}}
		p.Location = append(p.Location, l)
		locations[function] = l
		return l
	}
	main := at("/arm", "main.main")
	for block := range int64(50) {
		add := func(count int64, stack ...*profile.Location) {
			p.Sample = append(p.Sample, &profile.Sample{
				Location: append(stack, main), Value: []int64{count, count * 1e6},
				Label:    map[string][]string{"thread_group": {"worker-*"}, "state": {"on-cpu"}},
				NumLabel: map[string][]int64{"tid": {7}, "block": {block}},
			})
		}
		add(12, at("/arm", "encoding/json.(*encodeState).marshal"))
		add(6, at("[kernel.kallsyms]", "vfs_write"), at("[kernel.entry]", "syscall:write"), at("/arm", "net.(*conn).Write"))
		add(2, at("/arm", "example.org/planted.Burn"))
	}
	var buf bytes.Buffer
	if err := p.Write(&buf); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// writeRun makes a run directory of the steps given.
func writeRun(t *testing.T, dir, arm string, steps ...rundir.Step) {
	t.Helper()
	d, err := rundir.Create(dir, rundir.Run{ID: "r", Arm: arm, Protocol: "rest-h1", QuotaCPUs: 0.4,
		Started: time.Date(2026, 9, 6, 20, 27, len(arm), 0, time.UTC), Plan: rundir.Plan{Body: "realistic"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := d.WriteStep(s); err != nil {
			t.Fatal(err)
		}
	}
}

// withProfile is fixtureStep with its profile.
func withProfile(t *testing.T, index int, hz float64) rundir.Step {
	s := fixtureStep(index, hz)
	s.ProfileGz = fixtureProfile(t)
	return s
}

// fixtureDemo is a directory of two sound runs.
func fixtureDemo(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, arm := range []string{"a", "bb"} {
		writeRun(t, filepath.Join(dir, arm), arm,
			withProfile(t, 0, 100), withProfile(t, 1, 200), withProfile(t, 2, 300), withProfile(t, 3, 400))
	}
	return dir
}
