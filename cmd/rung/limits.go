//go:build linux

package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rungprof/rung/agent"
	"github.com/rungprof/rung/bpf"
)

// limitOptions are the flags of what the kernel's tables and a record hold.
type limitOptions struct {
	stackBudget                              int
	maxStacks, maxStrata, maxSamples, maxEnd int
	maxThreads                               int
}

func defaultLimits() limitOptions {
	return limitOptions{
		stackBudget: bpf.DefaultStackBudget, maxStacks: bpf.DefaultMaxStacks, maxStrata: bpf.DefaultMaxStrata,
		maxSamples: bpf.DefaultMaxSamples, maxEnd: bpf.DefaultMaxEnded, maxThreads: agent.DefaultMaxThreads,
	}
}

func (o *limitOptions) addTo(f *pflag.FlagSet) {
	f.IntVar(&o.stackBudget, "stack-budget", o.stackBudget,
		"off-CPU intervals of a thread, state and reason whose stacks are taken before the chance of the next halves, 0 to 1048576; each costs the target about 2 µs; 0: no off-CPU stacks")
	f.IntVar(&o.maxStacks, "max-stacks", o.maxStacks, "distinct stacks held at a time, over all targets; about 4 KiB of kernel memory each; stacks beyond are counted as lost")
	f.IntVar(&o.maxStrata, "max-strata", o.maxStrata, "drawn off-CPU stacks by thread, reason and waker held at a time; about 150 bytes each; those beyond are counted as lost")
	f.IntVar(&o.maxSamples, "max-samples", o.maxSamples, "distinct on-CPU samples (thread, stack, block) held at a time; about 100 bytes each; those beyond are counted as lost")
	f.IntVar(&o.maxEnd, "max-ended", o.maxEnd, "threads that ended within a window and were not read yet; about 1 KiB each; those beyond are counted as lost")
	f.IntVar(&o.maxThreads, "max-threads", o.maxThreads, fmt.Sprintf(
		"threads of a record that have a row of their own, 1 to %d, about 1 kB each in its file; those with the least time other than blocked are summed by thread group beyond", agent.MaxMaxThreads))
}

// maxRows is the largest table that the kernel side takes.
const maxRows = 1 << 22

// Validate says what is wrong with the first wrong limit.
func (o limitOptions) Validate() error {
	for _, limit := range []struct {
		flag            string
		value, low, top int
	}{
		{"--stack-budget", o.stackBudget, 0, 1 << 20},
		{"--max-stacks", o.maxStacks, 1, maxRows},
		{"--max-strata", o.maxStrata, 1, maxRows},
		{"--max-samples", o.maxSamples, 1, maxRows},
		{"--max-ended", o.maxEnd, 1, maxRows},
		{"--max-threads", o.maxThreads, 1, agent.MaxMaxThreads},
	} {
		if limit.value < limit.low || limit.value > limit.top {
			return fmt.Errorf("%s %d is outside %d to %d", limit.flag, limit.value, limit.low, limit.top)
		}
	}
	return nil
}

// kernel is what the kernel side is loaded with.
func (o limitOptions) kernel(rateHz uint32) bpf.Options {
	budget := o.stackBudget
	if budget == 0 {
		budget = -1 // to bpf, 0 is the default
	}
	return bpf.Options{
		RateHz: rateHz, StackBudget: budget, MaxStacks: uint32(o.maxStacks), MaxStrata: uint32(o.maxStrata),
		MaxSamples: uint32(o.maxSamples), MaxEnded: uint32(o.maxEnd),
		MaxThreads: uint32(max(o.maxThreads, bpf.DefaultMaxThreads)), // the record's bound is no reason to lose an account
	}
}
