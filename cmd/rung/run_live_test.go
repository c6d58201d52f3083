//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/rundir"
)

// writePlan writes a plan to a directory of its own and gives its path and that of
// its campaign.
func writePlan(t *testing.T, text string) (plan, out string) {
	t.Helper()
	dir := t.TempDir()
	plan = filepath.Join(dir, "plan.yaml")
	if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return plan, filepath.Join(dir, "out")
}

// startRun starts a `rung run` in a process of its own.
func startRun(t *testing.T, plan, out string, flags ...string) *liveChild {
	t.Helper()
	return startRung(t, append([]string{"run", plan, "--out", out}, flags...)...)
}

func readRecord(t *testing.T, out string) campaign.Record {
	t.Helper()
	var record campaign.Record
	if err := readState(filepath.Join(out, campaign.RecordFile), &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// nothingIsLeft says that no cgroup and no process of the campaign's sessions is
// left.
func nothingIsLeft(t *testing.T, out string) {
	t.Helper()
	for _, s := range readRecord(t, out).Sessions {
		for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			if left, _ := filepath.Glob(pattern + s.Cgroup + "*"); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
		}
	}
	// Arms and drivers are named by the campaign's directory or the test's binary.
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range dirs {
		line, err := os.ReadFile(file)
		if err == nil && bytes.Contains(line, []byte(out)) {
			t.Errorf("still runs: %s", bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
}

const bundledArms = `
arms:
  - name: rest
    command: [rung, arm, --mode, rest-h1, --listen, "127.0.0.1:0"]
    ready: {log: 'RUNG-ARM ready (\S+)', timeout: 20s}
  - name: "null"
    command: [rung, arm, --mode, null-h1, --listen, "127.0.0.1:0"]
    ready: {log: 'RUNG-ARM ready (\S+)', timeout: 20s}
load: {protocol: rest-h1, path: /echo, body: tiny, connections: 2}
`

// TestLiveKilledCampaign: 2 arms × 3 repeats, killed twice by SIGKILL in the middle
// of steps, come to their end with the same schedule, seeds and rows; what was
// finished stays byte-identical, none is missing and none is there twice.
func TestLiveKilledCampaign(t *testing.T) {
	long(t)
	plan, out := writePlan(t, "name: killed\nrepeats: 3\n"+bundledArms+
		"ladder: {rates: [100, 200], step: 300ms, settle: 50ms, gap: 0s}\n")
	var before map[string]string
	for _, at := range []string{"002-null-r1", "005-rest-r3"} {
		r := startRun(t, plan, out)
		r.until("ladder " + strings.TrimLeft(at[:3], "0") + " of 6: " + at)
		r.until("00-100 measured") // the ladder's first step is finished, its second begins
		time.Sleep(500 * time.Millisecond)
		r.kill()
		after := finished(t, out)
		mustHold(t, at, before, after)
		if before = after; len(after) < 5 {
			t.Errorf("%d files are finished", len(after))
		}
	}
	r := startRun(t, plan, out, "--json")
	stderr := r.exit(exitOK)
	if !strings.Contains(stderr, "was killed: going on where it was") {
		t.Errorf("not told:\n%s", stderr)
	}
	mustHold(t, "at the end", before, finished(t, out))
	nothingIsLeft(t, out)
	var sum campaign.Summary
	if err := json.Unmarshal(r.stdout.Bytes(), &sum); err != nil || !sum.Complete || sum.Finished != 6 {
		t.Errorf("%+v, %v", sum, err)
	}
	record := readRecord(t, out)
	if len(record.Sessions) != 3 || record.Sessions[0].How != "killed" || record.Sessions[1].How != "killed" || record.Sessions[2].How != "complete" {
		t.Errorf("sessions: %+v", record.Sessions)
	}
	for _, l := range record.Schedule.Ladders {
		d, err := rundir.Open(filepath.Join(out, l.ID))
		if err != nil {
			t.Fatal(err)
		}
		steps, err := d.Steps()
		if err != nil || len(steps) != len(l.Steps) {
			t.Fatalf("%s: %d steps of %d, %v", l.ID, len(steps), len(l.Steps), err)
		}
		for i, s := range steps {
			var state campaign.StepState
			if err := readState(filepath.Join(d.StepPath(s.Name), campaign.StepFile), &state); err != nil {
				t.Fatal(err)
			}
			if state.Step != l.Steps[i] || s.Client.Scheduled != uint64(0.3*state.Step.OfferedHz) || s.Client.Void != "" {
				t.Errorf("%s %s: %+v, want %+v; scheduled %d", l.ID, s.Name, state.Step, l.Steps[i], s.Client.Scheduled)
			}
		}
		if entries, _ := os.ReadDir(filepath.Join(out, l.ID, campaign.AttemptsDir)); len(entries) > 0 {
			t.Errorf("%s: attempts are left: %v", l.ID, entries)
		}
	}
	var report bytes.Buffer
	if code := execute(t.Context(), newRootCommand(), []string{"report", out, "--json"}, &report, &report); code != exitOK || !strings.Contains(report.String(), "006-null-r3") {
		t.Errorf("report: exit %d: %.500s", code, report.String())
	}
}

// TestLiveExamplePlan runs the plan of the README.
func TestLiveExamplePlan(t *testing.T) {
	long(t)
	const plan = "testdata/plans/two-arms.yaml"
	out := filepath.Join(t.TempDir(), "out")
	began := time.Now()
	r := startRun(t, plan, out)
	r.exit(exitOK)
	// A minute on an idle machine; neighbours do not make it longer by much, since
	// the schedule is by the clock.
	if took := time.Since(began); took > 90*time.Second {
		t.Errorf("took %s", took)
	}
	text := r.stdout.String()
	for _, want := range []string{"Campaign two arms: complete", "rest-h1 · matched rate", "noise floor", "null-h1", "cpu ms/req"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	markdown, err := os.ReadFile(filepath.Join(out, campaign.SummaryFile))
	if err != nil || !strings.HasPrefix(string(markdown), "# Campaign two arms: complete\n") {
		t.Errorf("%v: %s", err, markdown)
	}
	record := readRecord(t, out)
	for _, arm := range []string{"rest-h1", "null-h1"} {
		if digest := record.Inputs["arm "+arm+" executable rung"]; len(digest) != len("sha256:")+64 {
			t.Errorf("digest of %s: %q", arm, digest)
		}
	}
	h := record.Sessions[0].Host
	if h.Kernel == "" || h.CPUs == 0 || h.Clock == nil || h.Neighbours == nil || len(h.Args) == 0 || h.RungSHA == "" {
		t.Errorf("provenance: %+v", h)
	}
	nothingIsLeft(t, out)
}

// TestLiveInterrupt: SIGINT within a step ends the campaign cleanly; the part of
// the step that was driven is kept, marked, and driven again by the next run.
func TestLiveInterrupt(t *testing.T) {
	long(t)
	plan, out := writePlan(t, bundledArms+"ladder: {rates: [100, 150], step: 1500ms, settle: 100ms, gap: 0s}\n")
	r := startRun(t, plan, out)
	r.until("00-100 measured")
	time.Sleep(1200 * time.Millisecond) // in the second step
	r.cmd.Process.Signal(os.Interrupt)
	stderr := r.exit(exitInterrupted)
	if !strings.Contains(stderr, "interrupted; 0 of 2 ladders") || !strings.Contains(r.stdout.String(), "not complete: 0 of 2 ladders are") {
		t.Errorf("stderr:\n%s\nstdout:\n%s", stderr, r.stdout.String())
	}
	nothingIsLeft(t, out)
	attempt := filepath.Join(out, "001-rest-r1/attempts/01-150.1")
	var v campaign.Void
	if err := readState(filepath.Join(attempt, campaign.VoidFile), &v); err != nil || !v.Interrupted {
		t.Errorf("%+v, %v", v, err)
	}
	d, err := rundir.Open(filepath.Join(attempt, "run"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 1 || !strings.Contains(steps[0].Client.Void, "the rest of the schedule was not sent") || steps[0].Client.Sent == 0 {
		t.Errorf("partial result: %v, %+v", err, steps)
	}
	before := finished(t, out)
	startRun(t, plan, out).exit(exitOK)
	mustHold(t, "resumed", before, finished(t, out))
	if s := readRecord(t, out).Sessions; len(s) != 2 || s[0].How != "interrupted" || s[1].How != "complete" {
		t.Errorf("%+v", s)
	}
}

// TestLiveBadArms: what does not start is told with its reason, and quickly.
func TestLiveBadArms(t *testing.T) {
	long(t)
	const ladder = "load: {protocol: rest-h1}\nredo: 1\nladder: {rates: [100], step: 300ms, settle: 50ms}\n"
	for _, c := range []struct {
		name, plan string
		code       int
		want       []string
	}{
		{"typo", "arms:\n  - nmae: a\n", exitUsage, []string{`plan.yaml:2:5: unknown key "nmae"; did you mean name; allowed in arms[0]: name, command,`}},
		{"no plan", "", exitUsage, []string{"plan.yaml: empty"}},
		{"never ready", "arms: [{name: a, command: sleep 60, address: '127.0.0.1:9', ready: {tcp: true, timeout: 300ms}}]\n" + ladder, exitFailure,
			[]string{"ladder 001-a-r1: its arm did not start in 2 attempts", "not ready within 300ms", "connection refused", "it printed nothing"}},
		{"never says it", "arms: [{name: a, command: echo hello, ready: {log: 'on (.*)', timeout: 2s}}]\n" + ladder, exitFailure,
			[]string{"it ended before it was ready", "hello"}},
		{"says it never", "arms: [{name: a, command: sleep 60, ready: {log: 'on (.*)', timeout: 200ms}}]\n" + ladder, exitFailure,
			[]string{"no line of its output matches \"on (.*)\""}},
		{"no program", "arms: [{name: a, command: no-such-program, address: '127.0.0.1:9'}]\n" + ladder, exitUsage, []string{"arm a: no program no-such-program"}},
		{"no engine", "arms: [{name: a, container: {engine: no-such-engine, run: [x]}, address: '127.0.0.1:9'}]\n" + ladder, exitUsage,
			[]string{"no container engine no-such-engine on this host"}},
		{"no name", "arms: [{name: a, address: 'no-such-host.invalid:80', ready: {tcp: true, timeout: 3s}}]\n" + ladder, exitFailure,
			[]string{"its arm did not start", "lookup no-such-host.invalid"}},
		{"nobody there", "arms: [{name: a, address: '127.0.0.1:9', ready: {tcp: true, timeout: 300ms}}]\n" + ladder, exitFailure, []string{"connection refused"}},
		{"driver's limits", "arms: [{name: a, address: '127.0.0.1:9', load: {in_flight: 5}}]\n" + ladder, exitUsage, []string{"in_flight 5", "a connection carries one request at a time"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, out := writePlan(t, c.plan)
			began := time.Now()
			stderr := startRun(t, plan, out).exit(c.code)
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("no %q in:\n%s", want, stderr)
				}
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("took %s", took)
			}
			if _, err := os.Stat(filepath.Join(out, campaign.RecordFile)); err == nil {
				nothingIsLeft(t, out)
			} else if c.code == exitFailure {
				t.Error(err)
			}
		})
	}
}

// startServer starts a bundled arm that is not the campaign's, at an address, and
// gives the process.
func startServer(t *testing.T, address string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "arm", "--mode", "rest-h1", "--listen", address)
	cmd.Env = append(os.Environ(), asRung+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(strings.TrimPrefix(line, armReadyPrefix))
}

// TestLiveArmRestartedBySomeoneElse: the step in which it happened is void and
// driven again on the new process.
func TestLiveArmRestartedBySomeoneElse(t *testing.T) {
	long(t)
	server, address := startServer(t, "127.0.0.1:0")
	plan, out := writePlan(t, "arms: [{name: a, address: '"+address+"'}]\nload: {protocol: rest-h1, path: /echo}\n"+
		"ladder: {rates: [100, 150], step: 2s, settle: 100ms, gap: 0s}\n")
	r := startRun(t, plan, out)
	r.until("00-100 measured")
	time.Sleep(time.Second)
	server.Process.Kill()
	server.Wait()
	startServer(t, address)
	stderr := r.exit(exitOK)
	const want = "void: the arm changed within the step: it was restarted by someone else: process "
	if !strings.Contains(stderr, want) {
		t.Errorf("no %q in:\n%s", want, stderr)
	}
	var v campaign.Void
	if err := readState(filepath.Join(out, "001-a-r1/attempts/01-150.1/void.json"), &v); err != nil || !strings.Contains(v.Reason, "restarted by someone else") {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestLiveFullDisk: a disk that fills up in the middle stops the campaign with its
// name; what was finished is whole, and the campaign goes on once there is room.
func TestLiveFullDisk(t *testing.T) {
	long(t)
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	small := t.TempDir()
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(small, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	plan, _ := writePlan(t, bundledArms+"ladder: {rates: [100, 150], step: 1s, settle: 100ms, gap: 0s}\n")
	out := filepath.Join(small, "out")
	ballast := filepath.Join(small, "ballast")
	r := startRun(t, plan, out)
	r.until("00-100 measured")
	time.Sleep(700 * time.Millisecond) // the second step's driver is at work
	if err := fillDisk(ballast); err != nil {
		t.Fatal(err)
	}
	stderr := r.exit(exitFailure)
	if !strings.Contains(stderr, "the disk is full") || !strings.Contains(stderr, "run the same command again") {
		t.Errorf("stderr:\n%s", stderr)
	}
	before := finished(t, out)
	if len(before) < 4 {
		t.Errorf("finished: %v", before)
	}
	again := startRun(t, plan, out).exit(exitFailure)
	if !strings.Contains(again, "the disk is full") {
		t.Errorf("still full:\n%s", again)
	}
	mustHold(t, "full", before, finished(t, out))
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	startRun(t, plan, out).exit(exitOK)
	mustHold(t, "room again", before, finished(t, out))
	nothingIsLeft(t, out)
}

// fillDisk writes a file until nothing more fits.
func fillDisk(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		if _, err := f.Write(make([]byte, 4096)); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// TestLiveContainer runs an arm by an engine's command line: a script that starts
// a process where an engine would start a container.
func TestLiveContainer(t *testing.T) {
	long(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "engine")
	if err := os.WriteFile(script, []byte(fmt.Sprintf(fakeEngine, dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	plan, out := writePlan(t, fmt.Sprintf(`
arms:
  - name: boxed
    container: {engine: %s, run: [the-image, %s, arm, --mode, rest-h1, --listen, 127.0.0.1:0]}
    ready: {log: 'RUNG-ARM ready (\S+)'}
    stop: {signal: INT, grace: 5s}
load: {protocol: rest-h1, path: /echo}
ladder: {rates: [100], iterations_per_slot: 30, settle: 50ms, gap: 0s}
`, script, os.Args[0]))
	startRun(t, plan, out).exit(exitOK)
	record := readRecord(t, out)
	if got := record.Inputs["arm boxed image"]; got != "sha256:of-the-image" {
		t.Errorf("inputs: %v", record.Inputs)
	}
	var state campaign.StepState
	if err := readState(filepath.Join(out, "001-boxed-r1/steps/00-100/step.json"), &state); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(state.Arm.Container, "id-of-"+record.Sessions[0].Cgroup+"-001 ") || state.CPU == nil || state.CPU.UsageNs <= 0 {
		t.Errorf("step: %+v, %s", state, state.CPUAbsent)
	}
	if state.Step.Requests != 30 {
		t.Errorf("30 requests for the one slot: %+v", state.Step)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil || !strings.Contains(string(calls), "kill --signal SIGINT "+record.Sessions[0].Cgroup+"-001") || !strings.Contains(string(calls), "rm --force") {
		t.Errorf("%v: calls:\n%s", err, calls)
	}
	nothingIsLeft(t, out)
}

const fakeEngine = `#!/bin/sh
state=%s
echo "$*" >>"$state/calls"
case "$1" in
run)
	shift 2 # run --rm
	name=$2
	shift 3 # --name NAME IMAGE
	echo $$ >"$state/$name"
	exec "$@" ;;
inspect)
	pid=$(cat "$state/$4") || exit 1
	case "$3" in *Id*) echo "id-of-$4 $pid today" ;; *) echo "$pid" ;; esac ;;
image) [ "$5" = the-image ] && echo sha256:of-the-image ;;
kill) kill -s "${3#SIG}" "$(cat "$state/$4")" ;;
rm) rm -f "$state/$3" ;;
esac
`

// TestLiveQuotaAndAgent: a quota is set and seen, profiled steps have a record of
// the embedded agent, controls have none, and the profiler's overhead is told.
func TestLiveQuotaAndAgent(t *testing.T) {
	long(t)
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("an embedded agent needs what this host lacks: %v", err)
	}
	server, _ := startServer(t, "127.0.0.1:0")
	plan, out := writePlan(t, fmt.Sprintf(`
agent: {use: embedded, rate: 499}
arms:
  - name: unary
    command: rung arm --mode grpc-unary --listen 127.0.0.1:0
    ready: {log: 'RUNG-ARM ready (\S+)'}
    quota: 0.5
    also: [{name: beside, target: "pid:%d"}]
load: {protocol: grpc-unary, connections: 2, body: tiny}
ladder: {rates: [150, 200], step: 1s, settle: 200ms, gap: 0s, warmup: 300ms, profile_steps: top:1, control_steps: all}
`, server.Process.Pid))
	startRun(t, plan, out).exit(exitOK)
	d, err := rundir.Open(filepath.Join(out, "001-unary-r1"))
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 4 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	for i, profiled := range []bool{false, false, true, false} {
		s := steps[i]
		var state campaign.StepState
		if err := readState(filepath.Join(d.StepPath(s.Name), campaign.StepFile), &state); err != nil {
			t.Fatal(err)
		}
		if (s.Record != nil) != profiled || state.Step.Profile != profiled || state.CPU == nil || state.CPU.Source != "cgroup" {
			t.Errorf("%s: record %v, %+v", s.Name, s.Record != nil, state)
		}
	}
	if steps[2].Record.GetCounters().GetQuotaCpus() != 0.5 {
		t.Errorf("quota: %v", steps[2].Record.GetCounters().GetQuotaCpus())
	}
	// A process beside the arm is measured in the same window.
	if others := analysed(t, out).Arms[0].Steps[2].Others; len(others) != 1 || others[0].Name != "beside" || others[0].Account == nil || others[0].Account.Total.Threads == 0 ||
		steps[2].Others[0].Record.GetWindow().GetStartMonoNs() != steps[2].Client.WindowStartMonoNs {
		t.Errorf("beside the arm: %+v", others)
	}
	// The control's CPU, from cpu.stat as the campaign read it, is in the report.
	arm := analysed(t, out).Arms[0]
	if len(arm.Overheads) != 1 || arm.Overheads[0].Control != "03-200" || arm.Overheads[0].WithoutMs <= 0 || arm.Overhead == nil {
		t.Errorf("overheads: %+v", arm.Overheads)
	}
	for i, s := range arm.Steps {
		if s.CPUMsPerRequest == nil || s.Has(ladder.FlagControl) != (i == 3) {
			t.Errorf("%s: CPU %v, flags %v, absent %v", s.Name, s.CPUMsPerRequest, s.Flags, s.Absent)
		}
	}
	nothingIsLeft(t, out)
}

func TestDryRunOfExample(t *testing.T) {
	var stdout, stderr bytes.Buffer
	dir := t.TempDir()
	plan, err := filepath.Abs("testdata/plans/two-arms.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if code := execute(t.Context(), newRootCommand(), []string{"run", plan, "--dry-run"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	if text := stdout.String(); !strings.Contains(text, "006-rest-h1-r2") || !strings.Contains(text, "total: about 0:") {
		t.Errorf("%s", text)
	}
	stdout.Reset()
	if code := execute(t.Context(), newRootCommand(), []string{"run", plan, "--dry-run", "--json"}, &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	var s campaign.Schedule
	if err := json.Unmarshal(stdout.Bytes(), &s); err != nil || len(s.Ladders) != 6 || len(s.Ladders[0].Steps) != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a dry run left %v, %v", entries, err)
	}
}

func TestCPUClock(t *testing.T) {
	m, err := newClockMeter(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := m.read()
	for began := time.Now(); time.Since(began) < 20*time.Millisecond; {
	}
	after, _, err := m.read()
	if own := after - before; err != nil || own < 1e6 || own > 10e9 {
		t.Errorf("%d ns of CPU, %v", own, err)
	}
	if _, err := newClockMeter(1 << 22); err == nil {
		t.Error("a process that is not there has a clock")
	}
}

func TestListeners(t *testing.T) {
	server, address := startServer(t, "127.0.0.1:0")
	who := listenersAt(address)
	if len(who) != 1 || who[0].Pid != server.Process.Pid || who[0].Start == 0 {
		t.Errorf("%+v, want process %d", who, server.Process.Pid)
	}
	_, port, _ := strings.Cut(address, ":")
	if n, err := strconv.Atoi(port); err != nil || n == 0 {
		t.Fatal(address)
	}
	if who := listenersAt("localhost:" + port); len(who) != 1 {
		t.Errorf("by name: %+v", who)
	}
	for _, other := range []string{"192.0.2.1:" + port, "no-such-host.invalid:" + port, "nonsense", "127.0.0.1:1"} {
		if who := listenersAt(other); len(who) > 0 {
			t.Errorf("%s: %+v", other, who)
		}
	}
}
