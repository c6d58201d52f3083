package agent

import (
	"slices"
	"strings"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// losses are the kernel side's counters that rose within a window, by name.
// They are sums over all targets, since a counter has no target.
func losses(first, last bpf.Counters) []*rungv1.Loss {
	var names []string
	for name, count := range last {
		if count > first[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []*rungv1.Loss
	for _, name := range names {
		meaning := bpf.CounterMeaning(name)
		if meaning == "" {
			meaning = "an event did not reach the account or the profile whole"
		}
		all = append(all, &rungv1.Loss{Name: name, Count: last[name] - first[name], Meaning: meaning + " (all targets together)"})
	}
	return all
}

// profileLosses are the ticks of one profile that a loss weakens; a tick may
// count under several.
func profileLosses(s profile.Stats) []*rungv1.Loss {
	all := []*rungv1.Loss{
		{Name: "profile_lost_stack", Count: s.LostStack, Meaning: "samples without any stack, shown as [lost stack]: the table of stacks was full"},
		{Name: "profile_missing_user_stack", Count: s.MissingStack, Meaning: "samples without a user stack, shown as [missing stack]"},
		{Name: "profile_truncated_stack", Count: s.Truncated, Meaning: "samples whose callers at the root are missing, shown as [truncated]"},
		{Name: "profile_process_unreadable", Count: s.NoProcess, Meaning: "samples without names: their process had exited, or its mappings could not be read"},
		{Name: "profile_thread_unknown", Count: s.NoComm, Meaning: "samples without thread group: the account does not hold their thread"},
		{Name: "profile_kernel_unnamed", Count: s.UnnamedKernel, Meaning: "samples with a kernel frame that has no name"},
	}
	for loss, ticks := range s.User {
		all = append(all, &rungv1.Loss{
			Name:    "profile_user_" + strings.ReplaceAll(symbol.Loss(loss).String(), " ", "_"),
			Count:   ticks,
			Meaning: "samples with a user frame that is not fully named: " + symbol.Loss(loss).String(),
		})
	}
	return slices.DeleteFunc(all, func(l *rungv1.Loss) bool { return l.Count == 0 })
}
