//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/bpf"
)

const (
	sizeThreads = 10_000
	sizeBound   = 64  // MiB
	drainBound  = 250 // ms
)

// size measures an agent process with a target of 10,000 threads, asleep and
// waking once in a while, and how long the kernel side takes to be read.
func (b *bench) size() error {
	dir, err := os.MkdirTemp("", "rung-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	rung := filepath.Join(dir, "rung")
	build := exec.CommandContext(b.ctx, "go", "build", "-trimpath", "-o", rung, "github.com/rungprof/rung/cmd/rung")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build rung: %w: %s", err, text)
	}
	for _, each := range []struct{ name, period string }{{"asleep", "0s"}, {"waking every 2 s", "2s"}} {
		c, err := startChild(nil, "parked", strconv.Itoa(sizeThreads), each.period)
		if err != nil {
			return err
		}
		var n int
		if err := errors.Join(c.say("go"), c.hear(&n)); err != nil {
			return errors.Join(err, c.kill())
		}
		err = errors.Join(b.agentSize(rung, dir, c.pid, each.name), b.drainCalls(c.pid, each.name))
		if err := errors.Join(err, c.kill()); err != nil {
			return err
		}
	}
	return nil
}

// agentSize opens and closes windows of an agent in a process of its own.
func (b *bench) agentSize(rung, dir string, pid uint32, what string) error {
	socket := "unix://" + filepath.Join(dir, "agent.sock")
	cmd := exec.Command(rung, "agent", "--listen", socket, "--target", fmt.Sprintf("big=pid:%d", pid))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cmd.Process.Signal(syscall.SIGTERM)
			cmd.Wait()
		}
	}
	defer stop()
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rungv1.NewAgentClient(conn)
	var worst time.Duration
	var record *rungv1.StepRecord
	for step := range 2 {
		took, r, err := b.remoteStep(client, strconv.Itoa(step), 4*time.Second)
		if err != nil {
			stop()
			return fmt.Errorf("%w; the agent says: %s", err, stderr.String())
		}
		worst, record = max(worst, took), r
	}
	highest, err := statusMiB(cmd.Process.Pid, "VmHWM")
	now, err2 := statusMiB(cmd.Process.Pid, "VmRSS")
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	threads := fmt.Sprintf("%d threads %s", len(record.Threads), what)
	b.atMost("resident set of the agent, "+what, highest, "MiB", sizeBound,
		fmt.Sprintf("highest, over two windows of 4 s; %.1f after them; %s, %d draws, %d stacks", now, threads, record.Sampling.GetOffCpuDraws(), record.Sampling.GetDistinctStacks()))
	b.state("kernel memory of the maps, "+what, float64(record.Cost.GetMapBytes())/(1<<20), "MiB", "by fdinfo, as the record says; the account itself lies in task storage")
	b.state("edge to record fetched, "+what, float64(worst.Microseconds())/1e3, "ms", "all that an agent does then: counters, account, stacks with their names, profile, transport")
	return nil
}

// remoteStep measures one step and the time from its closing edge until its
// record has been fetched.
func (b *bench) remoteStep(client rungv1.AgentClient, step string, length time.Duration) (time.Duration, *rungv1.StepRecord, error) {
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	started, err := client.StartStep(ctx, &rungv1.StartStepRequest{Run: "bench", Step: step, Targets: []string{"big"}, PlannedNs: uint64(length)}, grpc.WaitForReady(true))
	if err != nil {
		return 0, nil, err
	}
	end := started.AtMonoNs + uint64(length)
	if _, err := client.EndStep(ctx, &rungv1.EndStepRequest{Run: "bench", Step: step, AtMonoNs: end, BootId: started.Clock.BootId}); err != nil {
		return 0, nil, err
	}
	stream, err := client.GetStep(ctx, &rungv1.GetStepRequest{Run: "bench", Step: step})
	if err != nil {
		return 0, nil, err
	}
	var record *rungv1.StepRecord
	for {
		m, err := stream.Recv()
		if err != nil {
			break // the end, or what is missing then
		}
		if part, ok := m.Part.(*rungv1.GetStepResponse_Record); ok {
			record = part.Record
		}
	}
	took := time.Duration(int64(bpf.Now()) - int64(end))
	if record == nil || record.VoidReason != "" {
		return 0, nil, fmt.Errorf("no record of step %s, or a void one: %s", step, record.GetVoidReason())
	}
	return took, record, nil
}

// drainCalls times what takes a window out of the kernel.
func (b *bench) drainCalls(pid uint32, what string) error {
	w, err := watch(pid, bpf.DefaultStackBudget)
	if err != nil {
		return err
	}
	defer w.Close()
	var worst, park time.Duration
	var note string
	for id := uint32(1); id <= 3; id++ {
		start := bpf.Now()
		end := start + bpf.MonoNs(3*time.Second)
		if err := w.Arm(w.slot, bpf.Window{ID: id, Start: start, End: end, BlockNs: uint64(100 * time.Millisecond)}); err != nil {
			return err
		}
		t0 := time.Now()
		if err := w.Park(w.slot); err != nil {
			return err
		}
		park = max(park, time.Since(t0))
		if err := b.sleepUntil(end); err != nil {
			return err
		}
		t0 = time.Now()
		threads, err := w.Threads(w.slot, id)
		t1 := time.Now()
		rows, err2 := w.OffCPU(w.slot, id)
		t2 := time.Now()
		_, err3 := w.Samples(w.slot, id)
		t3 := time.Now()
		err4 := w.Release(w.slot, id)
		t4 := time.Now()
		if err := errors.Join(err, err2, err3, err4); err != nil {
			return err
		}
		if took := t4.Sub(t0); took > worst {
			worst = took
			note = fmt.Sprintf("slowest of 3: Threads %.1f, OffCPU %.1f, Samples %.1f, Release %.1f ms; %d threads, %d rows; names of frames are not in it",
				ms(t1.Sub(t0)), ms(t2.Sub(t1)), ms(t3.Sub(t2)), ms(t4.Sub(t3)), len(threads), len(rows))
		}
	}
	b.atMost("draining, "+what, ms(worst), "ms", drainBound, note)
	b.state("stacks of sleeping threads, "+what, ms(park), "ms", "once per window, after its opening edge")
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

// statusMiB reads a size from /proc/PID/status.
func statusMiB(pid int, field string) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kb / 1024, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", field, pid)
}
