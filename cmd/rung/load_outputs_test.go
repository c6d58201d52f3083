//go:build linux

package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/loadgen"
)

// A step leaves its series and distributions beside its result, and a row in the
// table.
func TestLoadOutputs(t *testing.T) {
	address, _ := startTestArm(t, "null-h1")
	out := t.TempDir()
	dir, table := filepath.Join(out, "run"), filepath.Join(out, "steps.csv")
	args := []string{"--protocol", "rest-h1", "--address", address, "--connections", "2", "--rates", "50,100", "--duration", "1200ms", "--settle", "100ms",
		"--gap", "0s", "--csv", table}
	if _, stderr, code := runLoadCommand(t, append(args, "--out", dir)...); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, step := range []string{"01-50", "02-100"} {
		for file, want := range map[string]string{
			"series.csv": "end_s,seconds,scheduled,", "response.hgrm": "#[Mean", "service.hgrm": "#[Mean", "client.hlog": "response",
		} {
			b, err := os.ReadFile(filepath.Join(dir, "steps", step, file))
			if err != nil || !bytes.Contains(b, []byte(want)) {
				t.Errorf("%s of %s: %v, %q", file, step, err, b)
			}
		}
	}
	f, err := os.Open(table)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll() // wants rows of one length
	if err != nil || len(rows) != 3 || rows[1][0] != "01-50" || rows[2][0] != "02-100" || rows[2][4] != "120" {
		t.Errorf("%v: %q", err, rows)
	}
	if _, stderr, code := runLoadCommand(t, args...); code != exitUsage || !strings.Contains(stderr, "--csv") {
		t.Errorf("the table again: exit %d, %s", code, stderr)
	}
	// A step that was never driven has a row of as many cells.
	if got := stepRow(loadgen.StepResult{Void: "no, \"quoted\""}); len(got) != len(stepColumns) {
		t.Errorf("%d cells, %d columns", len(got), len(stepColumns))
	}
}

func TestLiveText(t *testing.T) {
	s := loadgen.Progress{Step: loadgen.Step{Index: 1, OfferedHz: 400}, Delivered: 12, InFlight: 3, Elapsed: time.Second}
	if got, want := liveText(s), "01-400: offered 400/s, 12 delivered, in flight 3 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s.Last = loadgen.Point{Seconds: 1, Delivered: 398, Errors: 2, Overflow: 5, Response: &loadgen.LatencyMs{P50: 0.2, P99: 1.25}, Lateness: &loadgen.LatenessMs{P99: 0.05}}
	if got, want := liveText(s), "01-400: offered 400/s, 398/s, in flight 3, p50 0.2 p99 1.25 ms, late 0.05 ms, errors 2, overflow 5 "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLoadSelftest(t *testing.T) {
	t.Setenv(asRung, "1")
	stdout, stderr, code := runLoadCommand(t, "--selftest", "--selftest-slots", "3", "--selftest-runs", "2", "--duration", "150ms")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, part := range []string{"grpc-unary", "medians of 2 runs", "process per request", "lowest share of the best rate with fewer slots"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("no %q in:\n%s", part, stdout)
		}
	}
	if n := strings.Count(stdout, " µs "); n != 3 { // 1, 2 and 3 slots
		t.Errorf("%d rows:\n%s", n, stdout)
	}
	if _, stderr, code := runLoadCommand(t, "--selftest", "--selftest-runs", "0"); code != exitUsage || !strings.Contains(stderr, "--selftest-runs 0") {
		t.Errorf("no runs: exit %d, %s", code, stderr)
	}
}
