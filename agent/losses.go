package agent

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

// profileLosses are the samples of one profile that a loss weakens; one may
// count under several.
func profileLosses(s profile.Stats) []*rungv1.Loss {
	all := append(sampleLosses("profile_", "samples", s.OnCPU), sampleLosses("offcpu_", "drawn off-CPU intervals", s.OffCPU)...)
	all = append(all,
		&rungv1.Loss{Name: "offcpu_undrawn", Count: s.Undrawn, Meaning: fmt.Sprintf(
			"threads' states or reasons with time and without any stack, shown as [lost stack]: %v together", time.Duration(s.UndrawnNs))},
		&rungv1.Loss{Name: "offcpu_unaccounted", Count: s.Unaccounted, Meaning: "drawn off-CPU intervals left out: the account gives their thread no such time"},
	)
	return slices.DeleteFunc(all, func(l *rungv1.Loss) bool { return l.Count == 0 })
}

func sampleLosses(prefix, what string, s profile.Losses) []*rungv1.Loss {
	all := []*rungv1.Loss{
		{Name: prefix + "lost_stack", Count: s.LostStack, Meaning: what + " without any stack, shown as [lost stack]: the table of stacks was full"},
		{Name: prefix + "missing_user_stack", Count: s.MissingStack, Meaning: what + " without a user stack, shown as [missing stack]"},
		{Name: prefix + "truncated_stack", Count: s.Truncated, Meaning: what + " whose callers at the root are missing, shown as [truncated]"},
		{Name: prefix + "process_unreadable", Count: s.NoProcess, Meaning: what + " without names: their process had exited, or its mappings could not be read"},
		{Name: prefix + "thread_unknown", Count: s.NoComm, Meaning: what + " without thread group: the account does not hold their thread"},
		{Name: prefix + "kernel_unnamed", Count: s.UnnamedKernel, Meaning: what + " with a kernel frame that has no name"},
	}
	for loss, n := range s.User {
		all = append(all, &rungv1.Loss{
			Name:    prefix + "user_" + strings.ReplaceAll(symbol.Loss(loss).String(), " ", "_"),
			Count:   n,
			Meaning: what + " with a user frame that is not fully named: " + symbol.Loss(loss).String(),
		})
	}
	return all
}
