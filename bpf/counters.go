//go:build linux

package bpf

import "fmt"

// counterNames stand in the order of enum counter.
var counterNames = [rungCounterCOUNTERS]struct{ name, meaning string }{
	rungCounterCOUNT_STORAGE_LOST:  {"thread_storage_lost", "a target thread could not be tracked for one event"},
	rungCounterCOUNT_DEAD_LOST:     {"ended_thread_lost", "the account of a thread that ended did not fit"},
	rungCounterCOUNT_REASON_OTHER:  {"reason_other", "a blocked interval went to \"other\": a thread had more reasons than slots"},
	rungCounterCOUNT_SWITCH_MISSED: {"switch_in_missed", "the kernel did not show a switch-in; its own stamp repaired the account"},
	rungCounterCOUNT_OUT_MISSED:    {"switch_out_missed", "the kernel did not show a switch-out; the charged time repaired the account"},
	rungCounterCOUNT_BACKWARDS:     {"clock_backwards", "a stamp was older than the one before it; the interval counts as empty"},
	rungCounterCOUNT_SAMPLE_LOST:   {"sample_lost", "a clock tick on the target was not counted: the table was full"},
	rungCounterCOUNT_STACK_FULL:    {"stack_table_full", "a sample counts without its stack: the table was full, or the kernel had no memory at hand"},
	rungCounterCOUNT_STACK_FAILED:  {"stack_failed", "a sample counts without a stack: the kernel gave none"},
	rungCounterCOUNT_TREE_FULL:     {"tree_full", "a process of a target's tree was not followed: the table was full"},
	rungCounterCOUNT_STRATUM_LOST:  {"stratum_lost", "a drawn off-CPU interval was not counted: the table was full; others of its stratum stand for it"},
	rungCounterCOUNT_CGROUP_DEEP:   {"cgroup_too_deep", "a cgroup lies too deep below the root to find its target"},
	rungCounterCOUNT_THREADS_FULL:  {"threads_full", "an event of a thread that has no account: there were more threads than --max-threads"},
	rungCounterCOUNT_PROCESS_LOST:  {"process_untold", "a process began, or a program in it, faster than the agent takes note: if it ends early its functions have no names"},
}

// CounterNames lists the names of Counters in a fixed order.
func CounterNames() []string {
	names := make([]string, len(counterNames))
	for i, c := range counterNames {
		names[i] = c.name
	}
	return names
}

// CounterMeaning says what a counter above 0 means for the figures; "" for an unknown name.
func CounterMeaning(name string) string {
	for _, c := range counterNames {
		if c.name == name {
			return c.meaning
		}
	}
	return ""
}

// Counters reads all of them, as totals since Load over all targets.
func (p *Profiler) Counters() (Counters, error) {
	totals := Counters{}
	for i, c := range counterNames {
		var perCPU []uint64
		if err := p.objects.Counters.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("read counter %s: %w", c.name, err)
		}
		for _, n := range perCPU {
			totals[c.name] += n
		}
	}
	return totals, nil
}
