//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// noteStep writes what a campaign notes beside a step.
func noteStep(t *testing.T, dir string, state campaign.StepState) {
	t.Helper()
	data, err := campaign.EncodeState(state)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, rundir.StepsDir, state.Step.Name(), campaign.StepFile), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnalyseControls: a step without the agent has its CPU from the campaign's own
// reading, is in no comparison, and tells what profiling cost the arm.
func TestAnalyseControls(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a")
	unprofiled := func(index int, hz float64) rundir.Step {
		s := fixtureStep(index, hz)
		s.Record = nil
		return s
	}
	writeRun(t, dir, "a", withProfile(t, 0, 100), withProfile(t, 1, 200), unprofiled(2, 200), withProfile(t, 3, 300), unprofiled(4, 300), unprofiled(5, 400))
	throttled := int64(125e6)
	for i, s := range []campaign.StepState{
		{Step: campaign.Step{Kind: campaign.KindWarmup, OfferedHz: 100, Profile: true}},
		{Step: campaign.Step{Kind: campaign.KindMeasured, OfferedHz: 200, Profile: true}, CPU: &campaign.CPUTime{UsageNs: 1.05e9, Source: "cgroup"}},
		{Step: campaign.Step{Kind: campaign.KindControl, OfferedHz: 200}, CPU: &campaign.CPUTime{UsageNs: 1e9, Source: "cgroup", ThrottledNs: &throttled}},
		{Step: campaign.Step{Kind: campaign.KindMeasured, OfferedHz: 300, Profile: true}, CPU: &campaign.CPUTime{UsageNs: 1.65e9, Source: "cgroup"}},
		{Step: campaign.Step{Kind: campaign.KindControl, OfferedHz: 300}, CPU: &campaign.CPUTime{UsageNs: 1.5e9, Source: "process clock"}},
		{Step: campaign.Step{Kind: campaign.KindMeasured, OfferedHz: 400}, CPUAbsent: "its process is not known"},
	} {
		s.Step.Index = i
		noteStep(t, dir, s)
	}
	a := analysed(t, dir).Arms[0]
	control := a.Steps[2]
	if !near(control.CPUMsPerRequest, 1) || !near(control.Cores, 0.2) || !near(control.ThrottledCPUSeconds, 0.125) || control.Profiled ||
		!control.Has(ladder.FlagControl) || control.Has(ladder.FlagAgentMissing) || !strings.HasPrefix(control.Absent["layers"], "driven without the agent") ||
		control.Absent["cpuMsPerRequest"] != "" || control.Absent["rssBytes"] == "" {
		t.Errorf("control: %+v, absent %v", control.Step, control.Absent)
	}
	if s := a.Steps[4]; !strings.Contains(s.Absent["throttledCpuSeconds"], "the campaign read a process clock, which has none") || !near(s.CPUMsPerRequest, 1) {
		t.Errorf("by the process's clock: %+v, %v", s.Step, s.Absent)
	}
	if s := a.Steps[5]; s.CPUMsPerRequest != nil || !strings.Contains(s.Absent["cores"], "CPU: its process is not known") {
		t.Errorf("no CPU: %+v, %v", s.Step, s.Absent)
	}
	if len(a.Overheads) != 2 || !near(&a.Overheads[0].Share, 0.05) || !near(&a.Overheads[1].Share, 0.1) || a.Overheads[1].Control != "04-300" || !near(a.Overhead, 0.075) {
		t.Errorf("overheads: %+v, %v", a.Overheads, a.Overhead)
	}
	if a.Reading.Knee == nil || a.Reading.Knee.OfferedHz != 400 || len(a.Reading.Warnings) != 1 {
		t.Errorf("reading: %+v", a.Reading)
	}
	var text bytes.Buffer
	r := analysed(t, dir)
	if err := report.Terminal(&text, &r, report.TerminalOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What profiling cost the arms", "+10.0", "a: profiling changed CPU per request by +7.5 %, the median of 2", "driven without the profiler"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "steps/02-200", campaign.StepFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := analyse([]string{dir}, analyseOptions{}); err == nil || !strings.Contains(err.Error(), "steps/02-200/step.json") {
		t.Errorf("a damaged note: %v", err)
	}
}

// TestAnalyseJVM: the JIT share is a column, and a first step in which the
// compilers were at work is flagged.
func TestAnalyseJVM(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jvm")
	var steps []rundir.Step
	for i, share := range []uint64{60, 30, 2, 1} {
		s := withProfile(t, i, float64(100+100*i))
		s.Record.Threads[0].OnCpuChargedNs = (100 - share) * 1e7
		for _, compiler := range []string{"C1 CompilerThre", "C2 CompilerThre"} {
			s.Record.Threads = append(s.Record.Threads, &rungv1.Thread{Tid: 8, Tgid: 7, Comm: compiler, LifetimeNs: 5e9,
				OnCpuWallNs: share * 5e6, OnCpuChargedNs: share * 5e6, Blocked: []*rungv1.Blocked{{Reason: "futex", Ns: 5e9 - share*5e6, Intervals: 1}}})
		}
		steps = append(steps, s)
	}
	writeRun(t, dir, "jvm", steps...)
	r := analysed(t, dir)
	a := r.Arms[0]
	for i, want := range []float64{0.6, 0.3, 0.02, 0.01} {
		if !near(a.Steps[i].JITShare, want) || a.Steps[i].Has(ladder.FlagFirstStep) != (i == 1) {
			t.Errorf("step %d: JIT %v, flags %v", i, a.Steps[i].JITShare, a.Steps[i].Flags)
		}
	}
	var text bytes.Buffer
	if err := report.Terminal(&text, &r, report.TerminalOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"JIT", "30.0", "first step", "the JIT took 30.0 % of the arm's CPU, in the steps after it at most 2.0 %"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%s", want, text.String())
		}
	}
	if jitShare(fixtureStep(1, 100).Record) != nil || jitShare(nil) != nil {
		t.Error("what is no JVM has a JIT share")
	}
}
