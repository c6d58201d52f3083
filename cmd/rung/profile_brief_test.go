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

// crowd makes n processes that sleep until the test is over.
func crowd(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command("sleep", "100")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
}

// TestProfileBriefCommand names the functions of a program that has ended, and is
// deleted, when its window is drained: as the command itself, and as a child that
// the window's opening edge did not see, also on a host of many processes, of
// which a listing takes long.
func TestProfileBriefCommand(t *testing.T) {
	long(t) // and the detector makes our looks ten times as dear, so that they are rarer
	child := func(program string) []string { return []string{"sh", "-c", "sleep 0.5; " + program + "; sleep 0.2"} }
	for _, c := range []struct {
		name    string
		beside  int // processes
		command func(program string) []string
	}{
		{"command", 0, func(program string) []string { return []string{program} }},
		{"child", 0, child},
		{"child on a full host", 600, child},
	} {
		t.Run(c.name, func(t *testing.T) {
			crowd(t, c.beside)
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
			if first+last < 0.8 || math.Abs(first/(first+last)-2./3) > 0.1 {
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
