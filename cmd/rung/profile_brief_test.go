//go:build linux

package main

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// buildBrief builds testdata/brief, whose program removes itself.
func buildBrief(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "brief")
	build := exec.Command("go", "build", "-o", program, "./testdata/brief")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// TestProfileBriefCommand names the functions of a program that has ended, and is
// deleted, when its window is drained: as the command itself, and as a child that
// the window's opening edge did not see.
func TestProfileBriefCommand(t *testing.T) {
	long(t) // and the detector makes our looks ten times as dear, so that they are rarer
	for _, c := range []struct {
		name    string
		command func(program string) []string
	}{
		{"command", func(program string) []string { return []string{program} }},
		{"child", func(program string) []string { return []string{"sh", "-c", "sleep 0.5; " + program + "; sleep 0.2"} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--rate", "999", "--"}, c.command(buildBrief(t))...)
			p := runLiveProfile(t.Context(), t, args...)
			if p.code != exitOK {
				t.Fatalf("exit %d: %s", p.code, p.stderr)
			}
			p.closes(t)
			i := slices.IndexFunc(p.States, func(s profiledState) bool { return s.State == stateOnCPU })
			if i < 0 {
				t.Fatal("no on-CPU samples")
			}
			onCPU := p.States[i]
			var first, last float64
			for _, f := range onCPU.Functions {
				switch f.Name {
				case "main.burnAtFirst":
					first = f.Share
				case "main.burnAtLast":
					last = f.Share
				}
			}
			// Both run for a time by the clock, of which a neighbour may take some.
			if first+last < 0.8 || math.Abs(first/(first+last)-2./3) > 0.2 {
				t.Errorf("of the on-CPU time main.burnAtFirst has %.2f and main.burnAtLast %.2f; want nearly all, and 2 : 1", first, last)
				for _, f := range onCPU.Functions {
					t.Logf("%.3f %s %s", f.Share, f.Name, f.Mapping)
				}
			}
			for _, loss := range p.Losses {
				if strings.HasSuffix(loss.Name, "process_unreadable") && loss.Count > uint64(onCPU.Samples)/10 {
					t.Errorf("%d samples without names: %s", loss.Count, loss.Name)
				}
			}
		})
	}
}
