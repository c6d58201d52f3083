//go:build linux

package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

func analysed(t *testing.T, dir string) report.Report {
	t.Helper()
	r, err := analyse([]string{dir}, analyseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(got *float64, want float64) bool { return got != nil && math.Abs(*got-want) < 1e-9 }

func TestAnalyseSoundDemo(t *testing.T) {
	dir := fixtureDemo(t)
	r := analysed(t, dir)
	if len(r.Arms) != 2 || r.Arms[0].Name != "a" || r.Arms[1].Name != "bb" {
		t.Fatalf("arms: %+v", r.Arms)
	}
	a := r.Arms[0]
	if a.Host != "Linux 6.12.0 arm64, 2 CPUs, 1000 Hz" || a.Body != "realistic" || a.QuotaCPUs != 0.4 {
		t.Errorf("arm: %q %q %v", a.Host, a.Body, a.QuotaCPUs)
	}
	s := a.Steps[2] // 300/s, 1500 requests
	if s.DeliveredHz != 300 || !near(s.CPUMsPerRequest, 0.666) || !near(s.Cores, 0.1998) || !near(s.ThrottledCPUSeconds, 0.25) ||
		!near(s.PeriodsThrottled, 0.1) || *s.RSSBytes != 20_000_000 || len(s.Absent) != 0 || len(s.Flags) != 0 {
		t.Errorf("step: %+v", s)
	}
	if s.Profile != filepath.Join(dir, "a", "steps", "02-300", "profile.pb.gz") {
		t.Errorf("profile: %s", s.Profile)
	}
	for _, c := range s.Checks {
		if !c.OK || c.Absent != "" {
			t.Errorf("check: %+v", c)
		}
	}
	if a.Reading.Knee == nil || a.Reading.Knee.OfferedHz != 400 {
		t.Errorf("reading: %+v", a.Reading)
	}
	if g := s.Account.Groups; len(g) != 1 || g[0].Group != "worker-*" || g[0].Lifetime.MeanThreads != 1 || s.Account.ThrottledSeparated {
		t.Errorf("account: %+v", s.Account)
	}
	futex, read := s.Account.Total.Blocked[0].Wakers, s.Account.Total.Blocked[1].Wakers
	if len(futex) != 2 || futex[0].Waker != "loop-*" || !futex[0].Thread || futex[0].Time.Ns != 2e9 || len(read) != 1 || read[0].Share != 1 || read[0].Thread {
		t.Errorf("wakers: %+v, %+v", futex, read)
	}
	if c := s.Cost; *c.BPFNs != 20_000_000 || c.BPFRuns != 150 || *c.ArmNs != 999_000_000 || c.WindowNs != 5e9 {
		t.Errorf("cost: %+v", c)
	}
}

func TestAnalyseMatched(t *testing.T) {
	r := analysed(t, fixtureDemo(t))
	m := r.Matched
	if !near(m.RateHz, 400) || len(m.Columns) != 2 || len(m.Excluded) != 0 {
		t.Fatalf("matched: %+v", m)
	}
	table := m.Columns[1].Table
	if !table.TotalFromAccount || table.TotalNs != 999e6 || table.Bootstrap.Blocks != 50 || !near(table.MsPerRequest, 999.0/2000) {
		t.Errorf("table: %+v", table)
	}
	var ns int64
	share := map[string]float64{}
	for _, row := range table.Rows {
		share[row.Layer] = row.Share.Value
		ns += row.Ns
	}
	if share["codec"] != 0.6 || share["syscalls"] != 0.3 || share[attribution.Other] != 0.1 || ns != table.TotalNs {
		t.Errorf("shares: %v, %d of %d ns", share, ns, table.TotalNs)
	}
	functions := false
	for _, row := range table.Rows {
		functions = functions || len(row.Functions) > 0
	}
	for _, row := range r.Arms[0].Steps[3].Layers.Rows {
		if len(row.Functions) > 0 {
			t.Error("a step carries functions beside the comparison")
		}
	}
	if !functions {
		t.Error("the comparison has no functions")
	}
}

func TestAnalyseMissingRecord(t *testing.T) {
	dir := t.TempDir()
	gone := fixtureStep(1, 200)
	gone.Record = nil
	gone.Client.Warnings = []string{"client: busy", "missing: marker: lost", "missing: record: agent did not answer"}
	writeRun(t, dir, "a", gone, withProfile(t, 2, 300))
	r := analysed(t, dir)
	s := r.Arms[0].Steps[0]
	for _, f := range []string{"cpuMsPerRequest", "cores", "throttledCpuSeconds", "periodsThrottled", "rssBytes", "account", "layers"} {
		if s.Absent[f] != "no record: agent did not answer" {
			t.Errorf("%s: %q", f, s.Absent[f])
		}
	}
	if !s.Has(ladder.FlagAgentMissing) || s.CPUMsPerRequest != nil || s.Account != nil || s.DeliveredHz != 200 {
		t.Errorf("step: %+v", s)
	}
	if top := r.Arms[0].TopStep(); top == nil || top.Name != "02-300" {
		t.Errorf("top step: %+v", top)
	}
	if !near(r.Matched.RateHz, 300) {
		t.Errorf("matched: %+v", r.Matched)
	}
}

func TestAnalyseVoidAndZeroDeliveries(t *testing.T) {
	dir := t.TempDir()
	void := withProfile(t, 1, 200)
	void.Client.Void = "arm died"
	void.Client.Delivered, void.Client.DeliveredInWindow, void.Client.Completed = 0, 0, 0
	void.Client.Unanswered = void.Client.Sent
	zero := withProfile(t, 2, 300)
	zero.Client.Delivered, zero.Client.DeliveredInWindow = 0, 0
	zero.Client.Errors = map[string]uint64{"refused": zero.Client.Sent}
	zero.Client.ResponseMs = nil
	agentVoid := withProfile(t, 3, 400)
	agentVoid.Record.VoidReason = "the host was suspended"
	writeRun(t, dir, "a", void, zero, agentVoid)
	r := analysed(t, dir)
	steps := r.Arms[0].Steps
	if !steps[0].Void() || steps[1].Void() || !steps[2].Void() {
		t.Errorf("void: %v %v %v", steps[0].Flags, steps[1].Flags, steps[2].Flags)
	}
	for _, s := range steps[:2] {
		if s.CPUMsPerRequest != nil || s.Absent["cpuMsPerRequest"] != "nothing was delivered inside the window" || s.Absent["p50Ms"] != "nothing was delivered" {
			t.Errorf("%s: %v %v", s.Name, s.CPUMsPerRequest, s.Absent)
		}
		if s.Layers.MsPerRequest != nil {
			t.Errorf("%s has ms per request without requests", s.Name)
		}
	}
	if steps[1].Cores == nil || !steps[1].Has(ladder.FlagErrors) {
		t.Errorf("zero deliveries: %+v", steps[1])
	}
	if r.Arms[0].Reading.Knee != nil || r.Arms[0].Reading.NoKnee == "" {
		t.Errorf("reading: %+v", r.Arms[0].Reading)
	}
}

// A record may hold nothing at all: every figure is then absent.
func TestAnalyseEmptyRecord(t *testing.T) {
	dir := t.TempDir()
	s := withProfile(t, 1, 200)
	s.Record, s.ProfileGz = &rungv1.StepRecord{}, nil
	writeRun(t, dir, "a", s)
	if got := analysed(t, dir).Arms[0].Steps[0]; got.Cores != nil || got.Absent["cores"] == "" {
		t.Errorf("an empty record gives %+v", got)
	}
}

func TestAnalyseAbsentControllers(t *testing.T) {
	dir := t.TempDir()
	s := withProfile(t, 1, 200)
	s.Record.Counters = &rungv1.Counters{}
	s.Record.Warnings = []string{"the counters were read 30 ms late: usage_usec is uncertain", "no throttling: open /x/cpu.stat: no such file"}
	s.Record.Cost.Programs, s.Record.Cost.BpfUnavailable = nil, "statistics are refused"
	writeRun(t, dir, "a", s)
	got := analysed(t, dir).Arms[0].Steps[0]
	for f, want := range map[string]string{
		"throttledCpuSeconds": s.Record.Warnings[1], "periodsThrottled": s.Record.Warnings[1],
		"cpuMsPerRequest": "usage_usec was not read", "cores": "usage_usec was not read",
		"rssBytes": "resident memory was not read",
	} {
		if got.Absent[f] != want {
			t.Errorf("%s: %q, want %q", f, got.Absent[f], want)
		}
	}
	if got.Cost.BPFNs != nil || got.Cost.BPFMissing != "statistics are refused" || got.Cost.ArmNs != nil {
		t.Errorf("cost: %+v", got.Cost)
	}
	if got.Layers.Residual != nil || !got.Layers.TotalFromAccount {
		t.Errorf("layers: %+v", got.Layers)
	}
}

func TestAnalyseNoPeriodEnded(t *testing.T) {
	dir := t.TempDir()
	s := fixtureStep(1, 200)
	zero := uint64(0)
	s.Record.Counters.NrPeriods, s.Record.Counters.NrThrottled = &zero, &zero
	writeRun(t, dir, "a", s)
	r := analysed(t, dir)
	if got := r.Arms[0].Steps[0]; got.PeriodsThrottled != nil || got.Absent["periodsThrottled"] != "no CFS period ended in the window" || got.Absent["layers"] != "the step has no profile" {
		t.Errorf("step: %v, %v", got.PeriodsThrottled, got.Absent)
	}
	if len(r.Matched.Excluded) != 1 || r.Matched.Reason == "" {
		t.Errorf("matched: %+v", r.Matched)
	}
}

func TestAnalyseBrokenIdentityIsShown(t *testing.T) {
	dir := t.TempDir()
	s := fixtureStep(1, 200)
	s.Client.Sent--
	s.Client.ConnectionsOpen = 1
	s.Record.Window.StartMonoNs += 200e6
	writeRun(t, dir, "a", s)
	bad := map[string]bool{}
	for _, c := range analysed(t, dir).Arms[0].Steps[0].Checks {
		if !c.OK {
			bad[c.Name] = true
		}
	}
	for _, name := range []string{checkScheduled, checkSent, checkConnections, checkWindow} {
		if !bad[name] {
			t.Errorf("%s passes", name)
		}
	}
}

func TestAnalyseRepeatsAndUnfinished(t *testing.T) {
	dir := t.TempDir()
	writeRun(t, filepath.Join(dir, "one"), "a", withProfile(t, 1, 200))
	writeRun(t, filepath.Join(dir, "two"), "a", withProfile(t, 1, 200))
	r := analysed(t, dir)
	if r.Arms[0].Name != "a (one)" || r.Arms[1].Name != "a (two)" || len(r.Matched.Columns) != 2 {
		t.Errorf("arms %s, %s, %d columns", r.Arms[0].Name, r.Arms[1].Name, len(r.Matched.Columns))
	}
	if _, err := analyse([]string{t.TempDir()}, analyseOptions{}); err == nil || !strings.Contains(err.Error(), "no run in") {
		t.Errorf("empty directory: %v", err)
	}
	spoiled := t.TempDir()
	s := fixtureStep(1, 200)
	s.ProfileGz = []byte("not a profile")
	writeRun(t, spoiled, "a", s)
	if _, err := analyse([]string{spoiled}, analyseOptions{}); err == nil || !strings.Contains(err.Error(), "01-200/"+rundir.ProfileFile) {
		t.Errorf("spoiled profile: %v", err)
	}
}
