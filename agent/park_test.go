package agent

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

// Stacks of sleepers are taken once per window, after its opening edge.
func TestPark(t *testing.T) {
	r := newRig(t)
	for _, step := range []string{"1", "2"} {
		r.measure("a", step, "web")
	}
	if n := len(r.kernel.parked); n != 2 {
		t.Errorf("parked %d times in two windows", n)
	}
	r.kernel.parkErr = errors.New("no walk")
	record := r.measure("a", "3", "web").record
	if !strings.Contains(strings.Join(record.Warnings, "\n"), "have no stack: no walk") || record.VoidReason != "" {
		t.Errorf("warnings %q, void %q", record.Warnings, record.VoidReason)
	}
}

// A slow Park delays neither the edges of its own window nor another target's;
// only the record waits for it, and says so.
func TestSlowPark(t *testing.T) {
	r := newRig(t)
	r.kernel.parkHold = make(chan struct{})
	at := r.mustStart("a", "1", 5*time.Millisecond, "web")
	if err := r.end("a", "1", at+bpf.MonoNs(30*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	r.mustStart("b", "1", 5*time.Millisecond, "db")
	if err := r.end("b", "1", 0); err != nil {
		t.Fatal(err)
	}
	r.kernel.awaitEdges(4) // both edges of both
	close(r.kernel.parkHold)
	record := r.mustGet("a", "1")["web"].record
	if record.Window.EndLateNs != 0 || record.Cost.ParkNs < uint64(5*time.Millisecond) {
		t.Errorf("closing edge %d ns late, parked for %d ns", record.Window.EndLateNs, record.Cost.ParkNs)
	}
	if !strings.Contains(strings.Join(record.Warnings, "\n"), "were not all taken within the window") {
		t.Errorf("warnings %q", record.Warnings)
	}
}
