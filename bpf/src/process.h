/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Processes of targets that begin, or begin another program: user space is told
 * at once, for what names their addresses is gone with them.
 */
#pragma once

struct process {
	u32 slot, tgid;
};

/* 8,192 processes of 8 bytes and a head of as much; full: COUNT_PROCESS_LOST. A
 * multiple of every page size. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 128 * 1024);
	__type(value, struct process);
} processes SEC(".maps");

/* Tells of the process of p while its target has a window. */
static __always_inline void tell(struct task_struct *p, u32 slot)
{
	struct target *t = target_of(slot);
	if (!t || !(t->windows[0].id | t->windows[1].id))
		return;
	struct process is = { .slot = slot, .tgid = p->tgid };
	if (bpf_ringbuf_output(&processes, &is, sizeof(is), 0))
		count(COUNT_PROCESS_LOST);
}
