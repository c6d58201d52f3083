//go:build linux

package main

import (
	"errors"
	"io/fs"
	"path/filepath"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// stepState is what a campaign noted of a step, nil of a step that is no
// campaign's.
func stepState(d *rundir.Dir, name string) (*campaign.StepState, error) {
	var state campaign.StepState
	err := readState(filepath.Join(d.StepPath(name), campaign.StepFile), &state)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &state, nil
}

// observeDriven is what client, agent and campaign saw of a step; state may be
// nil. What the agent did not measure, the campaign's own reading of the arm's
// CPU stands in for: it reads all steps alike.
func observeDriven(s rundir.Step, state *campaign.StepState) ladder.Observed {
	o := observe(s)
	if state == nil {
		return o
	}
	o.Control = state.Step.Kind == campaign.KindControl
	if state.CPU != nil {
		o.OwnUsageNs = &state.CPU.UsageNs
	}
	if s.Record == nil && !state.Step.Profile {
		o.AgentMissing = "" // none was asked for
	}
	if s.Record == nil && state.CPU != nil {
		o.UsageNs, o.ThrottledNs = &state.CPU.UsageNs, state.CPU.ThrottledNs
	}
	if state.Void != "" && o.ClientVoid == "" {
		o.ClientVoid = state.Void
	}
	return o
}

// explainCampaign says of a step that was driven without the agent why a figure is
// not there.
func explainCampaign(out *report.Step, state *campaign.StepState) {
	if state.Step.Profile {
		return // the agent was asked, and the driver says why it gave nothing
	}
	const unasked = "driven without the agent, as the plan's profile_steps and control_steps have it"
	for _, figure := range []string{"periodsThrottled", "rssBytes", "account", "layers"} {
		out.Absent[figure] = unasked
	}
	switch {
	case out.CPUMsPerRequest == nil && state.CPU == nil:
		for _, figure := range []string{"cpuMsPerRequest", "cores", "throttledCpuSeconds"} {
			out.Absent[figure] = unasked + "; CPU: " + state.CPUAbsent
		}
	case out.ThrottledCPUSeconds == nil:
		out.Absent["throttledCpuSeconds"] = unasked + "; the campaign read a " + state.CPU.Source + ", which has none"
	}
}

// compilerThreads are the names, as the kernel cuts them, of HotSpot's two kinds
// of compiler threads. They all bear these whatever their number, which is cut off.
var compilerThreads = map[string]bool{"C1 CompilerThre": true, "C2 CompilerThre": true}

// jitShare is the part of the arm's charged CPU time that its JVM's compiler threads
// took, 0..1; nil where there is no such thread, or no CPU time. Threads that were
// summed in a record under another group's name are not seen.
func jitShare(r *rungv1.StepRecord) *float64 {
	var compilers, all uint64
	jvm := false
	for _, t := range r.GetThreads() {
		all += t.GetOnCpuChargedNs()
		if compilerThreads[t.GetComm()] {
			jvm = true
			compilers += t.GetOnCpuChargedNs()
		}
	}
	if !jvm || all == 0 {
		return nil
	}
	return ptrTo(float64(compilers) / float64(all))
}
