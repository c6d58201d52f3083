//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/grpc"

	"github.com/rungprof/rung/agent"
	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/bpf"
)

// charged holds the time charged to the threads of a cgroup against the cgroup's
// own counter, over one window of the agent: a pair that hands over at 5,000
// switches/s and a thread that spins.
func (b *bench) charged() error {
	g, err := newGroup("bench-charged")
	if err != nil {
		return err
	}
	defer g.remove()
	l, err := b.startLoop(g.dirs, 5_000)
	if err != nil {
		return err
	}
	defer l.kill()
	spin, err := startChild(g.dirs, "spin")
	if err != nil {
		return err
	}
	defer spin.kill()
	if err := spin.say("go"); err != nil {
		return err
	}
	length := pick(b, 30*time.Second, 3*time.Second)
	done := make(chan error, 1)
	until := time.Now().Add(length + 2*time.Second)
	go func() {
		var err error
		for err == nil && time.Now().Before(until) {
			_, err = l.slices(1)
		}
		done <- err
	}()
	record, err := b.step(agent.Target{Name: "charged", Cgroup: g.path}, length)
	if err := errors.Join(err, <-done); err != nil {
		return err
	}
	c := record.Counters
	if c.GetUsageUsec() == 0 || record.VoidReason != "" {
		return fmt.Errorf("no usage to hold it against; void: %q", record.VoidReason)
	}
	var sum float64
	for _, t := range record.Threads {
		sum += float64(t.OnCpuChargedNs)
	}
	usage := 1e3 * float64(c.GetUsageUsec())
	bracket := float64(record.Host.Cpus) * float64(c.StartBracketNs+c.EndBracketNs)
	off := 100 * (sum - usage) / usage
	bound := 0.1 + 100*bracket/usage
	b.judge(fmt.Sprintf("sum over threads less usage, %v", length), off, "%", fmt.Sprintf("|x| ≤ %.4f", bound), math.Abs(off) <= bound,
		fmt.Sprintf("%.4f s of %.4f s, read by %v; allowed: 0.1 %% and CPUs × the read bracket of %d µs", sum/1e9, usage/1e9, c.Sources, (c.StartBracketNs+c.EndBracketNs)/1000))
	return nil
}

// step runs an agent in this process over one window of one target.
func (b *bench) step(target agent.Target, length time.Duration) (*rungv1.StepRecord, error) {
	kernel, err := bpf.Load(bpf.Options{RateHz: agent.DefaultRateHz})
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	a, err := agent.New(agent.Config{Targets: []agent.Target{target}, Loaded: bpf.Options{RateHz: agent.DefaultRateHz}}, kernel)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	started, err := a.StartStep(b.ctx, &rungv1.StartStepRequest{Run: "bench", Step: "1", Targets: []string{target.Name}, PlannedNs: uint64(length)})
	if err != nil {
		return nil, err
	}
	if _, err := a.EndStep(b.ctx, &rungv1.EndStepRequest{Run: "bench", Step: "1", AtMonoNs: started.AtMonoNs + uint64(length), BootId: started.Clock.BootId}); err != nil {
		return nil, err
	}
	stream := &recordStream{ctx: b.ctx}
	if err := a.GetStep(&rungv1.GetStepRequest{Run: "bench", Step: "1"}, stream); err != nil {
		return nil, err
	}
	if stream.record == nil {
		return nil, errors.New("the agent gave no record")
	}
	return stream.record, nil
}

// recordStream keeps the record that GetStep sends.
type recordStream struct {
	grpc.ServerStream // nil: a direct call has no transport
	ctx               context.Context
	record            *rungv1.StepRecord
}

func (s *recordStream) Context() context.Context { return s.ctx }

func (s *recordStream) Send(m *rungv1.GetStepResponse) error {
	if part, ok := m.Part.(*rungv1.GetStepResponse_Record); ok {
		s.record = part.Record
	}
	return nil
}
