//go:build linux

package main

import (
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// describeRun is the effective plan and where it runs. What this host does not
// tell stays absent.
func describeRun(o loadOptions, c loadgen.Config) rundir.Run {
	plan := rundir.Plan{
		Address: c.Address, Body: o.body, RequestBytes: len(c.Body),
		Duration: rundir.Duration(o.duration), IterationsPerSlot: c.IterationsPerSlot, Settle: rundir.Duration(c.Settle), Gap: rundir.Duration(c.Gap),
		Timeout: rundir.Duration(c.Timeout), Drain: rundir.Duration(c.Drain),
		Connections: c.Connections, Streams: c.Streams, MaxInFlight: c.MaxInFlight, OnVoid: string(c.OnVoid),
	}
	if o.bodyFile != "" {
		plan.Body = o.bodyFile
	}
	if c.Agent != nil {
		plan.Agent, plan.AgentTarget, plan.Also = c.Agent.Address, c.Agent.Targets[0], o.also
	}
	for _, s := range c.Steps {
		if s.Warmup {
			plan.WarmupHz, plan.Warmup = s.OfferedHz, rundir.Duration(s.Duration)
			continue
		}
		plan.RatesHz = append(plan.RatesHz, s.OfferedHz)
	}
	return rundir.Run{
		SchemaVersion: rundir.SchemaVersion, ID: c.Run, Arm: c.Arm, Protocol: string(c.Protocol),
		Started: time.Now(), Plan: plan, Host: driverHost(o.args),
	}
}

func driverHost(args []string) rundir.Provenance {
	p := rundir.Provenance{
		Rung: buildVersion(), Go: runtime.Version(), Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Args: args,
		BootID:   lineOf("/proc/sys/kernel/random/boot_id"),
		Kernel:   lineOf("/proc/sys/kernel/osrelease"),
		Governor: lineOf("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
	}
	p.Hostname, _ = os.Hostname()
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			p.CPUModel = cpus[0].ModelName
		}
	}
	return p
}

// lineOf is a file's first line, or empty where it cannot be read.
func lineOf(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}
