//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/rungprof/rung/agent"
	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// measuredProfile is what one window gave.
type measuredProfile struct {
	record    *rungv1.StepRecord
	profileGz []byte
	ended     profileEnding
}

// profileEnding says why a window ended.
type profileEnding string

const (
	endedPlanned     profileEnding = "planned"     // after --duration
	endedExited      profileEnding = "exited"      // with the process
	endedInterrupted profileEnding = "interrupted" // by a signal
)

// One window is one step of one run to the agent.
const profileRun, profileStep = "profile", "window"

const (
	// endAhead is how long before the planned end the closing edge is armed.
	endAhead = 200 * time.Millisecond
	// expiryMargin keeps a window from expiring before its end.
	expiryMargin = time.Minute
	// drainLimit bounds the reading and naming of what was measured.
	drainLimit = 5 * time.Minute
)

// measureProfile runs the agent in this process over one window.
func measureProfile(ctx context.Context, o profileOptions, groups *attribution.Grouper, t *profileTarget, kernel agent.Kernel, stderr io.Writer) (*measuredProfile, error) {
	a, err := agent.New(agent.Config{
		Targets: []agent.Target{t.Target}, Loaded: o.limits.kernel(uint32(o.rateHz)), MaxThreads: o.limits.maxThreads, Groups: groups,
	}, kernel)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	limit, planned := o.duration, o.duration
	if o.untilExit() {
		limit, planned = longestProfile, commandPlan
	}
	started, err := a.StartStep(ctx, &rungv1.StartStepRequest{
		Run: profileRun, Step: profileStep, Targets: []string{t.Name},
		ExpiresAfterNs: uint64(min(limit+expiryMargin, longestProfile)), PlannedNs: uint64(planned),
	})
	if err != nil {
		return nil, fmt.Errorf("open the window: %w", plainError(err))
	}
	announce(stderr, o, t)
	if t.command != nil {
		sleepUntilMono(bpf.MonoNs(started.AtMonoNs))
		if err := t.command.release(); err != nil {
			return nil, err
		}
	}
	m := &measuredProfile{}
	end := started.AtMonoNs + uint64(limit)
	m.ended = awaitProfileEnd(ctx, t, bpf.MonoNs(end))
	request := &rungv1.EndStepRequest{Run: profileRun, Step: profileStep}
	if m.ended == endedPlanned {
		request.AtMonoNs, request.BootId = end, started.Clock.BootId
	}
	if _, err := a.EndStep(ctx, request); err != nil {
		return nil, fmt.Errorf("close the window: %w", plainError(err))
	}
	if m.ended == endedPlanned {
		sleepUntilMono(bpf.MonoNs(end))
		if t.hasExited(0) {
			m.ended = endedExited
		}
	}
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	stream := &profileStream{ctx: read}
	if err := a.GetStep(&rungv1.GetStepRequest{Run: profileRun, Step: profileStep}, stream); err != nil {
		return nil, fmt.Errorf("read the window: %w", plainError(err))
	}
	if stream.record == nil {
		return nil, errors.New("read the window: the agent gave no record")
	}
	m.record, m.profileGz = stream.record, stream.profileGz
	moved := stream.clock.GetBoottimeMinusMonoNs() - started.Clock.GetBoottimeMinusMonoNs()
	m.excuseExit(t, moved)
	return m, nil
}

// excuseExit keeps the figures of a process that has ended. To the agent its
// number may be another's by now, and the window void; but it was held here. A
// host that was suspended is no such case.
func (m *measuredProfile) excuseExit(t *profileTarget, suspendedNs int64) {
	if t.command != nil || !t.hasExited(0) {
		return
	}
	warn := func(text string) { m.record.Warnings = append(m.record.Warnings, text) }
	if m.ended == endedExited {
		warn(t.title + " ended within the window, which was closed then; descendants may run on")
	}
	if void := m.record.VoidReason; void != "" && len(m.record.Threads) > 0 && time.Duration(suspendedNs).Abs() < time.Millisecond {
		m.record.VoidReason = ""
		warn("not void, since the account is of that very process, though: " + void)
	}
}

// awaitProfileEnd waits until shortly before the planned end, or for what ends
// the window earlier.
func awaitProfileEnd(ctx context.Context, t *profileTarget, end bpf.MonoNs) profileEnding {
	done := make(chan struct{})
	defer close(done)
	left := int64(end) - int64(bpf.Now()) - int64(endAhead)
	timer := time.NewTimer(time.Duration(max(left, 0)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return endedPlanned
	case <-t.exited(done):
		return endedExited
	case <-ctx.Done():
		return endedInterrupted
	}
}

func sleepUntilMono(at bpf.MonoNs) {
	for now := bpf.Now(); now < at; now = bpf.Now() {
		time.Sleep(time.Duration(at - now))
	}
}

func announce(stderr io.Writer, o profileOptions, t *profileTarget) {
	until := fmt.Sprintf("for %v", o.duration)
	if o.untilExit() {
		until = "until it exits"
	}
	fmt.Fprintf(stderr, "rung profile: measuring %s %s; Ctrl-C ends the window\n", printable(t.title), until)
}

// plainError takes off what gRPC adds to a call that never left this process.
func plainError(err error) error {
	if s, ok := status.FromError(err); ok {
		return errors.New(s.Message())
	}
	return err
}

// profileStream collects what GetStep sends.
type profileStream struct {
	grpc.ServerStream // nil: a direct call has no transport
	ctx               context.Context
	record            *rungv1.StepRecord
	profileGz         []byte
	clock             *rungv1.ClockStamp
}

func (s *profileStream) Context() context.Context { return s.ctx }

func (s *profileStream) Send(m *rungv1.GetStepResponse) error {
	switch part := m.Part.(type) {
	case *rungv1.GetStepResponse_Record:
		s.record = part.Record
	case *rungv1.GetStepResponse_ProfileChunk:
		s.profileGz = append(s.profileGz, part.ProfileChunk...)
	case *rungv1.GetStepResponse_Clock:
		s.clock = part.Clock
	}
	return nil
}
