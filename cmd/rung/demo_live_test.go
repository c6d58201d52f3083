//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/report"
)

// liveDemo is a small demo on this machine, in a process of its own.
type liveDemo struct {
	*liveChild
	output string
}

// startDemo runs a demo of the arms at 100 and 200 requests per second.
func startDemo(t *testing.T, arms string, flags ...string) *liveDemo {
	t.Helper()
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("a demo needs what this host lacks: %v", err)
	}
	d := &liveDemo{output: filepath.Join(t.TempDir(), "demo")}
	args := []string{"demo", "--arms", arms, "--rates", "100,200", "--duration", "1500ms", "--settle", "200ms",
		"--warmup", "300ms", "--calibrate", "300ms", "--quota", "0.5", "--json", "--output", d.output}
	d.liveChild = startRung(t, append(args, flags...)...)
	return d
}

// exit waits for the end, asserts the exit code and that nothing is left.
func (d *liveDemo) exit(code int) string {
	d.t.Helper()
	stderr := d.liveChild.exit(code)
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, mount := range append([]string{roots.V2}, roots.V1["cpu"], roots.V1["cpuacct"]) {
		if mount == "" {
			continue
		}
		left, err := filepath.Glob(filepath.Join(mount, fmt.Sprintf("%s%d-*", demoCgroupPrefix, d.cmd.Process.Pid)))
		if err != nil || len(left) > 0 {
			d.t.Errorf("cgroups are left: %q, %v", left, err)
		}
	}
	return stderr
}

// killChild ends the demo's own child that runs the given subcommand.
func (d *liveDemo) killChild(subcommand string) {
	d.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", d.cmd.Process.Pid))
	if err != nil {
		d.t.Fatal(err)
	}
	for _, file := range files {
		children, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that ended
		}
		for _, child := range strings.Fields(string(children)) {
			line, err := os.ReadFile("/proc/" + child + "/cmdline")
			if argv := strings.Split(string(line), "\x00"); err != nil || len(argv) < 2 || argv[1] != subcommand {
				continue
			}
			pid, err := strconv.Atoi(child)
			if err == nil {
				err = syscall.Kill(pid, syscall.SIGKILL)
			}
			if err != nil {
				d.t.Fatal(err)
			}
			return
		}
	}
	d.t.Fatalf("the demo has no child %s", subcommand)
}

func (d *liveDemo) result() report.Report {
	d.t.Helper()
	var r report.Report
	if err := json.Unmarshal(d.stdout.Bytes(), &r); err != nil {
		d.t.Fatalf("stdout is no report: %v\n%.400s", err, d.stdout.String())
	}
	return r
}

func TestLiveDemo(t *testing.T) {
	// Something that looks like another demo: this one runs beside it and says so.
	other := liveCgroups(t)
	other.name = demoCgroupPrefix + "of-a-test"
	place, err := other.add("arm", 0)
	if err != nil {
		t.Fatal(err)
	}
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	if err := writeCgroupFile(place.dirs[0], "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	d := startDemo(t, "grpc-unary")
	d.until("grpc-unary: step 2 of 2 at 200/s")
	stderr := d.exit(exitOK)
	if !strings.Contains(stderr, "another demo runs on this host") {
		t.Errorf("no warning of the other demo:\n%s", stderr)
	}
	r := d.result()
	if len(r.Arms) != 1 || len(r.Arms[0].Steps) != 3 {
		t.Fatalf("report: %d arms", len(r.Arms))
	}
	for _, s := range r.Arms[0].Steps[1:] {
		if s.Layers == nil || s.Account == nil || s.DeliveredInWindow == 0 {
			t.Errorf("step %s has no figures: %v", s.Name, s.Absent)
		}
	}
	if r.Matched.RateHz == nil {
		t.Errorf("no matched rate: %s", r.Matched.Reason)
	}
	for _, file := range []string{demoFile, demoMarkdown, demoJSON, "agent.log", "grpc-unary.log", "grpc-unary-load.log", "grpc-unary/run.json"} {
		if info, err := os.Stat(filepath.Join(d.output, file)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v", file, err)
		}
	}
	again := startDemo(t, "grpc-unary", "--output", d.output)
	if stderr := again.exit(exitUsage); !strings.Contains(stderr, d.output) || !strings.Contains(stderr, "not empty") {
		t.Errorf("a second demo into the same directory: %s", stderr)
	}
}

func TestLiveDemoArmDies(t *testing.T) {
	long(t)
	// Three steps: on a busy machine the arm may not be back for the second.
	d := startDemo(t, "grpc-unary", "--rates", "300")
	d.until("step 1 of 3")
	time.Sleep(300 * time.Millisecond)
	d.killChild("arm")
	stderr := d.exit(exitFailure)
	for _, want := range []string{"arm grpc-unary: signal: killed", "was started again", "01-100 is void"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	steps := d.result().Arms[0].Steps
	if len(steps) != 4 {
		t.Fatalf("%d steps", len(steps))
	}
	if last := steps[3]; last.DeliveredInWindow == 0 || len(last.Flags) > 0 && last.Flags[0].Kind == "void" {
		t.Errorf("a step after the restart was not measured: delivered %d, flags %+v", last.DeliveredInWindow, last.Flags)
	}
}

func TestLiveDemoStopsOnVoid(t *testing.T) {
	long(t)
	d := startDemo(t, "grpc-unary,grpc-stream", "--on-void", "stop")
	d.until("step 1 of 2")
	d.killChild("arm")
	if stderr := d.exit(exitFailure); !strings.Contains(stderr, "stopped after a void step") || strings.Contains(stderr, "grpc-stream: step") {
		t.Errorf("stderr:\n%s", stderr)
	}
}

func TestLiveDemoAgentDies(t *testing.T) {
	long(t)
	d := startDemo(t, "grpc-unary")
	d.until("step 1 of 2")
	d.killChild("agent")
	stderr := d.exit(exitFailure)
	for _, want := range []string{"agent: signal: killed", "02-200: no record"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	if steps := d.result().Arms[0].Steps; len(steps) != 3 || steps[2].DeliveredInWindow == 0 {
		t.Errorf("the driver did not finish: %+v", steps)
	}
}

func TestLiveDemoInterrupted(t *testing.T) {
	long(t)
	d := startDemo(t, "grpc-unary")
	d.until("step 1 of 2")
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if stderr := d.exit(exitFailure); !strings.Contains(stderr, "interrupted") {
		t.Errorf("stderr:\n%s", stderr)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %v to end", took)
	}
}

// TestLiveDemoKilled: what a demo leaves that had no time to clean up is taken
// away by the next one.
func TestLiveDemoKilled(t *testing.T) {
	long(t)
	d := startDemo(t, "grpc-unary")
	d.until("step 1 of 2")
	d.kill()
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		t.Fatal(err)
	}
	form := filepath.Join(roots.V2, fmt.Sprintf("%s%d-*", demoCgroupPrefix, d.cmd.Process.Pid))
	left, err := filepath.Glob(form)
	if err != nil || len(left) != 1 {
		t.Fatalf("a demo that was killed has the cgroups %q, %v", left, err)
	}
	next := startDemo(t, "grpc-unary")
	next.until("removed cgroup " + filepath.Base(left[0]))
	if still, err := filepath.Glob(form); err != nil || len(still) > 0 {
		t.Errorf("left: %q, %v", still, err)
	}
	if err := next.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	next.exit(exitFailure)
}
