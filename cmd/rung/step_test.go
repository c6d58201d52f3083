//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

func runCommand(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), newRootCommand(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// TestLiveStep: windows around a load that somebody else drives become steps of a
// run, whose cost is divided by what the caller says was delivered.
func TestLiveStep(t *testing.T) {
	server, address := startServer(t, "127.0.0.1:0")
	place, err := liveCgroups(t).add("arm", 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range place.dirs {
		if err := writeCgroupFile(dir, "cgroup.procs", fmt.Sprint(server.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	// Before the cgroup is taken away its process has to be gone.
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	socket := filepath.Join(t.TempDir(), "agent.sock")
	startAgentProcess(t, socket, "--target", "arm=cgroup:"+place.path)
	out := filepath.Join(t.TempDir(), "run")
	step := func(args ...string) (string, string, int) {
		return runCommand(t, append([]string{"step", args[0], "--agent", "unix://" + socket, "--run", "R"}, args[1:]...)...)
	}
	edges := func(stdout string) {
		t.Helper()
		m, ok, err := loadgen.ParseMarker([]byte(strings.TrimSpace(stdout)))
		if err != nil || !ok || m.GetRun() != "R" || m.GetAtMonoNs() == 0 {
			t.Fatalf("marker %q: %v", stdout, err)
		}
		if at, err := time.Parse(time.RFC3339Nano, m.GetAtWall()); err != nil || time.Since(at).Abs() > time.Minute {
			t.Errorf("%s: the edge was at %s", m.GetEdge(), m.GetAtWall())
		}
	}
	for i, name := range []string{"warm", "one"} {
		stdout, stderr, code := step("start", "--step", name, "--target", "arm")
		if code != exitOK {
			t.Fatalf("start: exit %d: %s", code, stderr)
		}
		edges(stdout)
		_, stderr, code = runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--rates", "200", "--duration", "1s", "--settle", "0s")
		if code == exitUsage {
			t.Fatal(stderr)
		}
		args := []string{"end", "--step", name, "--out", out, "--offered", "200", "--delivered", "200"}
		if i == 0 {
			args = append(args, "--warmup")
		}
		if stdout, stderr, code = step(args...); code != exitOK {
			t.Fatalf("end: exit %d: %s", code, stderr)
		}
		edges(stdout)
	}
	// The tool's own output says more; the first try names a file that is not there.
	if _, stderr, code := step("start", "--step", "two", "--target", "arm"); code != exitOK {
		t.Fatalf("start: exit %d: %s", code, stderr)
	}
	time.Sleep(200 * time.Millisecond)
	if _, stderr, code := step("end", "--step", "two", "--out", out, "--result", "no-such-file"); code != exitFailure || !strings.Contains(stderr, "no-such-file") {
		t.Errorf("no file: exit %d: %s", code, stderr)
	}
	result, err := filepath.Abs("../../foreign/testdata/nighthawk.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, stderr, code := step("end", "--step", "two", "--out", out, "--result", result); code != exitOK {
		t.Fatalf("the agent keeps the step: exit %d: %s", code, stderr)
	}
	d, err := rundir.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 3 || steps[0].Name != "00-200" || steps[1].Name != "01-200" || steps[2].Name != "02-1200" {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	if s := steps[1]; s.Record == nil || len(s.ProfileGz) == 0 || s.Client.DeliveredInWindow != 200 || s.Client.WindowSeconds() < 1 {
		t.Errorf("step: %+v", s.Client)
	}
	if c := steps[2].Client; c.Delivered != 118800 || c.Overflow != 1200 || c.ErrorsTotal() != 300 || c.ResponseMs == nil || c.ResponseMs.P99 != 12.5 {
		t.Errorf("with a result: %+v", c)
	}
	for _, s := range steps {
		if a, b := s.Client.Unbalanced(); a != 0 || b != 0 {
			t.Errorf("%s: the identities are off by %d and %d", s.Name, a, b)
		}
	}
	a := analysed(t, out).Arms[0]
	s := a.Steps[1]
	if a.Name != "arm" || !a.Steps[0].Warmup || s.CPUMsPerRequest == nil || *s.CPUMsPerRequest <= 0 || s.Absent["overflowHz"] == "" || s.Absent["p50Ms"] == "" ||
		s.Layers == nil || s.Has(ladder.FlagVoid) || a.Steps[2].Absent["overflowHz"] != "" {
		t.Errorf("report: %+v, absent %v", s.Step, s.Absent)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"end --step x --out " + out, exitUsage, "give either --delivered N"},
		{"end --step x --delivered 1 --result y --out " + out, exitUsage, "give either --delivered N"},
		{"end --step x --delivered 0 --out " + out, exitUsage, "give --offered too"},
		{"end --step x --delivered 1 --offered -3 --out " + out, exitUsage, "--offered -3: want"},
		{"end --step never --delivered 1 --out " + out, exitFailure, "end step never"},
		{"start --step x --target other", exitFailure, `it has no target "other"; it has: arm`},
		{"start --step x --target arm --expires 1ms", exitUsage, "--expires 1ms: want"},
		{"start --step x", exitUsage, "target"},
	} {
		if _, stderr, code := step(strings.Fields(c.args)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d: %s", c.args, code, stderr)
		}
	}
}

// TestReportLogs: a directory of old logs is tabulated as ladders are.
func TestReportLogs(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"ladder.log", "wrk.txt"} {
		data, err := os.ReadFile("../../foreign/testdata/" + file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// One file for each step, as scripts keep a tool's JSON.
	for _, rate := range []int{800, 400, 1200} {
		text := fmt.Sprintf(`{"options":{"requests_per_second":%d},"results":[{"name":"global","counters":[{"name":"benchmark.http_2xx","value":"%d"}],"execution_duration":"10s"}]}`, rate, 10*min(rate, 900))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("grpc-%d.json", rate)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for file, text := range map[string]string{"notes.txt": "nothing of any tool\n", ".hidden": "#NH-STEP start rps=1\n", "empty.json": ""} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := analyseLogs(dir, logOptions{}, ladder.DefaultKneeRule())
	if err != nil || len(r.Arms) != 3 {
		t.Fatalf("%d ladders, %v", len(r.Arms), err)
	}
	grpc, rest, wrk := r.Arms[0], r.Arms[1], r.Arms[2]
	if grpc.Name != "grpc-*" || len(grpc.Steps) != 3 || grpc.Steps[0].OfferedHz != 400 || grpc.Steps[2].DeliveredHz != 900 || grpc.Reading.Knee == nil || grpc.Reading.Knee.OfferedHz != 800 {
		t.Errorf("grpc: %+v", grpc)
	}
	if rest.Name != "rest-h1" || len(rest.Steps) != 4 || !rest.Steps[0].Warmup || !near(rest.Steps[1].CPUMsPerRequest, 12e9/1e6/11997) || !near(rest.Steps[1].ThrottledCPUSeconds, 0.3) ||
		rest.Steps[2].DeliveredHz != 770 || !rest.Steps[3].Has(ladder.FlagVoid) || rest.Steps[3].Absent["deliveredHz"] == "" {
		t.Errorf("rest: %+v", rest)
	}
	if s := wrk.Steps[0]; s.Absent["offeredHz"] == "" || s.Absent["overflowHz"] == "" || *s.P99Ms != 5.8 {
		t.Errorf("wrk: %+v, %v", s.Step, s.Absent)
	}
	stdout, stderr, code := runCommand(t, "report", dir)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	for _, want := range []string{"grpc-* · from a log of nighthawk", "Knee: 800/s; the next step, 1200/s", "line 33: a marker, but", "wrk · from a log of wrk"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "Account of the threads") || strings.Contains(stdout, "In flight at") {
		t.Errorf("sections of what no log has:\n%s", stdout)
	}
	if stdout, _, code = runCommand(t, "report", filepath.Join(dir, "wrk.txt"), "--markdown"); code != exitOK || !strings.Contains(stdout, "wrk · from a log of wrk") {
		t.Errorf("one file: exit %d\n%s", code, stdout)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{filepath.Join(dir, "notes.txt")}, exitFailure, "none of its 1 files holds a result of Nighthawk, k6 or wrk"},
		{[]string{dir, "--marker", "("}, exitUsage, "--marker \"(\""},
		{[]string{filepath.Join(dir, "gone")}, exitFailure, "no such file"},
	} {
		if _, stderr, code := runCommand(t, append([]string{"report"}, c.args...)...); code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit %d: %s", c.args, code, stderr)
		}
	}
}
