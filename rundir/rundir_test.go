package rundir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

func sampleRun() Run {
	return Run{
		ID: "r1", Arm: "rest-h1", Protocol: "rest-h1", QuotaCPUs: 0.4,
		Started: time.Date(2026, 9, 6, 20, 27, 0, 0, time.UTC),
		Plan: Plan{Body: "realistic", RatesHz: []float64{100, 12.5}, Duration: Duration(5 * time.Second),
			Settle: Duration(500 * time.Millisecond)},
		Host: Provenance{Kernel: "6.12.0", CPUs: 2, Args: []string{"rung", "load"}},
	}
}

func sampleStep(index int, hz float64) Step {
	return Step{
		Index: index, OfferedHz: hz, Warmup: index == 0,
		Client: &ClientStep{
			Index: index, OfferedHz: hz, Warmup: index == 0, Scheduled: 10, Sent: 9, Overflow: 1, Delivered: 8,
			Errors: map[string]uint64{"timeout": 1}, FirstSendMonoNs: 5, LastSendMonoNs: 50,
			WindowStartMonoNs: 10, WindowEndMonoNs: 50, BootID: "b",
			ResponseMs: &LatencyMs{1, 2, 3, 4, 5},
		},
		Record: &rungv1.StepRecord{Run: "r1", Step: "s", Target: &rungv1.Target{Name: "arm"},
			Counters: &rungv1.Counters{UsageUsec: proto.Uint64(1 << 60)}},
		ProfileGz: []byte{1, 2, 3},
		Hlog:      []byte("#[Histogram log]\n"),
	}
}

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo", "rest-h1")
	d, err := Create(dir, sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	bare := sampleStep(2, 12.5)
	bare.Record, bare.ProfileGz, bare.Hlog = nil, nil, nil
	several := sampleStep(1, 1200)
	for _, target := range []string{"db/1", "db 1", "node-2"} {
		several.Others = append(several.Others, Other{Name: OtherName(target, several.Others), Record: &rungv1.StepRecord{Step: target}})
	}
	several.Others[2].ProfileGz = []byte{4, 5}
	want := []Step{sampleStep(0, 200), several, bare}
	for _, i := range []int{2, 0, 1} {
		if err := d.WriteStep(want[i]); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"00-200", "01-1200", "02-12.5"} {
		want[i].Name = name
	}
	d, err = Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantRun := sampleRun()
	wantRun.SchemaVersion = SchemaVersion
	if diff := cmp.Diff(wantRun, d.Run()); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	got, err := d.Steps()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestOtherName(t *testing.T) {
	others := []Other{{Name: "db"}, {Name: "db-2"}}
	for target, want := range map[string]string{"db": "db-3", "a/b c": "a_b_c", "": "target", "..": "target", "pod.x": "pod.x", strings.Repeat("x", 99): "target"} {
		if got := OtherName(target, others); got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
	d, err := Create(filepath.Join(t.TempDir(), "r"), sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range [][]Other{{{Name: "../x", Record: &rungv1.StepRecord{}}}, {{Name: "x"}}, {{Name: "x", Record: &rungv1.StepRecord{}}, {Name: "x", Record: &rungv1.StepRecord{}}}} {
		s := sampleStep(1, 100)
		s.Others = bad
		if err := d.WriteStep(s); err == nil || !strings.Contains(err.Error(), "further target") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	good := sampleStep(1, 100)
	good.Others = []Other{{Name: "x", Record: &rungv1.StepRecord{}}}
	if err := d.WriteStep(good); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(d.StepPath("01-100"), OthersDir, "a b"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Steps(); err == nil || !strings.Contains(err.Error(), "is no name of a further target") {
		t.Errorf("a foreign directory: %v", err)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	dir := t.TempDir()
	d, err := Create(dir, sampleRun()) // empty: allowed
	if err != nil {
		t.Fatal(err)
	}
	_, err = Create(dir, sampleRun())
	if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "name a new directory") {
		t.Errorf("second Create: %v", err)
	}
	if err := d.WriteStep(sampleStep(1, 100)); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteStep(sampleStep(1, 100)); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "01-100") {
		t.Errorf("second WriteStep: %v", err)
	}
	if left, err := d.Unfinished(); err != nil || len(left) != 0 {
		t.Errorf("unfinished: %v, %v", left, err)
	}
	if err := writeOnce(filepath.Join(dir, RunFile), nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("writeOnce: %v", err)
	}
}

func TestRecordIsDeterministic(t *testing.T) {
	a, err := encodeRecord(sampleStep(1, 100).Record)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		b, err := encodeRecord(sampleStep(1, 100).Record)
		if err != nil || string(a) != string(b) {
			t.Fatalf("two encodings differ: %v\n%s\n%s", err, a, b)
		}
	}
	if !strings.Contains(string(a), "\n    \"usageUsec\": \"1152921504606846976\"\n") {
		t.Errorf("unexpected form:\n%s", a)
	}
}

func TestStepNames(t *testing.T) {
	for name, want := range map[string]struct {
		index int
		hz    float64
	}{
		"00-200": {0, 200}, "02-12.5": {2, 12.5}, "100-1": {100, 1}, "03-1000000": {3, 1e6},
	} {
		if got := StepName(want.index, want.hz); got != name {
			t.Errorf("StepName(%v) = %q, want %q", want, got, name)
		}
		index, hz, err := ParseStepName(name)
		if err != nil || index != want.index || hz != want.hz {
			t.Errorf("ParseStepName(%q) = %d, %v, %v", name, index, hz, err)
		}
	}
	for _, bad := range []string{"", "1-200", "01", "01-", "-1-5", "01-1e3", "01-0", "01--5", "01-NaN", "01-+Inf", "01-200.0", "99999-1", "../x", "01-2e9"} {
		if _, _, err := ParseStepName(bad); err == nil {
			t.Errorf("ParseStepName(%q) passed", bad)
		}
	}
}

func TestWriteStepRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Step){
		"no client result":        func(s *Step) { s.Client = nil },
		"name is":                 func(s *Step) { s.Name = "other" },
		"offered NaN":             func(s *Step) { s.OfferedHz = nan() },
		"the client's result is":  func(s *Step) { s.Client.Index = 7 },
		"quantiles must rise":     func(s *Step) { s.Client.ResponseMs.P99 = 0 },
		"lies before windowStart": func(s *Step) { s.Client.WindowEndMonoNs = 1 },
	} {
		d, err := Create(t.TempDir(), sampleRun())
		if err != nil {
			t.Fatal(err)
		}
		s := sampleStep(1, 100)
		spoil(&s)
		if err := d.WriteStep(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if entries, _ := os.ReadDir(filepath.Join(d.Path(), StepsDir)); len(entries) != 0 {
			t.Errorf("%s: left %v", name, entries)
		}
	}
}

func TestUnbalanced(t *testing.T) {
	c := sampleStep(1, 100).Client
	if a, b := c.Unbalanced(); a != 0 || b != 0 {
		t.Errorf("sound step: %d, %d", a, b)
	}
	c.Overflow, c.Delivered = 3, 9
	if a, b := c.Unbalanced(); a != -2 || b != -1 {
		t.Errorf("broken step: %d, %d", a, b)
	}
}

func nan() float64 { var z float64; return z / z }
