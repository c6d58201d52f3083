package agent

import (
	"cmp"
	"slices"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// A record has a row for each thread, up to a bound. Beyond it the threads with
// the least time other than blocked are summed, one row per thread group: what
// they did stays in the account, which of them did it is lost.

// recordThreads adds the account to the record.
func (a *Agent) recordThreads(r *rungv1.StepRecord, threads []bpf.Thread, start bpf.MonoNs, first, last map[int]Schedstat) {
	kept := a.largest(threads)
	var names []string
	folded := map[string]*rungv1.Thread{}
	for i, thread := range threads {
		m := recordThread(thread, start, first, last)
		names = append(names, m.Comm)
		if kept != nil && !kept[i] {
			fold(folded, a.config.Groups.Group(m.Comm, m.Tid), m)
			continue
		}
		r.Threads = append(r.Threads, m)
	}
	groups := make([]string, 0, len(folded))
	for group := range folded {
		groups = append(groups, group)
	}
	slices.Sort(groups)
	for _, group := range groups {
		r.Threads = append(r.Threads, folded[group])
	}
	if n := len(threads) - a.config.MaxThreads; n > 0 {
		warn(r, "%d of %d threads have no row of their own, those with the least time other than blocked: they are summed by thread group (--max-threads %d)",
			n, len(threads), a.config.MaxThreads)
	}
	for _, text := range a.config.Groups.Warnings(names) {
		warn(r, "%s", text)
	}
}

// largest marks the threads that keep a row of their own, nil for all.
func (a *Agent) largest(threads []bpf.Thread) []bool {
	if len(threads) <= a.config.MaxThreads {
		return nil
	}
	busy := make([]uint64, len(threads))
	order := make([]int, len(threads))
	for i := range threads {
		t := &threads[i]
		busy[i], order[i] = t.OnCPUWallNs+t.RunQueueNs+t.ThrottledNs, i
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(busy[j], busy[i]), cmp.Compare(threads[j].LifetimeNs, threads[i].LifetimeNs),
			cmp.Compare(threads[i].Tid, threads[j].Tid), cmp.Compare(threads[i].StartNs, threads[j].StartNs))
	})
	kept := make([]bool, len(threads))
	for _, i := range order[:a.config.MaxThreads] {
		kept[i] = true
	}
	return kept
}

// fold adds a thread to its group's row.
func fold(rows map[string]*rungv1.Thread, group string, t *rungv1.Thread) {
	sum := rows[group]
	if sum == nil {
		sum = &rungv1.Thread{Comm: symbol.Printable(group), ThrottledLoNs: new(uint64), ThrottledHiNs: new(uint64), NoEvent: true}
		rows[group] = sum
	}
	sum.FoldedThreads++
	sum.LifetimeNs += t.LifetimeNs
	sum.OnCpuWallNs += t.OnCpuWallNs
	sum.OnCpuChargedNs += t.OnCpuChargedNs
	sum.RunQueueNs += t.RunQueueNs
	*sum.ThrottledLoNs += t.GetThrottledLoNs()
	*sum.ThrottledHiNs += t.GetThrottledHiNs()
	sum.StoppedNs += t.StoppedNs
	sum.Switches += t.Switches
	sum.Wakeups += t.Wakeups
	sum.OnCpuSkewNs += t.OnCpuSkewNs
	sum.RunQueueSkewNs += t.RunQueueSkewNs
	sum.NoEvent = sum.NoEvent && t.NoEvent
	for _, b := range t.Blocked {
		i := slices.IndexFunc(sum.Blocked, func(s *rungv1.Blocked) bool {
			return s.Reason == b.Reason && s.Object == b.Object && s.Limited == b.Limited
		})
		if i < 0 {
			sum.Blocked = append(sum.Blocked, b)
			continue
		}
		sum.Blocked[i].Ns += b.Ns
		sum.Blocked[i].Intervals += b.Intervals
	}
}

// recordConfig is what the agent measures with, defaults filled in.
func (a *Agent) recordConfig() *rungv1.Config {
	o := a.config.Loaded
	return &rungv1.Config{
		RateHz:      o.RateHz,
		Clock:       o.Clock.String(),
		StackBudget: int64(cmp.Or(o.StackBudget, bpf.DefaultStackBudget)),
		MaxStacks:   cmp.Or(o.MaxStacks, bpf.DefaultMaxStacks), MaxStrata: cmp.Or(o.MaxStrata, bpf.DefaultMaxStrata),
		MaxSamples: cmp.Or(o.MaxSamples, bpf.DefaultMaxSamples), MaxEnded: cmp.Or(o.MaxEnded, bpf.DefaultMaxEnded),
		MaxAccounts: cmp.Or(o.MaxThreads, bpf.DefaultMaxThreads), MaxThreads: uint32(a.config.MaxThreads),
		ThreadGroups: a.config.Groups.Rules(), SingleThreads: a.config.Groups.Single(),
	}
}
