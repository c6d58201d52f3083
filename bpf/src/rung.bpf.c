//go:build ignore
// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

/*
 * The kernel side of Rung: which threads belong to a target (target.h), which
 * processes begin in it (process.h), where its threads' time went (account.h),
 * which stacks they ran (sample.h), what kernel addresses are called (symbol.h). This file holds the programs, each a thin
 * wrapper.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "counter.h"
#include "target.h"
#include "process.h"
#include "stack.h"
#include "throttle.h"
#include "reason.h"
#include "stratum.h"
#include "account.h"
#include "sample.h"
#include "park.h"
#include "symbol.h"

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	if (!targets_exist())
		return 0;
	u32 from = slot_of(prev), to = slot_of(next);
	if (!from && !to)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (from)
		switch_out(ctx, prev, from, preempt, now);
	if (to)
		switch_in(next, to, now);
	return 0;
}

SEC("tp_btf/sched_waking")
int BPF_PROG(on_waking, struct task_struct *p)
{
	if (!targets_exist())
		return 0;
	u32 slot = slot_of(p);
	if (slot)
		waking(ctx, p, slot);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(on_wakeup, struct task_struct *p)
{
	if (!targets_exist())
		return 0;
	u32 slot = slot_of(p);
	if (slot)
		wakeup(p, slot, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(on_wakeup_new, struct task_struct *p)
{
	if (!targets_exist())
		return 0;
	u32 slot = slot_of(p);
	if (slot) {
		wakeup_new(p, slot, bpf_ktime_get_ns());
		if (p->pid == p->tgid)
			tell(p, slot);
	}
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *p)
{
	if (!targets_exist())
		return 0;
	u32 slot = slot_of(p);
	if (slot)
		tell(p, slot);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(on_migrate, struct task_struct *p, int cpu)
{
	if (!targets_exist())
		return 0;
	u32 slot = slot_of(p);
	if (slot)
		migrate(p, slot, cpu, bpf_ktime_get_ns());
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	if (tree_count)
		inherit_tree(parent, child);
	return 0;
}

/* Finds the present members of process trees, and gives the threads of every
 * target their account, where allocation cannot fail for context. Run when a
 * target is added. */
SEC("iter/task")
int prepare(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	if (!p || p->exit_state)
		return 0;
	if (tree_count)
		join_tree(p);
	u32 slot = slot_of(p);
	if (slot)
		meet_thread(p, slot);
	return 0;
}

/* Frees the accounts of the target `report_slot`, which is no target any more. */
SEC("iter/task")
int forget(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	if (p)
		forget_thread(p, report_slot);
	return 0;
}

/* Writes the account of every thread of the target `report_slot`. */
SEC("iter/task")
int report(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	if (p && slot_of(p) == report_slot)
		report_thread(ctx->meta->seq, p);
	return 0;
}

/* Takes the stacks of the sleeping threads of the target `report_slot`. */
SEC("iter.s/task")
int park_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *p = ctx->task;
	if (p && slot_of(p) == report_slot)
		park(p, report_slot);
	return 0;
}

SEC("perf_event")
int on_clock(struct perf_context *ctx)
{
	if (!targets_exist())
		return 0;
	struct task_struct *p = bpf_get_current_task_btf();
	u32 slot = slot_of(p);
	if (slot)
		sample(ctx, p, slot, bpf_ktime_get_ns());
	return 0;
}

/* Run from user space: ctx holds a kernel address and takes its name. */
SEC("syscall")
int kernel_name(struct symbol *ctx)
{
	return symbol_name(ctx);
}

char LICENSE[] SEC("license") = "GPL";
