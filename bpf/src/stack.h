/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Stacks, kept once each under a hash of their content.
 */
#pragma once

#define MAX_FRAMES 127  /* perf_event_max_stack; the helper walks no further */
#define STACK_FRAMES 256 /* both halves, and a power of two to mask with */

enum frame_kind { FRAME_NONE, FRAME_KERNEL, FRAME_NATIVE, FRAME_ERROR };

struct frame {
	u64 value;
	u32 extra;
	u8 kind;
	u8 pad[3];
};

enum stack_flag {
	STACK_KERNEL_TRUNCATED = 1,
	STACK_USER_TRUNCATED = 2,
	STACK_USER_MISSING = 4,
};

struct stack {
	u64 last_used; /* CLOCK_MONOTONIC ns of the latest sample: what may be dropped */
	u32 frames_used, flags;
	struct frame frames[STACK_FRAMES]; /* leaf first: kernel, then user */
};

/* Key: content hash. Value: a stack of 4 KiB. Allocated ahead, as every table
 * that grows with interrupts off: the allocator keeps few pieces of that size
 * at hand, and a burst of new stacks would find none. 8,192 of them are 33 MiB;
 * full: COUNT_STACK_FULL, and the sample counts without a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 8192);
	__type(key, u64);
	__type(value, struct stack);
} stacks SEC(".maps");

struct scratch {
	u64 addresses[MAX_FRAMES + 1];
	struct stack stack;
};

/* Room for one walk per CPU. The clock does not interrupt the scheduler's
 * programs, which run with interrupts off, nor do these nest. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct scratch);
} scratches SEC(".maps");

/* Appends one half of a stack; gives the hash with it mixed in. */
static __noinline u64 append(struct scratch *s, u32 bytes, u32 kind, u64 hash)
{
	u32 n = bytes / 8, at = s->stack.frames_used;
	for (u32 i = 0; i < MAX_FRAMES; i++) {
		if (i >= n)
			break;
		u64 address = s->addresses[i];
		struct frame *f = &s->stack.frames[at & (STACK_FRAMES - 1)];
		f->value = address;
		f->extra = 0;
		f->kind = kind;
		at++;
		/* Any full-period mixer will do; this one is splitmix64's multiplier. */
		hash = (hash ^ address) * 0xbf58476d1ce4e5b9ULL;
		hash ^= hash >> 29;
	}
	s->stack.frames_used = at;
	return (hash ^ kind) * 0x94d049bb133111ebULL;
}

static __always_inline u64 start_stack(struct scratch *s, u64 now)
{
	s->stack.last_used = now;
	s->stack.frames_used = 0;
	s->stack.flags = 0;
	return 0x9e3779b97f4a7c15ULL;
}

/* Puts a walked stack into the table, unless it is there; gives its hash, or 0. */
static __noinline u64 keep_stack(struct scratch *s, u64 hash, u64 now)
{
	if (!s->stack.frames_used) {
		count(COUNT_STACK_FAILED);
		return 0;
	}
	hash = (hash ^ s->stack.flags) | 1; /* never 0 */
	struct stack *known = bpf_map_lookup_elem(&stacks, &hash);
	if (known) {
		known->last_used = now;
		return hash;
	}
	/* Entries past frames_used hold an earlier walk's: no reader looks there. */
	if (bpf_map_update_elem(&stacks, &hash, &s->stack, BPF_NOEXIST) &&
	    !bpf_map_lookup_elem(&stacks, &hash)) {
		count(COUNT_STACK_FULL);
		return 0;
	}
	return hash;
}

/* Walks the current thread's stack into the table of stacks; gives its hash, or 0. */
static __always_inline u64 take_stack(void *ctx, bool in_kernel, u64 now)
{
	u32 zero = 0;
	struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);
	if (!s)
		return 0;
	const u32 room = MAX_FRAMES * 8;
	u64 hash = start_stack(s, now);

	if (in_kernel) {
		long n = bpf_get_stack(ctx, s->addresses, room, 0);
		if (n > 0 && n <= room) {
			if (n == room)
				s->stack.flags |= STACK_KERNEL_TRUNCATED;
			hash = append(s, n, FRAME_KERNEL, hash);
		}
	}
	long n = bpf_get_stack(ctx, s->addresses, room, BPF_F_USER_STACK);
	if (n > 0 && n <= room) {
		if (n == room)
			s->stack.flags |= STACK_USER_TRUNCATED;
		hash = append(s, n, FRAME_NATIVE, hash);
	} else {
		s->stack.flags |= STACK_USER_MISSING;
	}
	return keep_stack(s, hash, now);
}
