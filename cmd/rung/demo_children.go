//go:build linux

package main

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// What the children print to say that they serve.
const (
	armReadyPrefix   = "RUNG-ARM ready "
	agentReadyPrefix = "rung agent: listening on "
)

// startArm starts an arm inside its cgroup and waits until it serves.
func (d *demo) startArm(ctx context.Context, a *runningArm, listen string) error {
	args := append([]string{"arm", "--mode", a.name, "--listen", listen}, a.flags...)
	if a.codec && d.options.CodecPasses > 0 {
		args = append(args, "--codec-passes", strconv.Itoa(d.options.CodecPasses))
	}
	if a.codec && d.options.PlantNs > 0 {
		args = append(args, "--plant-ns", strconv.Itoa(d.options.PlantNs))
	}
	said := make(chan string, 1)
	p, err := startProcess(processSpec{
		name:     "arm " + a.name,
		args:     joinArgs(a.cgroup, args...),
		env:      d.armEnv(),
		logPath:  d.logPath(a.name),
		onStdout: sayOnce(armReadyPrefix, said),
	})
	if err != nil {
		return err
	}
	a.process = p
	a.address, err = p.ready(ctx, said)
	return err
}

// armEnv gives an arm as many Ps as its quota has CPUs, rounded up. Go's own
// default is at least 2: under a quota of one CPU or less the second P only
// looks for work, which costs more per request the lower the rate is, and more
// on one machine than on another. A GOMAXPROCS of the user's is left as it is.
func (d *demo) armEnv() []string {
	if d.options.QuotaCPUs == 0 || os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	return []string{"GOMAXPROCS=" + strconv.Itoa(int(math.Ceil(d.options.QuotaCPUs)))}
}

// startAgent starts the agent with all arms as its targets.
func (d *demo) startAgent(ctx context.Context) error {
	args := []string{"agent", "--listen", d.agentURL(), "--rate", strconv.Itoa(d.options.RateHz)}
	for _, group := range d.options.Groups {
		args = append(args, "--group", group)
	}
	for _, a := range d.arms {
		args = append(args, "--target", a.name+"=cgroup:"+a.cgroup.path)
	}
	said := make(chan string, 1)
	p, err := startProcess(processSpec{
		name:     "agent",
		args:     args,
		logPath:  d.logPath("agent"),
		onStderr: sayOnce(agentReadyPrefix, said),
	})
	if err != nil {
		return err
	}
	d.agent = p
	_, err = p.ready(ctx, said)
	return err
}

func (d *demo) agentURL() string { return "unix://" + filepath.Join(d.temp, "agent.sock") }

// sayOnce passes on what follows the prefix on the first line that has it.
func sayOnce(prefix string, said chan<- string) func(string) {
	return func(line string) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			select {
			case said <- strings.TrimSpace(rest):
			default:
			}
		}
	}
}
