package loadgen

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each kind of evidence just below its bound and just above it.
func TestClientLimits(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	n := func(v uint64) *uint64 { return &v }
	with := func(change func(*StepResult)) StepResult {
		r := StepResult{
			Scheduled: 1000, ResponseMs: &LatencyMs{P50: 20}, LatenessMs: &LatenessMs{P99: 0.1, Max: 1},
			Driver: DriverUse{Cores: 0.5, AllowanceCPUs: 2},
		}
		change(&r)
		return r
	}
	for _, tc := range []struct {
		name string
		r    StepResult
		want []LimitKind
	}{
		{"headroom", with(func(r *StepResult) {}), nil},
		{"nothing was sent", StepResult{}, nil},
		{"late by less than a fifth of p50", with(func(r *StepResult) { r.LatenessMs.P99 = 3.9 }), nil},
		{"late by more than a fifth of p50", with(func(r *StepResult) { r.LatenessMs.P99 = 4.1 }), []LimitKind{LimitSchedule}},
		{"late by less than a millisecond", with(func(r *StepResult) { r.ResponseMs.P50, r.LatenessMs.P99 = 0.1, 0.9 }), nil},
		{"late by more than a millisecond", with(func(r *StepResult) { r.ResponseMs.P50, r.LatenessMs.P99 = 0.1, 1.1 }), []LimitKind{LimitSchedule}},
		{"late and no answers", with(func(r *StepResult) { r.ResponseMs, r.LatenessMs.P99 = nil, 1.1 }), []LimitKind{LimitSchedule}},
		{"stood still", with(func(r *StepResult) { r.LatenessMs.Max = 101 }), []LimitKind{LimitSchedule}},
		{"dropped late, few", with(func(r *StepResult) { r.LateDropped = 5 }), nil},
		{"dropped late", with(func(r *StepResult) { r.LateDropped = 6 }), []LimitKind{LimitSchedule}},
		{"overflow is the service's", with(func(r *StepResult) { r.Overflow = 900 }), nil},
		{"goroutines waited", with(func(r *StepResult) { r.Driver.RunnableMsP99 = f(4.1) }), []LimitKind{LimitSchedule}},
		{"own CPU below", with(func(r *StepResult) { r.Driver.Cores = 1.59 }), nil},
		{"own CPU", with(func(r *StepResult) { r.Driver.Cores = 1.61 }), []LimitKind{LimitOwnCPU}},
		{"throttled once in many periods", with(func(r *StepResult) { r.Driver.Periods, r.Driver.ThrottledPeriods = 100, n(1) }), nil},
		{"throttled", with(func(r *StepResult) { r.Driver.Periods, r.Driver.ThrottledPeriods = 100, n(2) }), []LimitKind{LimitThrottle}},
		{"pressure below", with(func(r *StepResult) { r.Driver.CPUPressure = f(0.19) }), nil},
		{"pressure", with(func(r *StepResult) { r.Driver.CPUPressure = f(0.21) }), []LimitKind{LimitPressure}},
		{"a short collection", with(func(r *StepResult) { r.Driver.GCPauseMsMax = 3.9 }), nil},
		{"a long collection", with(func(r *StepResult) { r.Driver.GCPauseMsMax = 4.1 }), []LimitKind{LimitGC}},
		{"collections all the time", with(func(r *StepResult) { r.Driver.GCShare = 0.16 }), []LimitKind{LimitGC}},
		{"unsent at times", with(func(r *StepResult) { r.Driver.UnsentSamples, r.Driver.UnsentAbove = 10, 2 }), nil},
		{"unsent", with(func(r *StepResult) { r.Driver.UnsentSamples, r.Driver.UnsentAbove = 10, 3 }), []LimitKind{LimitUnsent}},
		{"unsent, too few samples", with(func(r *StepResult) { r.Driver.UnsentSamples, r.Driver.UnsentAbove = 3, 3 }), nil},
		{"several", with(func(r *StepResult) { r.LatenessMs.P99, r.Driver.Cores = 50, 2 }), []LimitKind{LimitSchedule, LimitOwnCPU}},
	} {
		var got []LimitKind
		for _, l := range tc.r.clientLimits() {
			got = append(got, l.Kind)
			if l.Why == "" {
				t.Errorf("%s: no reason", tc.name)
			}
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestQuantileBetween(t *testing.T) {
	before := &metrics.Float64Histogram{Counts: []uint64{5, 0, 1}, Buckets: []float64{0, 1, 2, 4}}
	after := &metrics.Float64Histogram{Counts: []uint64{103, 1, 2}, Buckets: before.Buckets}
	for q, want := range map[float64]float64{0.5: 1, 0.98: 1, 0.99: 2, 1: 4} {
		if got, ok := quantileBetween(before, after, q); !ok || got != want {
			t.Errorf("quantile %g: %g, %v; want %g", q, got, ok, want)
		}
	}
	if _, ok := quantileBetween(after, after, 1); ok {
		t.Error("a quantile of nothing")
	}
}

// writeFiles makes a directory of small files.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestQuotaAndThrottling(t *testing.T) {
	v2 := writeFiles(t, map[string]string{
		"cpu.max": "max 100000\n", "cpu.stat": "usage_usec 9\n",
		"pod/cpu.max": "150000 100000\n", "pod/cpu.stat": "nr_periods 40\nnr_throttled 3\n",
		"pod/own/cpu.max": "50000 100000\n", "pod/own/cpu.stat": "nr_periods 30\nnr_throttled 2\n",
	})
	v1 := writeFiles(t, map[string]string{
		"own/cpu.cfs_quota_us": "25000\n", "own/cpu.cfs_period_us": "100000\n", "own/cpu.stat": "nr_periods 7\nnr_throttled 1\n",
		"free/cpu.cfs_quota_us": "-1\n", "free/cpu.cfs_period_us": "100000\n",
	})
	for _, tc := range []struct {
		own  ownGroups
		cpus float64
		want *throttleCount
	}{
		{ownGroups{quota: upTo(filepath.Join(v2, "pod/own"), v2), v2: true}, 0.5, &throttleCount{40, 5}},
		{ownGroups{quota: upTo(filepath.Join(v1, "own"), v1)}, 0.25, &throttleCount{7, 1}},
		{ownGroups{quota: upTo(filepath.Join(v1, "free"), v1), affinity: 1}, 1, nil},
	} {
		if got := tc.own.allowance(); got != tc.cpus {
			t.Errorf("%v: allowance %g, want %g", tc.own.quota, got, tc.cpus)
		}
		if got := tc.own.throttled(); (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
			t.Errorf("%v: throttled %v, want %v", tc.own.quota, got, tc.want)
		}
	}
}

// Pressure is the driver's own or absent: the host's, and that of a group with
// others in it, rise with a throttled arm.
func TestOwnPressure(t *testing.T) {
	const some = "some avg10=1.00 avg60=0.50 avg300=0.10 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n"
	for _, tc := range []struct {
		files map[string]string
		want  string
	}{
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n", "cpu.pressure": some}, ""},
		{map[string]string{"cgroup.procs": "7\n", "cpu.pressure": some}, "the host's"},
		{map[string]string{"cgroup.procs": "7\n9\n", "cgroup.events": "populated 1\n", "cpu.pressure": some}, "shares its cgroup with 1 other"},
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n", "arm/cgroup.events": "populated 1\n", "cpu.pressure": some}, "run below"},
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n", "old/cgroup.events": "populated 0\n", "cpu.pressure": some}, ""},
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n", "cpu.pressure": "some total=-1"}, "total"},
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n", "cpu.pressure": "nothing"}, "no total"},
		{map[string]string{"cgroup.procs": "7\n", "cgroup.events": "populated 1\n"}, "cpu.pressure"},
	} {
		got, err := ownPressure(writeFiles(t, tc.files), 7)
		if tc.want == "" && (err != nil || got != 1500*time.Millisecond) || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%v: %v, %v; want %q", tc.files, got, err, tc.want)
		}
	}
	if _, err := ownPressure("", 7); err == nil {
		t.Error("no group, no error")
	}
}
