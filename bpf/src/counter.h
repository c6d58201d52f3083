/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* Losses and repairs, counted. Names and meanings stand in counters.go, in this order. */
#pragma once

enum counter {
	COUNT_STORAGE_LOST,  /* no task storage for a target thread */
	COUNT_DEAD_LOST,     /* an ended thread's account did not fit */
	COUNT_REASON_OTHER,  /* an interval under "other": more reasons than slots */
	COUNT_SWITCH_MISSED, /* a switch-in was not seen and was repaired */
	COUNT_OUT_MISSED,    /* a switch-out was not seen and was repaired */
	COUNT_BACKWARDS,     /* a stamp older than the one before it */
	COUNT_SAMPLE_LOST,   /* the table of samples was full */
	COUNT_STACK_FULL,    /* the table of stacks was full */
	COUNT_STACK_FAILED,  /* the kernel gave no stack at all */
	COUNT_TREE_FULL,     /* a process of a tree did not fit */
	COUNT_STRATUM_LOST,  /* a drawn interval did not fit */
	COUNT_CGROUP_DEEP,   /* a cgroup lies deeper than the walk goes */
	COUNT_THREADS_FULL,  /* an event of a thread beyond max_threads */
	COUNT_PROCESS_LOST,  /* a new process was not told of: the ring was full */
	COUNTERS,
};

/* Key: enum counter. Value: events on this CPU. Cannot be full. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, COUNTERS);
	__type(key, u32);
	__type(value, u64);
} counters SEC(".maps");

static __always_inline void count(u32 which)
{
	u64 *n = bpf_map_lookup_elem(&counters, &which);
	if (n)
		*n += 1;
}
