/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Stacks of threads that are off the CPU already when a window opens: they make
 * no event in it, or only the one that ends this. Run by user space just after
 * the edge.
 */
#pragma once

/* Room for one walk: only `park` uses it, one run at a time. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} park_scratch SEC(".maps");

struct frame_record {
	u64 next, caller;
};

/* Walks the frame pointers of a thread off the CPU; gives the bytes of addresses. */
static __always_inline u32 walk_user(struct task_struct *p, struct scratch *s)
{
	struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(p);
	if (!r || p->flags & PF_KTHREAD)
		return 0;
	u64 at = FRAME_POINTER(r);
	s->addresses[0] = INSTRUCTION(r);
	u32 n = 1;
	for (; n < MAX_FRAMES; n++) {
		struct frame_record f;
		if (!at || at & 7 || bpf_copy_from_user_task(&f, sizeof(f), (void *)at, p, 0))
			break;
		if (!f.caller)
			break;
		s->addresses[n] = STRIP_POINTER(f.caller);
		if (f.next <= at) {
			n++;
			break;
		}
		at = f.next;
	}
	return n * sizeof(u64);
}

static __always_inline void park(struct task_struct *p, u32 slot)
{
	struct thread *th = meet_thread(p, slot);
	u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&park_scratch, &zero);
	if (!th || !s || p->on_cpu || p->exit_state)
		return;
	u64 since = th->since, now = bpf_ktime_get_ns();
	if (th->state != STATE_BLOCKED && th->state != STATE_RUN_QUEUE && th->state != STATE_UNKNOWN)
		return;
	u64 hash = start_stack(s, now);
	long n = bpf_get_task_stack(p, s->addresses, MAX_FRAMES * sizeof(u64), 0);
	if (n > 0 && n <= MAX_FRAMES * (long)sizeof(u64))
		hash = append(s, n, FRAME_KERNEL, hash);
	u32 bytes = walk_user(p, s);
	if (bytes)
		hash = append(s, bytes, FRAME_NATIVE, hash);
	else
		s->stack.flags |= STACK_USER_MISSING;
	/* Tied to the interval: if that has ended meanwhile, it says nothing. */
	th->parked_stack = keep_stack(s, hash, now);
	th->parked_since = since;
}
