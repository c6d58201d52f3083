//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/rundir"
)

// fakeStage simulates arms: what a step measures is a function of the plan, and
// what goes wrong with it of its attempt's number, so that a campaign that was
// cut anywhere must come to the same bytes.
type fakeStage struct {
	// fault says what goes wrong with an attempt at a step; "" is nothing.
	fault func(ladder, step string, attempt int) string
	// startFault says the same of an arm's start.
	starts     int
	startFault func(ladder string, start int) string
	// started is called when a step is about to be driven.
	started  func(ladder, step string)
	standing int // arms that are up
}

// What can go wrong in a simulated step.
const (
	faultVoid    = "void"    // the driver says so
	faultNothing = "nothing" // the driver writes no result
	faultDeath   = "death"   // the arm dies
	faultRestart = "restart" // somebody else starts it again
)

type fakeArm struct {
	stage  *fakeStage
	ladder campaign.Ladder
	pid    int
	dead   bool
}

func (s *fakeStage) up(_ context.Context, l *campaign.Ladder, _ string) (standing, error) {
	s.starts++
	if s.startFault != nil {
		if why := s.startFault(l.ID, s.starts); why != "" {
			return nil, &upError{errors.New(why)}
		}
	}
	s.standing++
	return &fakeArm{stage: s, ladder: *l, pid: 100}, nil
}

func (a *fakeArm) identity() campaign.Identity {
	if a.dead {
		return campaign.Identity{}
	}
	return campaign.Identity{Process: &campaign.Process{Pid: a.pid, Start: 1}}
}

func (a *fakeArm) ready(context.Context) error { return nil }

func (a *fakeArm) gone() string {
	if a.dead {
		return "arm exited"
	}
	return ""
}

func (a *fakeArm) down() { a.stage.standing-- }

func (a *fakeArm) drive(ctx context.Context, step campaign.Step, run, dir string) (driven, error) {
	if a.stage.standing != 1 {
		return driven{}, fmt.Errorf("%d arms are up", a.stage.standing)
	}
	if a.stage.started != nil {
		a.stage.started(a.ladder.ID, step.Name())
	}
	if err := ctx.Err(); err != nil {
		return driven{}, err
	}
	fault := ""
	if _, number, ok := cutLast(run, "."); ok && a.stage.fault != nil {
		attempt, err := strconv.Atoi(number)
		if err != nil {
			return driven{}, err
		}
		fault = a.stage.fault(a.ladder.ID, step.Name(), attempt)
	}
	if fault == faultNothing {
		return driven{void: "the driver failed: preflight"}, nil
	}
	client := fakeResult(step)
	if fault == faultVoid {
		client.Void = "nothing was delivered"
	}
	d, err := rundir.Create(dir, rundir.Run{ID: run, Arm: a.ladder.ArmName})
	if err != nil {
		return driven{}, err
	}
	err = d.WriteStep(rundir.Step{Index: step.Index, OfferedHz: step.OfferedHz, Warmup: step.Unmeasured(), Client: client, Hlog: []byte(step.Name())})
	if err != nil {
		return driven{}, err
	}
	a.dead = fault == faultDeath
	if fault == faultRestart {
		a.pid++
	}
	return driven{cpu: &campaign.CPUTime{UsageNs: int64(step.OfferedHz * 1e5), Source: "cgroup"}}, nil
}

// fakeResult is a step of an arm that serves up to 700 requests per second.
func fakeResult(step campaign.Step) *rundir.ClientStep {
	n := uint64(step.OfferedHz)
	delivered := min(n, 700)
	return &rundir.ClientStep{
		Index: step.Index, Name: step.Name(), Warmup: step.Unmeasured(), OfferedHz: step.OfferedHz, Scheduled: n, Sent: delivered, Overflow: n - delivered,
		Completed: delivered, Delivered: delivered, DeliveredInWindow: delivered, WindowStartMonoNs: 1e9, WindowEndMonoNs: 2e9,
		FirstSendMonoNs: 1e9, LastSendMonoNs: 2e9, DrainEndMonoNs: 2e9, ResponseMs: &rundir.LatencyMs{P50: 1, P90: 2, P99: 3, P999: 4, Max: 5},
	}
}

const fakePlan = `
name: fake
repeats: 3
redo: 2
aa: [a]
arms:
  - {name: a, command: x, address: "127.0.0.1:1"}
  - {name: b, command: x, address: "127.0.0.1:2"}
load: {protocol: rest-h1}
ladder: {rates: [400, 800], step: 1s, gap: 0s, settle: 0s, warmup: 500ms}
`

const fakeSearchPlan = `
name: search
redo: 2
arms:
  - {name: a, command: x, address: "127.0.0.1:1"}
load: {protocol: rest-h1}
ladder: {knee: {start: 300}, step: 1s, gap: 0s, settle: 0s, warmup: {adaptive: {over: 2, max: 3, probe: 1s}}}
`

// fastDir is where fsync costs nothing, since the tests ask for it thousands of times.
func fastDir(t *testing.T) string {
	t.Helper()
	if fi, err := os.Stat("/dev/shm"); err == nil && fi.IsDir() {
		if dir, err := os.MkdirTemp("/dev/shm", "rung-test-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

// fakeSession opens a campaign at dir and runs it. It answers the error of the
// session, or that it was cut.
func fakeSession(t *testing.T, ctx context.Context, dir, text string, s stage, cut func(string)) (c *campaignRun, err error) {
	t.Helper()
	known := knownToPlans()
	plan, err := campaign.Parse("plan.yaml", strings.NewReader(text), known)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := plan.Schedule(known)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 9, 6, 20, 27, 0, 0, time.UTC)
	defer func() {
		if what := recover(); what != nil {
			if what != errCut {
				panic(what)
			}
			c, err = nil, errCut
		}
	}()
	d, err := openCampaignDir(dir, disk{cut: cut}, *plan, "plan.yaml", schedule, nil, now)
	if err != nil {
		return nil, err
	}
	c = &campaignRun{plan: plan, schedule: schedule, dir: d, stage: s, now: func() time.Time { return now }, out: &bytes.Buffer{}}
	return c, c.run(ctx)
}

// errCut stands for kill -9.
var errCut = errors.New("cut")

// finished are the files of a directory that are never written again, by digest:
// all of finished steps and ladders.
func finished(t *testing.T, dir string) map[string]string {
	t.Helper()
	return digests(t, dir, func(data []byte) []byte { return data })
}

// processNumbers are what two runs of one campaign differ in.
var processNumbers = regexp.MustCompile(`process \d+|"pid": \d+`)

// comparableFiles leaves them out.
func comparableFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	return digests(t, dir, func(data []byte) []byte { return processNumbers.ReplaceAll(data, nil) })
}

func digests(t *testing.T, dir string, reduce func([]byte) []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if e.IsDir() {
			if strings.HasPrefix(e.Name(), newPrefix) {
				return fs.SkipDir
			}
			return nil
		}
		step := strings.Contains(rel, "/"+rundir.StepsDir+"/") && !strings.Contains(rel, "/"+campaign.AttemptsDir+"/")
		ladder := strings.Count(rel, "/") == 1 && (e.Name() == campaign.LadderFile || e.Name() == rundir.RunFile)
		void := e.Name() == campaign.VoidFile
		if step || ladder || void {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] = fmt.Sprintf("%x", sha256.Sum256(reduce(data)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// mustHold says that all files of before are in after, unchanged.
func mustHold(t *testing.T, what string, before, after map[string]string) {
	t.Helper()
	for path, digest := range before {
		if after[path] != digest {
			t.Fatalf("%s: %s was finished and is changed or gone", what, path)
		}
	}
}

// faults gives each step's first or second attempt a fault by its name.
func faults(ladder, step string, attempt int) string {
	h := sha256.Sum256([]byte(ladder + step))
	kinds := []string{faultVoid, faultNothing, faultDeath, faultRestart, "", "", ""}
	kind := kinds[int(h[0])%len(kinds)]
	if attempt <= int(h[1])%3 || h[2] < 20 { // some stay void
		return kind
	}
	return ""
}

// TestResumeFromAnyCut cuts campaigns at many points between two changes of the
// disk, some of them again and again: they must all come to the bytes of one that
// was not cut, with nothing that was finished ever changed.
func TestResumeFromAnyCut(t *testing.T) {
	for _, c := range []struct{ name, plan string }{{"ladders", fakePlan}, {"search", fakeSearchPlan}} {
		t.Run(c.name, func(t *testing.T) {
			root := fastDir(t)
			whole := filepath.Join(root, "whole")
			points := 0
			if _, err := fakeSession(t, t.Context(), whole, c.plan, &fakeStage{fault: faults}, func(string) { points++ }); err != nil {
				t.Fatal(err)
			}
			want := comparableFiles(t, whole)
			if len(want) < 10 || points < 50 {
				t.Fatalf("%d files, %d points", len(want), points)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			cuts := min(points, 80)
			for n := range cuts {
				at := n * points / cuts
				dir := filepath.Join(root, fmt.Sprint("cut", n))
				cutAndResume(t, dir, c.plan, at, rng, want)
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// cutAndResume cuts a campaign at one point, then at random ones, up to its end.
func cutAndResume(t *testing.T, dir, plan string, at int, rng *rand.Rand, want map[string]string) {
	t.Helper()
	var before map[string]string
	for session := range 100 {
		left := at
		if session > 0 {
			left = rng.IntN(120)
		}
		what := fmt.Sprintf("cut at %d, session %d", at, session)
		_, err := fakeSession(t, t.Context(), dir, plan, &fakeStage{fault: faults}, func(point string) {
			if left--; left < 0 {
				what += ", " + point
				panic(errCut)
			}
		})
		after := finished(t, dir)
		mustHold(t, what, before, after)
		if before = after; errors.Is(err, errCut) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := comparableFiles(t, dir)
		mustHold(t, what+": compared with a run that was not cut", want, got)
		mustHold(t, what+": more than a run that was not cut has", got, want)
		return
	}
	t.Fatalf("cut at %d: no end", at)
}

// TestFinishedCampaignDrivesNothing: a second run starts no arm and prints the same.
func TestFinishedCampaignDrivesNothing(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	if _, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err != nil {
		t.Fatal(err)
	}
	before := finished(t, dir)
	s := &fakeStage{}
	c, err := fakeSession(t, t.Context(), dir, fakePlan, s, nil)
	if err != nil || s.starts != 0 {
		t.Errorf("%d starts, %v", s.starts, err)
	}
	mustHold(t, "again", before, finished(t, dir))
	sum, err := c.summarise()
	if err != nil || !sum.Complete || sum.Finished != 9 || len(c.dir.record.Sessions) != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestChangedPlan: another plan is refused with the difference named, and nothing
// is changed.
func TestChangedPlan(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	cutAfter := 40
	_, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, func(string) {
		if cutAfter--; cutAfter < 0 {
			panic(errCut)
		}
	})
	if !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	before := finished(t, dir)
	for change, want := range map[string]string{
		strings.Replace(fakePlan, "repeats: 3", "repeats: 4", 1):    "repeats was 3, is 4",
		strings.Replace(fakePlan, "[400, 800]", "[400, 900]", 1):    "ladder.ratesHz[1] was 800, is 900",
		strings.Replace(fakePlan, "name: b", "name: c", 1):          `arms[1].name was "b", is "c"`,
		strings.Replace(fakePlan, "name: fake", "seed: 2", 1):       "seed was 1, is 2",
		strings.Replace(fakePlan, "settle: 0s", "settle: 100ms", 1): `ladder.settle was "0s", is "100ms"`,
	} {
		_, err := fakeSession(t, t.Context(), dir, change, &fakeStage{}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%v; want %q", err, want)
		}
	}
	mustHold(t, "refused", before, finished(t, dir))
	if _, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err != nil {
		t.Errorf("the plan as it was: %v", err)
	}
}

// TestForeignDirectory: a directory that is no campaign is left alone.
func TestForeignDirectory(t *testing.T) {
	dir := fastDir(t)
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err == nil || !strings.Contains(err.Error(), "is no campaign") {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestTwoAtOnce: the second of two runs of one directory is refused.
func TestTwoAtOnce(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	tried := false
	_, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{started: func(string, string) {
		if tried {
			return
		}
		tried = true
		if _, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err == nil || !strings.Contains(err.Error(), "another rung run works on") {
			t.Errorf("%v", err)
		}
	}}, nil)
	if err != nil {
		t.Error(err)
	}
}

// TestVoidSteps: every kind of fault is redone, counted, and told.
func TestVoidSteps(t *testing.T) {
	for _, c := range []struct {
		fault  string
		tries  int // attempts with the fault
		void   bool
		reason string
	}{
		{faultVoid, 1, false, "nothing was delivered"},
		{faultVoid, 9, true, "nothing was delivered"},
		{faultNothing, 2, false, "the driver failed: preflight"},
		{faultNothing, 9, true, "the driver failed: preflight"},
		{faultDeath, 1, false, "the arm died within the step: arm exited"},
		{faultDeath, 9, true, "the arm died within the step: arm exited"},
		{faultRestart, 2, false, "it was restarted: process"},
		{faultRestart, 9, true, "it was restarted: process"},
	} {
		t.Run(fmt.Sprint(c.fault, c.tries), func(t *testing.T) {
			dir := filepath.Join(fastDir(t), "c")
			s := &fakeStage{fault: func(ladder, step string, attempt int) string {
				if ladder == "002-b-r1" && step == "01-400" && attempt <= c.tries {
					return c.fault
				}
				return ""
			}}
			run, err := fakeSession(t, t.Context(), dir, fakePlan, s, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := run.summarise()
			if err != nil {
				t.Fatal(err)
			}
			row := sum.Tables[0].Rows[1]
			wantVoid, wantRedone := 0, min(c.tries, 2)
			if c.void {
				wantVoid = 1
			}
			if row.Void != wantVoid || row.Redone != wantRedone || sum.Tables[0].Rows[0].Redone != 0 {
				t.Errorf("%+v", row)
			}
			for n := 1; n <= wantRedone; n++ {
				var v campaign.Void
				if err := readState(filepath.Join(dir, "002-b-r1/attempts", fmt.Sprint("01-400.", n), "void.json"), &v); err != nil || !strings.Contains(v.Reason, c.reason) {
					t.Errorf("attempt %d: %+v, %v", n, v, err)
				}
			}
			d, err := rundir.Open(filepath.Join(dir, "002-b-r1"))
			if err != nil {
				t.Fatal(err)
			}
			steps, err := d.Steps()
			if err != nil || len(steps) != 3 {
				t.Fatalf("%d steps, %v", len(steps), err)
			}
			if v := steps[1].Client.Void; c.void != (v != "") || c.void && !strings.Contains(v, c.reason) {
				t.Errorf("void: %q", v)
			}
			if verdict := run.verdict(t.Context(), sum, nil); c.void != (verdict != nil) {
				t.Errorf("verdict: %v", verdict)
			}
		})
	}
}

// TestArmThatNeverStarts: its ladders fail, the others are driven, and the next
// run tries again.
func TestArmThatNeverStarts(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	broken := func(ladder string, _ int) string {
		if strings.Contains(ladder, "-b-") {
			return "not ready within 30s: connection refused"
		}
		return ""
	}
	run, err := fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{startFault: broken}, nil)
	if err == nil || !strings.Contains(err.Error(), "ladder 002-b-r1: its arm did not start in 3 attempts: not ready within 30s: connection refused") {
		t.Fatalf("%v", err)
	}
	sum, err2 := run.summarise()
	if err2 != nil || sum.Finished != 6 || sum.Complete {
		t.Errorf("%+v, %v", sum, err2)
	}
	var coded exitError
	if verdict := run.verdict(t.Context(), sum, err); !errors.As(verdict, &coded) || coded.code != exitFailure {
		t.Errorf("verdict: %v", verdict)
	}
	if how := run.dir.record.Sessions[0].How; how != "failed" {
		t.Errorf("session %s", how)
	}
	if run, err = fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err != nil {
		t.Fatal(err)
	}
	if sum, err := run.summarise(); err != nil || !sum.Complete || sum.Tables[0].Rows[1].Redone != 9 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestInterruptedStep: the step that was driven is marked and driven again, and
// is no void one.
func TestInterruptedStep(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	ctx, cancel := context.WithCancel(t.Context())
	run, err := fakeSession(t, ctx, dir, fakePlan, &fakeStage{started: func(ladder, step string) {
		if ladder == "002-b-r1" && step == "01-400" {
			cancel()
		}
	}}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	sum, err := run.summarise()
	if err != nil || sum.Finished != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	var coded exitError
	if verdict := run.verdict(ctx, sum, nil); !errors.As(verdict, &coded) || coded.code != exitInterrupted {
		t.Errorf("verdict: %v", verdict)
	}
	var v campaign.Void
	if err := readState(filepath.Join(dir, "002-b-r1/attempts/01-400.1/void.json"), &v); err != nil || !v.Interrupted {
		t.Errorf("%+v, %v", v, err)
	}
	before := finished(t, dir)
	if run, err = fakeSession(t, t.Context(), dir, fakePlan, &fakeStage{}, nil); err != nil {
		t.Fatal(err)
	}
	mustHold(t, "resumed", before, finished(t, dir))
	if sum, err := run.summarise(); err != nil || !sum.Complete || sum.Tables[0].Rows[1].Redone != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
	if how := run.dir.record.Sessions[0].How; how != "interrupted" {
		t.Errorf("session %s", how)
	}
}

// TestOnVoidStop: the campaign ends at a step that stayed void.
func TestOnVoidStop(t *testing.T) {
	dir := filepath.Join(fastDir(t), "c")
	s := &fakeStage{fault: func(string, string, int) string { return faultVoid }}
	_, err := fakeSession(t, t.Context(), dir, "on_void: stop\n"+fakePlan, s, nil)
	if err == nil || !strings.Contains(err.Error(), "step 00-400 of ladder 001-a-r1 stayed void, and on_void is stop") {
		t.Errorf("%v", err)
	}
	if s.standing != 0 || s.starts != 1 {
		t.Errorf("%d up, %d starts", s.standing, s.starts)
	}
}
