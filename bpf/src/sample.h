/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * On-CPU sampling: each clock tick that finds a target thread within a window
 * is counted under (thread, stack, block). Nothing per sample reaches user space.
 */
#pragma once

struct sample_key {
	u32 slot, window;
	u32 tgid, tid;
	u32 block;
	s32 syscall; /* -1 outside any */
	u32 in_kernel, pad;
	u64 stack; /* content hash; 0: lost */
};

/* Value: samples. A step has a few thousand; full: COUNT_SAMPLE_LOST. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct sample_key);
	__type(value, u64);
} samples SEC(".maps");

static __always_inline void sample(struct perf_context *ctx, struct task_struct *p, u32 slot, u64 now)
{
	struct target *t = target_of(slot);
	if (!t)
		return;
	struct sample_key key = { .slot = slot, .tgid = p->tgid, .tid = p->pid, .syscall = -1 };
#pragma unroll
	for (int i = 0; i < WINDOWS; i++) {
		struct window *w = &t->windows[i];
		if (w->id && now >= w->start && now < w->end && w->block_ns) {
			key.window = w->id;
			key.block = (now - w->start) / w->block_ns;
		}
	}
	if (!key.window)
		return;
	key.in_kernel = IN_KERNEL(ctx);
	if (key.in_kernel) {
		struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(p);
		s32 nr = regs ? SYSCALL_NR(regs) : -1;
		key.syscall = nr < 0 ? -1 : nr;
	}
	key.stack = take_stack(ctx, key.in_kernel, now);

	u64 one = 1, *n = bpf_map_lookup_elem(&samples, &key);
	if (n) {
		__sync_fetch_and_add(n, 1);
		return;
	}
	if (!bpf_map_update_elem(&samples, &key, &one, BPF_NOEXIST))
		return;
	n = bpf_map_lookup_elem(&samples, &key); /* another CPU was faster, or it is full */
	if (n)
		__sync_fetch_and_add(n, 1);
	else
		count(COUNT_SAMPLE_LOST);
}
