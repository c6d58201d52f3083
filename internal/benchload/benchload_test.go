//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	b := &bench{group: "g"}
	b.atMost("at", 1.5, "", 1.5, "")
	b.atMost("above", 1.51, "", 1.5, "")
	b.near("near", 102, 100, 0.02, "", "")
	b.near("far", 102.1, 100, 0.02, "", "")
	b.judge("no number", math.NaN(), "", "≤ 1", true, "")
	b.state("stated", 7, "ms", "note")
	want := []bool{true, false, true, false, false, true}
	for i, f := range b.figures {
		if f.OK != want[i] {
			t.Errorf("%s: ok %v", f.Name, f.OK)
		}
	}
	if b.figures[4].Value != nil {
		t.Error("a value where there is no number")
	}
	var out bytes.Buffer
	printTable(&out, b.figures)
	if n := strings.Count(out.String(), "MISS"); n != 3 || !strings.Contains(out.String(), "g/stated: note") {
		t.Errorf("%d misses:\n%s", n, out.String())
	}
	if got := median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("median %g", got)
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing: %g", got)
	}
}

// How each generator says how many requests it made.
func TestGeneratorCounts(t *testing.T) {
	for name, text := range map[string]string{
		"wrk, HTTP/1.1":      "  57247 requests in 1.00s, 6.99MB read",
		"h2load, gRPC unary": "requests: 100 total, 108 started, 100 done, 57247 succeeded, 0 failed, 0 errored, 0 timeout",
		"vegeta, HTTP/1.1":   "Requests      [total, rate, throughput]         57247, 1000.1, 999.9",
		"fortio, HTTP/1.1":   "Code 200 : 57247 (100.0 %)",
		"ghz, gRPC unary":    "Summary:\n  Count:\t57247\n  Total:\t1.00 s",
	} {
		found := false
		for _, g := range generators {
			if g.name != name {
				continue
			}
			found = true
			if m := g.count.FindStringSubmatch(text); m == nil || m[1] != "57247" {
				t.Errorf("%s: %q", name, m)
			}
		}
		if !found {
			t.Errorf("no generator %s", name)
		}
	}
}

// The bench drives a binary, and leaves its list of figures.
func TestRunLeavesFigures(t *testing.T) {
	dir := t.TempDir()
	rung := filepath.Join(dir, "rung")
	if out, err := exec.Command("go", "build", "-o", rung, "../../cmd/rung").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var table bytes.Buffer
	if code := run(t.Context(), []string{"--rung", rung, "--quick", "--only", "stall", "--output", dir}, &table, io.Discard); code != 0 {
		t.Fatalf("exit %d", code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "load.json"))
	if err != nil {
		t.Fatal(err)
	}
	var figures []Figure
	if err := json.Unmarshal(text, &figures); err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, f := range figures {
		if f.Goal != "" && f.Value != nil {
			judged++
		}
		if strings.Contains(f.Name, "all figures that are not here") {
			t.Errorf("%s: %s", f.Name, f.Note)
		}
	}
	if judged != 7 {
		t.Errorf("%d figures with a goal, want 7:\n%s", judged, table.String())
	}
	for _, args := range [][]string{{"--only", "("}, {"left", "over"}, {"--rung", filepath.Join(dir, "absent")}, {"--no-such"}} {
		if code := run(t.Context(), args, io.Discard, io.Discard); code != 2 {
			t.Errorf("%q: exit %d, want 2", args, code)
		}
	}
}
