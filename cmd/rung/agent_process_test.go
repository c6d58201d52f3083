//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// agentProcess is `rung agent` in a process of its own, with a client.
type agentProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	client rungv1.AgentClient
}

// startAgentProcess starts an agent and waits until it serves.
func startAgentProcess(t *testing.T, socket string, flags ...string) *agentProcess {
	t.Helper()
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("an agent needs what this host lacks: %v", err)
	}
	a := &agentProcess{t: t, cmd: exec.Command(os.Args[0], append([]string{"agent", "--listen", "unix://" + socket}, flags...)...)}
	a.cmd.Env = append(os.Environ(), asRung+"=1")
	stderr, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.cmd.Process.Kill(); a.cmd.Wait() })
	ready, ended := make(chan bool, 1), make(chan string, 1)
	go func() {
		var said strings.Builder
		for scan := bufio.NewScanner(stderr); scan.Scan(); {
			if said.WriteString(scan.Text() + "\n"); strings.HasPrefix(scan.Text(), agentReadyPrefix) {
				ready <- true
			}
		}
		ended <- said.String()
	}()
	select {
	case <-ready:
	case text := <-ended:
		t.Fatalf("the agent ended: %s", text)
	case <-time.After(30 * time.Second):
		t.Fatal("the agent is not ready after 30 s")
	}
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	a.client = rungv1.NewAgentClient(conn)
	return a
}

func (a *agentProcess) start(step string, targets ...string) {
	a.t.Helper()
	if _, err := a.client.StartStep(a.t.Context(), &rungv1.StartStepRequest{Run: "run", Step: step, Targets: targets}); err != nil {
		a.t.Fatal(err)
	}
}

// finish ends a step and fetches its record.
func (a *agentProcess) finish(step string) *rungv1.StepRecord {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
	defer cancel()
	if _, err := a.client.EndStep(ctx, &rungv1.EndStepRequest{Run: "run", Step: step}); err != nil {
		a.t.Fatal(err)
	}
	stream, err := a.client.GetStep(ctx, &rungv1.GetStepRequest{Run: "run", Step: step})
	if err != nil {
		a.t.Fatal(err)
	}
	var record *rungv1.StepRecord
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return record
		}
		if err != nil {
			a.t.Fatal(err)
		}
		if r := part.GetRecord(); r != nil {
			record = r
		}
	}
}

// objects are the BPF objects that the process holds, by kind: "prog", "map", "link".
func (a *agentProcess) objects() map[string][]uint32 {
	a.t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", a.cmd.Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	held := map[string][]uint32{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // closed meanwhile
		}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			kind, isID := strings.CutSuffix(key, "_id")
			if id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32); isID && err == nil && (kind == "prog" || kind == "map" || kind == "link") {
				held[kind] = append(held[kind], uint32(id))
			}
		}
	}
	return held
}

// exists asks the kernel for an object by its number, which it does not use again.
func exists(kind string, id uint32) bool {
	var object io.Closer
	var err error
	switch kind {
	case "prog":
		object, err = ebpf.NewProgramFromID(ebpf.ProgramID(id))
	case "map":
		object, err = ebpf.NewMapFromID(ebpf.MapID(id))
	case "link":
		object, err = link.NewFromID(link.ID(id))
	}
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	object.Close()
	return true
}

// TestAgentKilled kills an agent within a window: no BPF object of it is left, and
// the next one takes its socket.
func TestAgentKilled(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "agent.sock")
	self := fmt.Sprintf("self=pid:%d", os.Getpid())
	first := startAgentProcess(t, socket, "--target", self)
	first.start("1", "self")
	held := first.objects()
	for kind, least := range map[string]int{"prog": 8, "map": 8, "link": 6} {
		if len(held[kind]) < least {
			t.Errorf("the agent holds %d objects of kind %s: %v", len(held[kind]), kind, held)
		}
		for _, id := range held[kind] {
			if !exists(kind, id) {
				t.Errorf("%s %d of the living agent is not there", kind, id)
			}
		}
	}
	if err := first.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	first.cmd.Wait()
	// The kernel frees them after grace periods of its own.
	var left []string
	for limit := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left = nil
		for kind, ids := range held {
			for _, id := range ids {
				if exists(kind, id) {
					left = append(left, fmt.Sprintf("%s %d", kind, id))
				}
			}
		}
		if len(left) == 0 || time.Now().After(limit) {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	if _, err := os.Stat(socket); err != nil {
		t.Fatalf("a killed agent's socket: %v", err)
	}
	second := startAgentProcess(t, socket, "--target", self)
	// To it the step of before is unknown, and another may begin.
	_, err := second.client.EndStep(t.Context(), &rungv1.EndStepRequest{Run: "run", Step: "1"})
	if err == nil || !strings.Contains(err.Error(), `unknown step "1" of run "run": this agent, which runs since `) {
		t.Errorf("a step of the agent before: %v", err)
	}
	second.start("2", "self")
	if r := second.finish("2"); r.GetVoidReason() != "" || len(r.GetThreads()) == 0 {
		t.Errorf("void %q, %d threads", r.GetVoidReason(), len(r.GetThreads()))
	}
	if err := second.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := second.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("a stopped agent's socket: %v", err)
	}
}

// TestTwoAgents: a second one on the same socket is told who holds it; on a socket
// of its own it measures the same target at the same time, and both accounts close.
func TestTwoAgents(t *testing.T) {
	dir := t.TempDir()
	busy := exec.Command("sh", "-c", "while :; do sleep 0.005; done")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Process.Kill(); busy.Wait() })
	target := fmt.Sprintf("busy=pid:%d", busy.Process.Pid)
	socket := filepath.Join(dir, "a.sock")
	a := startAgentProcess(t, socket, "--target", target)

	var stderr strings.Builder
	second := exec.Command(os.Args[0], "agent", "--listen", "unix://"+socket, "--target", target)
	second.Env, second.Stderr = append(os.Environ(), asRung+"=1"), &stderr
	err := second.Run()
	if want := fmt.Sprintf("process %d (%s agent --listen", a.cmd.Process.Pid, os.Args[0]); second.ProcessState.ExitCode() != exitUsage || !strings.Contains(stderr.String(), want[:min(60, len(want))]) {
		t.Errorf("%v, exit %d, stderr %q; want exit %d and %q", err, second.ProcessState.ExitCode(), stderr.String(), exitUsage, want[:min(60, len(want))])
	}

	b := startAgentProcess(t, filepath.Join(dir, "b.sock"), "--target", target, "--max-threads", "1", "--stack-budget", "8")
	a.start("1", "busy")
	b.start("1", "busy")
	time.Sleep(700 * time.Millisecond)
	for name, agent := range map[string]*agentProcess{"first": a, "second": b} {
		r := agent.finish("1")
		if r.GetVoidReason() != "" || len(r.GetThreads()) < 2 {
			t.Errorf("%s: void %q, %d rows", name, r.GetVoidReason(), len(r.GetThreads()))
		}
		for _, thread := range r.GetThreads() {
			sum := thread.GetOnCpuWallNs() + thread.GetRunQueueNs() + thread.GetThrottledLoNs() + thread.GetStoppedNs()
			for _, blocked := range thread.GetBlocked() {
				sum += blocked.GetNs()
			}
			if sum != thread.GetLifetimeNs() {
				t.Errorf("%s: %s %d: lifetime %d ns, states %d ns", name, thread.GetComm(), thread.GetTid(), thread.GetLifetimeNs(), sum)
			}
		}
		c := r.GetConfig()
		if want := map[string]uint32{"first": 16384, "second": 1}[name]; c.GetMaxThreads() != want {
			t.Errorf("%s: configuration %v", name, c)
		}
		if name == "second" {
			last := r.GetThreads()[len(r.GetThreads())-1]
			if c.GetStackBudget() != 8 || last.GetFoldedThreads() == 0 {
				t.Errorf("second: configuration %v, last row %v", c, last)
			}
		}
	}
}
