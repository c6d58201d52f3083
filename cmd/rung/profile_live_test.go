//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/rundir"
)

// liveProfile runs `rung profile --json` over the real kernel side and reads back
// all that it made.
type liveProfile struct {
	profileResult
	record *rungv1.StepRecord
	code   int
	stderr string
}

func runLiveProfile(ctx context.Context, t *testing.T, args ...string) liveProfile {
	t.Helper()
	return runLiveProfileWhile(ctx, t, func() {}, args...)
}

// runLiveProfileWhile calls measuring once the window is armed.
func runLiveProfileWhile(ctx context.Context, t *testing.T, measuring func(), args ...string) liveProfile {
	t.Helper()
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("a profile needs what this host lacks: %v", err)
	}
	var stdout bytes.Buffer
	watch := &armedWriter{armed: measuring}
	output := filepath.Join(t.TempDir(), "out")
	root := newRootCommand()
	root.SetIn(strings.NewReader(""))
	p := liveProfile{}
	p.code = execute(ctx, root, append([]string{"profile", "--json", "--top", "0", "--output", output}, args...), &stdout, watch)
	p.stderr = watch.w.String()
	if err := json.Unmarshal(stdout.Bytes(), &p.profileResult); err != nil {
		t.Fatalf("exit %d, %v; stderr:\n%s", p.code, err, p.stderr)
	}
	f, err := os.Open(p.Record)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if p.record, err = rundir.ReadRecord(f); err != nil {
		t.Fatal(err)
	}
	for _, text := range p.Warnings {
		t.Logf("warning: %s", text)
	}
	return p
}

// armedWriter calls armed at the line that says that the window is. The command
// writes to it too.
type armedWriter struct {
	w     lockedBuffer
	armed func()
}

func (a *armedWriter) Write(text []byte) (int, error) {
	if bytes.HasPrefix(text, []byte("rung profile: measuring ")) {
		a.armed()
	}
	return a.w.Write(text)
}

// closes asserts that lifetimes are the sum of their states, by thread and by
// row, and that all checks hold but those excepted.
func (p liveProfile) closes(t *testing.T, except ...string) {
	t.Helper()
	if p.Void != "" || p.Account == nil {
		t.Fatalf("void: %q", p.Void)
	}
	for _, thread := range p.record.GetThreads() {
		sum := thread.GetOnCpuWallNs() + thread.GetRunQueueNs() + thread.GetThrottledLoNs() + thread.GetStoppedNs()
		for _, b := range thread.GetBlocked() {
			sum += b.GetNs()
		}
		if sum != thread.GetLifetimeNs() || thread.GetLifetimeNs() > uint64(p.WindowNs) {
			t.Errorf("%s %d: lifetime %d ns of a window of %d ns, states %d ns", thread.GetComm(), thread.GetTid(), thread.GetLifetimeNs(), p.WindowNs, sum)
		}
	}
	for _, row := range append(slices.Clone(p.Account.Groups), p.Account.Total) {
		if row.Residual.Ns != 0 {
			t.Errorf("%s: %d ns are in no state", row.Group, row.Residual.Ns)
		}
	}
	for _, c := range p.Checks {
		if !c.OK && c.Absent == "" && !slices.Contains(except, c.Name) {
			t.Errorf("check %s: %g %s, want %g ± %v; %s", c.Name, c.Value, c.Unit, c.Want, *c.Bound, c.Detail)
		}
	}
	// Off-CPU stacks add up to the account.
	total := map[string]int64{attribution.StateBlocked: p.Account.Total.BlockedTotal.Ns + p.Account.Total.Idle.Ns, attribution.StateRunQueue: p.Account.Total.RunQueue.Ns}
	for _, s := range p.States {
		if want, ok := total[s.State]; ok && s.Ns+s.IdleNs != want {
			t.Errorf("stacks of %s hold %d ns, the account %d ns", s.State, s.Ns+s.IdleNs, want)
		}
	}
}

// row finds a thread group; it fails the test where there is none.
func (p liveProfile) row(t *testing.T, group string) attribution.AccountRow {
	t.Helper()
	var have []string
	for _, row := range p.Account.Groups {
		if row.Group == group {
			return row
		}
		have = append(have, row.Group)
	}
	t.Fatalf("no thread group %q among %q", group, have)
	return attribution.AccountRow{}
}

// meanIn is how long a group was blocked for reasons of a name, in mean threads.
func meanIn(row attribution.AccountRow, reason string) float64 {
	var mean float64
	for _, r := range row.Blocked {
		if r.Name() == reason {
			mean += r.Time.MeanThreads
		}
	}
	return mean
}

// TestProfileCommand: the whole life of a command is in the window, and its
// output and exit code come through.
func TestProfileCommand(t *testing.T) {
	p := runLiveProfile(t.Context(), t, "--", "sh", "-c", "sleep 0.4; echo from the command; exit 3")
	if p.code != exitFailure || !strings.Contains(p.stderr, "from the command\n") || !strings.Contains(p.stderr, "rung: the command exited with code 3") {
		t.Errorf("exit %d, stderr:\n%s", p.code, p.stderr)
	}
	if p.Ended != endedExited || p.Command == nil || p.Command.ExitCode == nil || *p.Command.ExitCode != 3 || p.Command.StoppedByRung {
		t.Errorf("ended %s, command %+v", p.Ended, p.Command)
	}
	p.closes(t)
	shell, sleep := p.row(t, "sh"), p.row(t, "sleep")
	if shell.Threads != 1 || sleep.Threads != 1 || len(p.Account.Groups) != 2 {
		t.Errorf("groups %+v", p.Account.Groups)
	}
	slept := int64(0)
	for _, r := range sleep.Blocked {
		if strings.HasSuffix(r.Reason, "nanosleep") {
			slept += r.Time.Ns
		}
	}
	if slept < 400e6 || slept > 420e6 {
		t.Errorf("sleep slept %d ns of 0.4 s", slept)
	}
	// The shell's first instruction is in the window: it has run all it ever did.
	if shell.OnCPU.Ns == 0 || shell.Lifetime.Ns < 400e6 {
		t.Errorf("shell %+v", shell)
	}
}

// TestProfileCommandLonger: a window that ends before its command ends it.
func TestProfileCommandLonger(t *testing.T) {
	begin := time.Now()
	p := runLiveProfile(t.Context(), t, "--duration", "300ms", "--threads", "single", "--", "sleep", "60")
	if p.code != exitOK || p.Ended != endedPlanned || p.WindowNs != 300e6 {
		t.Errorf("exit %d, ended %s, window %d ns; %s", p.code, p.Ended, p.WindowNs, p.stderr)
	}
	if c := p.Command; c == nil || !c.StoppedByRung || c.Signal != "SIGTERM" {
		t.Errorf("command %+v", c)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
	p.closes(t)
	p.row(t, fmt.Sprintf("sleep (%d)", p.Command.Pid))
}

// TestProfileInterrupted: a signal ends a long window, which is printed.
func TestProfileInterrupted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	p := runLiveProfile(ctx, t, "--duration", "24h", "--", "sleep", "60")
	if p.code != exitOK || p.Ended != endedInterrupted || p.WindowNs <= 0 || p.WindowNs > 2e9 {
		t.Errorf("exit %d, ended %s, window %d ns; %s", p.code, p.Ended, p.WindowNs, p.stderr)
	}
	if block := p.record.GetWindow().GetBlockNs(); block != uint64(24*time.Hour/64) {
		t.Errorf("blocks of %d ns in a window of 24 h", block)
	}
	p.closes(t)
}

// TestProfileProcessEnds: a process that ends within the window ends it, and the
// record says so.
func TestProfileProcessEnds(t *testing.T) {
	cmd := exec.Command("cat") // ends with its input, a second into the window
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan error, 1)
	go func() { reaped <- cmd.Wait() }()
	end := func() { time.AfterFunc(time.Second, func() { input.Close() }) }
	p := runLiveProfileWhile(t.Context(), t, end, "--pid", fmt.Sprint(cmd.Process.Pid), "--duration", "1m")
	if err := <-reaped; err != nil {
		t.Fatal(err)
	}
	if p.code != exitOK || p.Ended != endedExited || p.WindowNs > 3e9 {
		t.Errorf("exit %d, ended %s, window %d ns; %s", p.code, p.Ended, p.WindowNs, p.stderr)
	}
	p.closes(t)
	if !slices.ContainsFunc(p.record.Warnings, func(text string) bool {
		return strings.Contains(text, "(cat) ended within the window, which was closed then")
	}) {
		t.Errorf("the record does not say that the process ended: %q", p.record.Warnings)
	}
	if threads := p.record.GetThreads(); len(threads) != 1 || !threads[0].GetExited() {
		t.Errorf("threads %+v", threads)
	}
}

// TestProfileCgroupVanishes: of a cgroup that is removed within the window no
// figure may be used.
func TestProfileCgroupVanishes(t *testing.T) {
	g := liveCgroups(t)
	c, err := g.add("vanishes", 0)
	if err != nil {
		t.Fatal(err)
	}
	remove := func() {
		time.AfterFunc(200*time.Millisecond, func() { os.Remove(c.dirs[0]) })
	}
	p := runLiveProfileWhile(t.Context(), t, remove, "--cgroup", filepath.Join(g.mounts.V2, c.path), "--duration", "1s")
	if p.code != exitFailure || p.Void == "" || p.Account != nil || p.record.VoidReason != p.Void {
		t.Errorf("exit %d, void %q, record void %q, account %v", p.code, p.Void, p.record.VoidReason, p.Account)
	}
}
