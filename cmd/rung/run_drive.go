//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rungprof/rung/campaign"
)

// drive runs one step by a driver of its own, `rung load`, in a process of its
// own: its CPU figure is the step's, its heap is clean, and it can be ended.
func (a *liveArm) drive(ctx context.Context, step campaign.Step, run, dir string) (driven, error) {
	agent := a.stage.plan.AgentOf(a.ladder.Setting.Arm)
	if agent.Mode == campaign.AgentEmbedded {
		if err := a.followProfile(ctx, step.Profile); err != nil {
			return driven{}, err
		}
	}
	address, target := "", ""
	if step.Profile {
		address, target = agent.Address, a.ladder.Setting.Arm.Target
		if agent.Mode == campaign.AgentEmbedded {
			address, target = a.agentURL(), a.ladder.ArmName
		}
	}
	self, err := executable()
	if err != nil {
		return driven{}, err
	}
	if a.child == nil {
		a.find() // whoever runs it may have started it again
	}
	edges := &edgeReader{meter: a.meter, absent: a.meterAbsent}
	var said errorLines
	load, err := startChild(childSpec{
		name: "the driver", argv: append([]string{self}, a.loadArgs(step, run, dir, address, target)...),
		log: filepath.Join(filepath.Dir(dir), "load.log"), stop: syscall.SIGTERM, grace: 10 * time.Second,
		line: func(text string, stderr bool) {
			if stderr {
				said.add(text)
				return
			}
			edges.line(text)
		},
	})
	if err != nil {
		return driven{}, err
	}
	l := a.ladder.Setting.Load
	length := step.Duration
	if step.Requests > 0 && l.Poisson {
		length *= 2 // only the expected one
	}
	limit := time.Duration(length+l.Drain+l.Timeout+l.ConnectTimeout) + time.Minute
	watchdog := time.NewTimer(limit)
	defer watchdog.Stop()
	out := driven{}
	select {
	case <-load.exited:
	case <-ctx.Done():
		load.end()
		return driven{}, ctx.Err()
	case <-watchdog.C:
		load.end()
		out.void = fmt.Sprintf("the driver did not end within %s", limit)
	}
	out.cpu, out.cpuAbsent = edges.result()
	if load.exitErr == nil || out.void != "" {
		return out, nil
	}
	if code := load.cmd.ProcessState.ExitCode(); code == exitUsage {
		return driven{}, exitError{exitUsage, fmt.Errorf("step %s of ladder %s cannot be driven: %s", step.Name(), a.ladder.ID, said.text())}
	}
	if said.has("no space left on device") || said.has("disk quota exceeded") {
		return driven{}, &fullDiskError{dir: dir, err: syscall.ENOSPC}
	}
	// A void step exits with 1 and says why in its result, which comes first; this
	// is the reason where there is no result.
	out.void = "the driver failed: " + said.text()
	if code := load.cmd.ProcessState.ExitCode(); code < 0 {
		out.void = "the driver was ended: " + load.exitErr.Error()
	}
	return out, nil
}

// errorLines keeps what a driver said of its end.
type errorLines struct {
	mu    sync.Mutex
	lines []string
}

const keptLines = 8

func (e *errorLines) add(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lines = append(e.lines, line); len(e.lines) > keptLines {
		e.lines = e.lines[1:]
	}
}

// text is what follows the last "rung: ", or all.
func (e *errorLines) text() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	text := strings.Join(e.lines, "\n")
	if i := strings.LastIndex("\n"+text, "\nrung: "); i >= 0 {
		text = text[i+len("rung: "):]
	}
	if text = strings.TrimSpace(text); text == "" {
		return "it said nothing"
	}
	return text
}

func (e *errorLines) has(part string) bool { return strings.Contains(e.text(), part) }

// loadArgs are the driver's flags for one step.
func (a *liveArm) loadArgs(step campaign.Step, run, dir, agent, target string) []string {
	l, spec := a.ladder.Setting.Load, a.ladder.Setting.Spec
	args := []string{"load", "--protocol", l.Protocol, "--address", a.address, "--arm", a.ladder.ArmName, "--run", run, "--out", dir,
		"--rates", strconv.FormatFloat(step.OfferedHz, 'f', -1, 64), "--settle", spec.Settle.String(), "--gap", "0s", "--connections", strconv.Itoa(l.Connections),
		"--timeout", l.Timeout.String(), "--drain", l.Drain.String(), "--connect-timeout", l.ConnectTimeout.String(),
		"--seed", strconv.FormatUint(step.Seed, 10), "--first-index", strconv.Itoa(step.Index)}
	if step.Requests > 0 {
		args = append(args, "--iterations-per-slot", strconv.Itoa(spec.IterationsPerSlot))
	} else {
		args = append(args, "--duration", step.Duration.String())
	}
	given := func(flag, value string) {
		if value != "" && value != "0" && value != "0s" {
			args = append(args, flag, value)
		}
	}
	given("--path", l.Path)
	given("--method", l.Method)
	given("--content-type", l.ContentType)
	given("--reply-length", strconv.Itoa(l.ReplyLength))
	given("--streams", strconv.Itoa(l.Streams))
	given("--max-in-flight", strconv.Itoa(l.InFlight))
	given("--max-lateness", l.MaxLateness.String())
	if l.BodyFile != "" {
		given("--body-file", a.stage.path(l.BodyFile))
	} else {
		given("--body", l.Body)
	}
	if l.Poisson {
		args = append(args, "--poisson")
	}
	if step.Unmeasured() {
		args = append(args, "--as-warmup")
	}
	if agent != "" {
		args = append(args, "--agent", agent, "--agent-target", target)
		for _, o := range a.ladder.Setting.Arm.Also {
			switch {
			case o.Agent != "":
				args = append(args, "--also", o.Agent+"="+o.Target)
			case a.stage.plan.AgentOf(a.ladder.Setting.Arm).Mode == campaign.AgentEmbedded:
				args = append(args, "--also", agent+"="+o.Name) // as it was given the target
			default:
				args = append(args, "--also", agent+"="+o.Target)
			}
		}
	}
	return append(args, l.Flags...)
}

// followProfile has the embedded agent run for profiled steps only: its programs
// cost the arm something even between windows, which a control step must not pay.
func (a *liveArm) followProfile(ctx context.Context, profile bool) error {
	if !profile {
		a.stopAgent()
		return nil
	}
	if a.agent.running() {
		return nil
	}
	self, err := executable()
	if err != nil {
		return err
	}
	target := a.ladder.ArmName + "=cgroup:" + a.group
	if a.group == "" || strings.HasPrefix(a.ladder.Setting.Arm.Target, "pid") {
		if a.pid == 0 {
			return fmt.Errorf("arm %s: neither its cgroup nor its process is known, so the embedded agent has no target", a.ladder.ArmName)
		}
		target = fmt.Sprintf("%s=pid:%d", a.ladder.ArmName, a.pid)
	}
	if err := os.Remove(strings.TrimPrefix(a.agentURL(), "unix://")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("start the agent: %w", err)
	}
	argv := []string{self, "agent", "--listen", a.agentURL(), "--rate", strconv.Itoa(a.stage.plan.Agent.RateHz), "--target", target}
	for _, o := range a.ladder.Setting.Arm.Also {
		if o.Agent == "" {
			argv = append(argv, "--target", o.Name+"="+o.Target)
		}
	}
	said := make(chan string, 1)
	once := sayOnce(agentReadyPrefix, said)
	a.agent, err = startChild(childSpec{
		name: "the agent",
		argv: argv,
		log:  filepath.Join(a.logDir, "agent.log"), stop: syscall.SIGTERM, grace: 5 * time.Second,
		line: func(text string, _ bool) { once(text) },
	})
	if err != nil {
		return err
	}
	select {
	case <-said:
		return nil
	case <-a.agent.exited:
		return fmt.Errorf("the embedded agent did not start: %s", a.agent.fate())
	case <-time.After(30 * time.Second):
		a.stopAgent()
		return errors.New("the embedded agent did not start within 30 s")
	case <-ctx.Done():
		a.stopAgent()
		return ctx.Err()
	}
}

func (a *liveArm) agentURL() string { return "unix://" + filepath.Join(a.stage.temp, "agent.sock") }

func (a *liveArm) stopAgent() {
	a.agent.end()
	a.agent = nil
}
