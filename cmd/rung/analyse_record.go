//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/google/pprof/profile"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// analyseRecord adds what the agent measured: account, layers, checks, losses,
// and the profiler's own cost.
func analyseRecord(out *report.Step, d *rundir.Dir, s rundir.Step, opts analyseOptions) error {
	r := s.Record
	grouped, err := groupRecord(r, opts.Groups)
	if err != nil {
		return fmt.Errorf("%s: %w", d.StepPath(s.Name), err)
	}
	threads := grouped.threads
	out.Warnings = append(out.Warnings, grouped.warnings...)
	if ns := windowNs(r); ns > 0 {
		if out.Account, err = grouped.account(ns, opts.Rules); err != nil {
			return fmt.Errorf("%s: %w", d.StepPath(s.Name), err)
		}
	}
	out.Checks = append(attribution.Checks(attribution.CheckInput{
		Threads: threads, UsageNs: usageNs(r),
		BracketNs: saturate(r.GetCounters().GetStartBracketNs()) + saturate(r.GetCounters().GetEndBracketNs()),
		CPUs:      int(r.GetHost().GetCpus()), TickNs: saturate(r.GetHost().GetTickNs()),
		Samples: saturate(r.GetSampling().GetSamples()), PeriodNs: saturate(r.GetSampling().GetPeriodNs()),
	}), append(agentChecks(s), out.Checks...)...)
	for _, l := range r.GetLosses() {
		out.Losses = append(out.Losses, report.Loss{Name: l.GetName(), Count: l.GetCount(), Meaning: l.GetMeaning()})
	}
	out.Cost = profilerCost(r)
	if len(s.ProfileGz) == 0 {
		return nil
	}
	table, err := stepLayers(s, grouped, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", out.Profile, err)
	}
	out.Layers = table
	return nil
}

// analyseOthers takes the records of the targets beside the arm.
func analyseOthers(d *rundir.Dir, s rundir.Step, opts analyseOptions) ([]report.Other, error) {
	var out []report.Other
	for _, other := range s.Others {
		where := filepath.Join(d.StepPath(s.Name), rundir.OthersDir, other.Name)
		grouped, err := groupRecord(other.Record, opts.Groups)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		o := report.Other{Name: other.Name, Warnings: append(slices.Clone(other.Record.GetWarnings()), grouped.warnings...)}
		if v := other.Record.GetVoidReason(); v != "" {
			o.Warnings = append(o.Warnings, "void: "+v)
		}
		if len(other.ProfileGz) > 0 {
			o.Profile = filepath.Join(where, rundir.ProfileFile)
		}
		ns, used := windowNs(other.Record), usageNs(other.Record)
		if ns > 0 {
			if o.Account, err = grouped.account(ns, opts.Rules); err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
		}
		if ns > 0 && used != nil {
			o.Cores = ptrTo(float64(*used) / float64(ns))
			if n := s.Client.DeliveredInWindow; n > 0 {
				o.CPUMsPerRequest = ptrTo(float64(*used) / 1e6 / float64(n))
			}
		}
		out = append(out, o)
	}
	return out, nil
}

// stepLayers divides the arm's charged CPU among the layers.
func stepLayers(s rundir.Step, grouped *groupedRecord, opts analyseOptions) (*attribution.Table, error) {
	raw, err := grouped.profile(s.ProfileGz)
	if err != nil {
		return nil, err
	}
	p, err := attribution.FromPprof(raw, "")
	if err != nil {
		return nil, err
	}
	o := attribution.Options{Charge: opts.Charge, UsageNs: usageNs(s.Record), Requests: s.Client.DeliveredInWindow, Blocks: blocks(s.Record)}
	if len(grouped.threads) > 0 {
		o.ChargedNs = ptrTo(attribution.SumCharged(grouped.threads))
	}
	return attribution.Attribute(p, opts.Rules, o)
}

// blocks is the number of bootstrap blocks in the window, 0 when unknown.
func blocks(r *rungv1.StepRecord) int {
	block := saturate(r.GetWindow().GetBlockNs())
	ns := windowNs(r)
	if block <= 0 || ns <= 0 {
		return 0
	}
	n := (ns-1)/block + 1
	if n > attribution.MaxBlocks {
		return 0
	}
	return int(n)
}

// maxUnpackedProfile bounds an unpacked profile: a ladder's own have a few MB.
const maxUnpackedProfile = 1 << 30

func readPprof(gz []byte) (*profile.Profile, error) {
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		return nil, fmt.Errorf("unpack profile: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(z, maxUnpackedProfile+1))
	if err != nil {
		return nil, fmt.Errorf("unpack profile: %w", err)
	}
	if len(data) > maxUnpackedProfile {
		return nil, fmt.Errorf("unpack profile: larger than %d bytes", maxUnpackedProfile)
	}
	p, err := profile.ParseUncompressed(data)
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	return p, nil
}

func windowNs(r *rungv1.StepRecord) int64 {
	w := r.GetWindow()
	if w.GetEndMonoNs() <= w.GetStartMonoNs() {
		return 0
	}
	return saturate(w.GetEndMonoNs() - w.GetStartMonoNs())
}

// accountThreads takes the record's threads for package attribution.
func accountThreads(r *rungv1.StepRecord) []attribution.Thread {
	out := make([]attribution.Thread, 0, len(r.GetThreads()))
	for _, t := range r.GetThreads() {
		a := attribution.Thread{
			Tid: t.GetTid(), Tgid: t.GetTgid(), Comm: t.GetComm(), LifetimeNs: t.GetLifetimeNs(),
			OnCPUWallNs: t.GetOnCpuWallNs(), OnCPUChargedNs: t.GetOnCpuChargedNs(), RunQueueNs: t.GetRunQueueNs(),
			ThrottledLoNs: t.ThrottledLoNs, ThrottledHiNs: t.ThrottledHiNs,
			OnCPUSkewNs: t.GetOnCpuSkewNs(), RunQueueSkewNs: t.GetRunQueueSkewNs(),
			StoppedNs: t.GetStoppedNs(), Switches: t.GetSwitches(), Folded: int(t.GetFoldedThreads()),
			SchedstatRunNs: t.SchedstatRunNs, SchedstatWaitNs: t.SchedstatWaitNs,
		}
		for _, b := range t.GetBlocked() {
			a.Blocked = append(a.Blocked, attribution.Blocked{
				Reason: b.GetReason(), Object: b.GetObject(), Limited: b.GetLimited(), Ns: b.GetNs(), Intervals: b.GetIntervals()})
		}
		out = append(out, a)
	}
	return out
}

// accountWakers takes the record's wakers for package attribution.
func accountWakers(r *rungv1.StepRecord) []attribution.Waker {
	var out []attribution.Waker
	for _, w := range r.GetWakers() {
		out = append(out, attribution.Waker{
			Group: w.GetThreadGroup(), Reason: w.GetReason(), Object: w.GetObject(), Limited: w.GetLimited(),
			Waker: w.GetWakerGroup(), Thread: w.GetKind() == rungv1.Waker_KIND_THREAD, Outside: w.GetOutside(),
			Comm: w.GetWakerComm(), Draws: w.GetDraws(), Ns: w.GetNs(),
			WokenComm: w.GetComm(), WokenTid: w.GetTid(), WakerTid: w.GetWakerTid(),
		})
	}
	return out
}

func profilerCost(r *rungv1.StepRecord) *report.Cost {
	c := r.GetCost()
	if c == nil {
		return nil
	}
	cost := &report.Cost{
		WindowNs: uint64(windowNs(r)), AgentCPUNs: c.GetAgentCpuNs(), BPFMissing: c.GetBpfUnavailable(),
		AgentRSSBytes: c.GetAgentRssBytes(), MapBytes: c.GetMapBytes(),
	}
	if v := usageNs(r); v != nil {
		cost.ArmNs = ptrTo(uint64(*v))
	}
	if len(c.GetPrograms()) > 0 {
		var ns, runs uint64
		for _, p := range c.GetPrograms() {
			ns += p.GetRunTimeNs()
			runs += p.GetRuns()
		}
		cost.BPFNs, cost.BPFRuns = &ns, runs
	}
	return cost
}
