//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * What Rung's programs are held against: programs that do nothing, on the same
 * hooks, and one that takes the kernel's and the user's stack at every switch of
 * a process, as tools do that do not sample them.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define BPF_MAP_TYPE_STACK_TRACE 7
#define DEPTH 127

volatile u32 full_tgid = 0; /* the process whose stacks are taken; 0: none */

struct off_key {
	u32 tid;
	s32 kernel_stack, user_stack;
};

struct off_start {
	u64 at;
	struct off_key key;
};

/* Key: stack id. Value: addresses. Two stacks of one hash: the newer is dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(max_entries, 8192);
	__uint(key_size, sizeof(u32));
	__uint(value_size, DEPTH * sizeof(u64));
} full_stacks SEC(".maps");

/* Key: tid. Value: when it left the CPU, and with which stacks. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u32);
	__type(value, struct off_start);
} full_starts SEC(".maps");

/* Value: ns off the CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, struct off_key);
	__type(value, u64);
} full_times SEC(".maps");

SEC("tp_btf/sched_switch")
int BPF_PROG(empty_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(empty_waking, struct task_struct *p)
{
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(empty_wakeup, struct task_struct *p)
{
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(full_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u32 of = full_tgid;

	if (of && prev->tgid == of) {
		struct off_start s = { .at = bpf_ktime_get_ns() };
		s.key.tid = prev->pid;
		s.key.kernel_stack = bpf_get_stackid(ctx, &full_stacks, 0);
		s.key.user_stack = bpf_get_stackid(ctx, &full_stacks, BPF_F_USER_STACK);
		bpf_map_update_elem(&full_starts, &s.key.tid, &s, BPF_ANY);
	}
	if (of && next->tgid == of) {
		u32 tid = next->pid;
		struct off_start *s = bpf_map_lookup_elem(&full_starts, &tid);
		if (!s)
			return 0;
		struct off_key key = s->key;
		u64 ns = bpf_ktime_get_ns() - s->at, *sum = bpf_map_lookup_elem(&full_times, &key);
		bpf_map_delete_elem(&full_starts, &tid);
		if (sum)
			*sum += ns;
		else
			bpf_map_update_elem(&full_times, &key, &ns, BPF_NOEXIST);
	}
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
