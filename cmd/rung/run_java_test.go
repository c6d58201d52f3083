//go:build linux

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/rundir"
)

// TestLiveJavaWarmup: the agent's record of a probe shows that the arm is a JVM, so
// all probes are profiled, until the JIT share is flat and low.
func TestLiveJavaWarmup(t *testing.T) {
	long(t)
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("an embedded agent needs what this host lacks: %v", err)
	}
	for _, tool := range []string{"java", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs a JDK: %v", err)
		}
	}
	classes := t.TempDir()
	if out, err := exec.Command("javac", "-d", classes, "testdata/plans/Echo.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	plan, out := writePlan(t, fmt.Sprintf(`
agent: embedded
arms:
  - name: echo
    command: [java, -Xmx64m, -XX:ActiveProcessorCount=2, -cp, %s, Echo]
    ready: {log: 'serving on (\S+)', timeout: 60s}
load: {protocol: rest-h1, path: /echo, body: tiny, connections: 2, timeout: 5s, drain: 5s}
ladder: {rates: [300], step: 1s, settle: 200ms, gap: 0s, warmup: {adaptive: {probe: 1s, over: 2, max: 8, within: 20%%, jit_within: 5%%}}}
`, classes))
	startRun(t, plan, out).exit(exitOK)
	d, err := rundir.Open(filepath.Join(out, "001-echo-r1"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) < 3 || len(steps) > 9 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	var probes []float64
	for i, s := range steps {
		var state campaign.StepState
		if err := readState(filepath.Join(d.StepPath(s.Name), campaign.StepFile), &state); err != nil {
			t.Fatal(err)
		}
		share := jitShare(s.Record)
		if share == nil || !state.Step.Profile || (state.Step.Kind == campaign.KindProbe) != (i < len(steps)-1) {
			t.Fatalf("%s: %+v, JIT share %v", s.Name, state.Step, share)
		}
		t.Logf("%s %s: JIT share %.3f", s.Name, state.Step.Kind, *share)
		if state.Step.Kind == campaign.KindProbe {
			probes = append(probes, *share)
		}
	}
	if probes[0] < 0.1 {
		t.Errorf("the JIT took %.3f of the CPU of a JVM that was just started", probes[0])
	}
	var state campaign.LadderState
	if err := readState(filepath.Join(out, "001-echo-r1", campaign.LadderFile), &state); err != nil {
		t.Fatal(err)
	}
	// Warm, or told that it is not.
	mean := (probes[len(probes)-1] + probes[len(probes)-2]) / 2
	if notes := strings.Join(state.Notes, "; "); len(probes) < 8 && mean > 0.1 || len(probes) == 8 && mean > 0.1 && !strings.Contains(notes, "the JIT still took") {
		t.Errorf("%d probes, the last with a JIT share of %.3f, notes %q", len(probes), mean, notes)
	}
	nothingIsLeft(t, out)
}
