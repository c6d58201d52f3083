package agent

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

// TestWallClockSetBack sets the wall clock back by a day within a step: only a
// warning comes of it, and the step's wall time is that of its opening edge.
func TestWallClockSetBack(t *testing.T) {
	r := newRig(t)
	const ahead = int64(50 * 365 * 24 * time.Hour)
	var back atomic.Int64
	r.agent.wallAheadNs = func() int64 { return ahead - back.Load() }
	r.kernel.threads = []bpf.Thread{{Tid: 71, Tgid: 71, Comm: "main", LifetimeNs: 100, OnCPUWallNs: 100}}
	at := r.mustStart("run", "1", 10*time.Millisecond, "web")
	r.kernel.awaitEdges(1)
	back.Store(int64(24 * time.Hour))
	end := now() + bpf.MonoNs(40*time.Millisecond)
	if err := r.end("run", "1", end); err != nil {
		t.Fatal(err)
	}
	record := r.mustGet("run", "1")["web"].record
	w := record.Window
	if w.StartMonoNs != uint64(at) || w.EndMonoNs != uint64(end) || w.Expired || record.VoidReason != "" {
		t.Errorf("window %v, void %q", w, record.VoidReason)
	}
	if want := int64(at) + ahead; w.StartWallUnixNs != want {
		t.Errorf("began at %d ns on the wall clock, want %d", w.StartWallUnixNs, want)
	}
	if warnings := strings.Join(record.Warnings, "\n"); !strings.Contains(warnings, "the wall clock was set by -86400.000 s within the window") {
		t.Errorf("warnings %q", record.Warnings)
	}
	// A day before it began on the wall clock, and yet the next window may open.
	second := r.measure("run", "2", "web").record
	if second.Window.StartMonoNs < w.EndMonoNs || second.Window.StartWallUnixNs > w.StartWallUnixNs || second.VoidReason != "" {
		t.Errorf("second window %v, void %q", second.Window, second.VoidReason)
	}
	for _, text := range second.Warnings {
		if strings.Contains(text, "wall clock") {
			t.Errorf("second window: %s", text)
		}
	}
}
