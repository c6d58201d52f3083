package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

// TestMemory follows a process tree: its children are found as they come, also
// ones of lower numbers, those of others are not, and each is read more and more
// seldom.
func TestMemory(t *testing.T) {
	r := newRig(t, Target{Name: "tree", Pid: 71})
	m := memory{agent: r.agent, target: Target{Name: "tree", Pid: 71}, known: map[int]*remembered{}, others: map[int]bool{}}
	at := bpf.MonoNs(1e9)
	look := func(after time.Duration, want string) {
		t.Helper()
		at += bpf.MonoNs(after)
		if err := m.look(at); err != nil {
			t.Fatal(err)
		}
		got, err := m.processes()
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("processes %v, %v; want %s", got, err, want)
		}
		if len(m.known) != len(got) {
			t.Errorf("remembered %v, want %s", m.known, want)
		}
	}
	look(0, "[71]")
	write(t, r.root, map[string]string{
		"proc/80/stat": procStat(80, 1, 300), "proc/90/stat": procStat(90, 71, 301), "proc/70/stat": procStat(70, 90, 302), "proc/81/stat": procStat(81, 80, 303),
	})
	look(20*time.Millisecond, "[70 71 90]")
	if !m.others[80] || !m.others[81] || m.others[70] {
		t.Errorf("others %v", m.others)
	}
	for range 3 {
		look(20*time.Millisecond, "[70 71 90]")
	}
	// Read at 0, 20, 60 ms, and next at 140: now it is 80.
	if gap := m.known[71].gap; gap != 80*time.Millisecond {
		t.Errorf("the next reading is %v after the last", gap)
	}
	for range 20 {
		look(time.Minute, "[70 71 90]")
	}
	if gap := m.known[71].gap; gap != longestRead {
		t.Errorf("after long, a reading each %v", gap)
	}
	if err := os.RemoveAll(filepath.Join(r.root, "proc/90")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(r.root, "proc/80")); err != nil {
		t.Fatal(err)
	}
	look(0, "[70 71]")
	if m.others[80] {
		t.Error("a number that is free again is still another's")
	}
}
