package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/bpf"
)

// wants checks an error's code and that it says something.
func wants(t *testing.T, err error, want codes.Code, part string) {
	t.Helper()
	if code(err) != want || err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("got %v; want %v with %q", err, want, part)
	}
}

func TestStartIsIdempotent(t *testing.T) {
	r := newRig(t)
	req := &rungv1.StartStepRequest{Run: "a", Step: "1", Targets: []string{"web", "db"}}
	first, err := r.client.StartStep(r.context(), req)
	if err != nil {
		t.Fatal(err)
	}
	req.Targets = []string{"db", "web"}
	again, err := r.client.StartStep(r.context(), req)
	if err != nil || again.AtMonoNs != first.AtMonoNs || first.AtMonoNs == 0 {
		t.Errorf("a repeated call answers %v, %v; the first %v", again, err, first)
	}
	req.Targets = []string{"web"}
	_, err = r.client.StartStep(r.context(), req)
	wants(t, err, codes.AlreadyExists, "other edges or targets")

	end := now() + bpf.MonoNs(30*time.Millisecond)
	for range 2 {
		if err := r.end("a", "1", end); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, r.end("a", "1", end+1), codes.AlreadyExists, "has been ended already")
	for range 2 {
		got := r.mustGet("a", "1")
		if len(got) != 2 || got["web"].record.Window.EndMonoNs != uint64(end) || got["web"].record.Window.Expired {
			t.Errorf("got %v", got)
		}
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	start := func(change func(*rungv1.StartStepRequest)) error {
		req := &rungv1.StartStepRequest{Run: "a", Step: "1", Targets: []string{"web"}, BootId: "boot-1", AtMonoNs: uint64(now()) + 1e9}
		change(req)
		_, err := r.client.StartStep(r.context(), req)
		return err
	}
	wants(t, start(func(q *rungv1.StartStepRequest) { q.Run = "" }), codes.InvalidArgument, "must be named")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.Step = strings.Repeat("x", 300) }), codes.InvalidArgument, "at most 256 bytes")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.Targets = nil }), codes.InvalidArgument, "at least one target")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.Targets = []string{"web", "web"} }), codes.InvalidArgument, "named twice")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.Targets = []string{"nope"} }), codes.NotFound, `has ["web" "db"]`)
	wants(t, start(func(q *rungv1.StartStepRequest) { q.BootId = "boot-0" }), codes.FailedPrecondition, "runs boot boot-1")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.BootId = "" }), codes.InvalidArgument, "boot_id")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.AtMonoNs += uint64(2 * time.Hour) }), codes.OutOfRange, "ahead")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.AtMonoNs -= uint64(12 * time.Second) }), codes.OutOfRange, "back")
	wants(t, start(func(q *rungv1.StartStepRequest) { q.ExpiresAfterNs = uint64(24*time.Hour) + 1 }), codes.InvalidArgument, "expires_after_ns is longer than 24h0m0s")
	wants(t, r.end("a", "1", 0), codes.NotFound, `unknown step "1" of run "a": this agent, which runs since `)
	_, err := r.get("a", "1")
	wants(t, err, codes.NotFound, "never started, or dropped")

	at := r.mustStart("a", "1", 200*time.Millisecond, "web")
	_, err = r.get("a", "1")
	wants(t, err, codes.FailedPrecondition, "no closing edge yet")
	wants(t, r.end("a", "1", at), codes.InvalidArgument, "before it begins")
	wants(t, r.end("a", "1", at+bpf.MonoNs(11*time.Minute)), codes.OutOfRange, "later expiry")
}

// TestLongAndEmptySteps: a step of 24 h can be asked for and ended at once; one of
// no length cannot be.
func TestLongAndEmptySteps(t *testing.T) {
	r := newRig(t)
	at := now() + bpf.MonoNs(5*time.Millisecond)
	_, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{
		Run: "a", Step: "1", Targets: []string{"web"}, AtMonoNs: uint64(at), BootId: "boot-1",
		ExpiresAfterNs: uint64(24 * time.Hour), PlannedNs: uint64(24 * time.Hour),
	})
	if err != nil {
		t.Fatal(err)
	}
	wants(t, r.end("a", "1", at), codes.InvalidArgument, "would end 0s before it begins")
	wants(t, r.end("a", "1", at+bpf.MonoNs(24*time.Hour)+1), codes.OutOfRange, "ahead")
	if err := r.end("a", "1", at+1); err != nil { // the shortest there is
		t.Fatal(err)
	}
	w := r.mustGet("a", "1")["web"].record.Window
	if w.EndMonoNs-w.StartMonoNs != 1 || w.BlockNs != uint64(24*time.Hour/64) || w.Expired {
		t.Errorf("window %v", w)
	}
}

func TestOverlap(t *testing.T) {
	r := newRig(t)
	r.kernel.hold = make(chan struct{})
	at := r.mustStart("a", "1", 5*time.Millisecond, "web")
	_, err := r.start("b", "1", 10*time.Millisecond, "db", "web")
	wants(t, err, codes.FailedPrecondition, `"web" is held by step "1" of run "a"`)
	if r.kernel.slotCount() != 2 {
		t.Errorf("%d slots", r.kernel.slotCount())
	}
	// Another target is free; the refused call left nothing on it.
	r.mustStart("b", "1", 10*time.Millisecond, "db")

	end := at + bpf.MonoNs(60*time.Millisecond)
	if err := r.end("a", "1", end); err != nil {
		t.Fatal(err)
	}
	req := &rungv1.StartStepRequest{Run: "a", Step: "2", Targets: []string{"web"}, BootId: "boot-1", AtMonoNs: uint64(end - 1)}
	_, err = r.client.StartStep(r.context(), req)
	wants(t, err, codes.FailedPrecondition, "would begin 1ns before that")
	req.AtMonoNs = 0 // as soon as possible: right after
	resp, err := r.client.StartStep(r.context(), req)
	if err != nil || resp.AtMonoNs < uint64(end) {
		t.Fatalf("the next step begins at %v, %v; the last ends at %d", resp, err, end)
	}
	if err := r.end("a", "2", bpf.MonoNs(resp.AtMonoNs)+bpf.MonoNs(20*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	close(r.kernel.hold)
	for _, step := range []string{"1", "2"} {
		if got := r.mustGet("a", step)["web"].record; got.VoidReason != "" || got.Window.StartMonoNs == 0 {
			t.Errorf("step %s: %v", step, got)
		}
	}
}

// TestThirdWindowWaits holds the draining of the first of three windows.
func TestThirdWindowWaits(t *testing.T) {
	r := newRig(t)
	r.kernel.hold = make(chan struct{})
	at := r.mustStart("a", "1", 5*time.Millisecond, "web")
	for i, step := range []string{"1", "2"} {
		end := at + bpf.MonoNs(i+1)*bpf.MonoNs(30*time.Millisecond)
		if err := r.end("a", step, end); err != nil {
			t.Fatal(err)
		}
		if step == "1" {
			if _, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{Run: "a", Step: "2", Targets: []string{"web"}, BootId: "boot-1", AtMonoNs: uint64(end)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	third := make(chan error, 1)
	go func() { _, err := r.start("a", "3", 200*time.Millisecond, "web"); third <- err }()
	select {
	case err := <-third:
		t.Errorf("a third window was armed before the first was drained: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(r.kernel.hold)
	if err := <-third; err != nil {
		t.Error(err)
	}
}

func TestExpiry(t *testing.T) {
	r := newRig(t)
	resp, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{
		Run: "a", Step: "1", Targets: []string{"web"}, ExpiresAfterNs: uint64(40 * time.Millisecond)})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(60 * time.Millisecond)
	wants(t, r.end("a", "1", 0), codes.FailedPrecondition, "has expired")
	record := r.mustGet("a", "1")["web"].record
	w := record.Window
	if !w.Expired || w.EndMonoNs != resp.AtMonoNs+uint64(40*time.Millisecond) {
		t.Errorf("window %v", w)
	}
	if !strings.Contains(strings.Join(record.Warnings, "\n"), "closed by itself") {
		t.Errorf("warnings %q", record.Warnings)
	}
	if record.VoidReason != "" {
		t.Errorf("void: %s", record.VoidReason)
	}
}

func TestLateEdges(t *testing.T) {
	r := newRig(t)
	at := r.mustStart("a", "1", -50*time.Millisecond, "web")
	if err := r.end("a", "1", at+bpf.MonoNs(30*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	record := r.mustGet("a", "1")["web"].record
	w, c := record.Window, record.Counters
	if w.StartLateNs < uint64(50*time.Millisecond) || w.EndLateNs < uint64(20*time.Millisecond) {
		t.Errorf("late by %d and %d ns", w.StartLateNs, w.EndLateNs)
	}
	if c.StartBracketNs < w.StartLateNs || c.EndBracketNs < w.EndLateNs || c.StartReadMonoNs != w.StartMonoNs+c.StartBracketNs {
		t.Errorf("brackets %d and %d ns, read at %d", c.StartBracketNs, c.EndBracketNs, c.StartReadMonoNs)
	}
	warnings := strings.Join(record.Warnings, "\n")
	for _, part := range []string{"the opening edge was armed", "the closing edge was armed", "after the opening edge: usage_usec is uncertain by up to 2 times"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no %q among %q", part, record.Warnings)
		}
	}
}

func TestVanishingTarget(t *testing.T) {
	r := newRig(t)
	at := r.mustStart("a", "1", 5*time.Millisecond, "web")
	r.kernel.awaitEdges(1)
	gone := filepath.Join(r.root, "cg/gone")
	if err := os.Rename(filepath.Join(r.root, "cg/web"), gone); err != nil {
		t.Fatal(err)
	}
	if err := r.end("a", "1", at+bpf.MonoNs(60*time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if record := r.mustGet("a", "1")["web"].record; !strings.Contains(record.VoidReason, "vanished within the window") {
		t.Errorf("void %q", record.VoidReason)
	}
	_, err := r.start("a", "2", 5*time.Millisecond, "web")
	wants(t, err, codes.FailedPrecondition, `"web" cannot be profiled`)
	targets, err := r.client.ListTargets(r.context(), &rungv1.ListTargetsRequest{})
	if err != nil || len(targets.Targets) != 2 || targets.Targets[0].Unavailable == "" || targets.Targets[1].Unavailable != "" {
		t.Errorf("targets %v, %v", targets, err)
	}
	// One of the same name comes back: a new target, whose windows count from 1.
	if err := os.Rename(gone, filepath.Join(r.root, "cg/web")); err != nil {
		t.Fatal(err)
	}
	if got := r.measure("a", "3", "web").record; got.VoidReason != "" {
		t.Errorf("void %q", got.VoidReason)
	}
}

func TestKernelFailures(t *testing.T) {
	r := newRig(t)
	r.kernel.armErr = errors.New("map is full")
	_, err := r.start("a", "1", 5*time.Millisecond, "web")
	wants(t, err, codes.Unavailable, "map is full")
	r.kernel.armErr = nil
	if got := r.measure("a", "1", "web").record; got.VoidReason != "" {
		t.Errorf("void %q", got.VoidReason)
	}
}

// TestOneTargetFails arms two targets of which the second cannot be read.
func TestOneTargetFails(t *testing.T) {
	r := newRig(t)
	if err := os.Remove(filepath.Join(r.root, "cg/db/cpu.stat")); err != nil {
		t.Fatal(err)
	}
	_, err := r.start("a", "1", 5*time.Millisecond, "web", "db")
	wants(t, err, codes.Unavailable, `target "db"`)
	if got := fmt.Sprint(r.kernel.released); got != "[1/1]" {
		t.Errorf("released %s; want the window of the first target", got)
	}
	r.measure("a", "2", "web")
}

func TestKeepsLastSteps(t *testing.T) {
	r := newRig(t)
	for i := range keptSteps + 2 {
		step := fmt.Sprint(i)
		if _, err := r.client.StartStep(r.context(), &rungv1.StartStepRequest{
			Run: "a", Step: step, Targets: []string{"web"}, ExpiresAfterNs: 1e6}); err != nil {
			t.Fatal(err)
		}
		r.agent.mu.Lock()
		done := r.agent.steps[stepKey{"a", step}].done
		r.agent.mu.Unlock()
		<-done
	}
	_, err := r.get("a", "1")
	wants(t, err, codes.NotFound, "last 64 finished steps")
	r.mustGet("a", "2")
}

func TestStopWithinWindow(t *testing.T) {
	r := newRig(t)
	at := r.mustStart("a", "1", 5*time.Millisecond, "web")
	if err := r.end("a", "1", at+bpf.MonoNs(time.Minute)); err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		all, err := r.get("a", "1")
		if err == nil && !strings.Contains(all["web"].record.VoidReason, "agent was stopped") {
			err = fmt.Errorf("got %v", all)
		}
		got <- err
	}()
	time.Sleep(50 * time.Millisecond)
	begun := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > stopGrace {
		t.Errorf("stopping took %v", took)
	}
	if r.kernel.slotCount() != 0 {
		t.Error("targets are left in the kernel")
	}
}
