/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Targets: which slot a thread belongs to, and the windows of each slot.
 *
 * A target is a cgroup with all its descendants, or a process with all its
 * descendants. A slot names one: its low bits are an index, the rest a serial
 * number, so that a slot is never used for two targets. 0 is none.
 */
#pragma once

#define MAX_TARGETS 64
#define SLOT_INDEX(slot) ((slot) & (MAX_TARGETS - 1))
#define CGROUP_DEPTH 16 /* a pod's container lies 4 to 6 deep */
#define TREE_DEPTH 32   /* generations that join_tree looks up */
#define WINDOWS 2       /* one runs while the one before it drains */

struct window {
	u64 start, end; /* CLOCK_MONOTONIC ns; end is ~0 while open */
	u64 block_ns;
	u32 id; /* 0: none. Written last, so that a half-written window is empty. */
	u32 pad;
};

struct target {
	u64 added; /* events before this instant do not count */
	struct window windows[WINDOWS]; /* window id is at [id % WINDOWS] */
};

/* Key: index of a slot. Value: its windows, written by user space. Cannot be full. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TARGETS);
	__type(key, u32);
	__type(value, struct target);
} targets SEC(".maps");

/* Key: v2 id of a target cgroup. Value: slot. Written by user space, which refuses the 65th. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TARGETS);
	__type(key, u64);
	__type(value, u32);
} roots SEC(".maps");

struct memo {
	u32 generation, slot;
};

/* Key: v2 id of any cgroup seen. Value: the slot found by walking up from it, 0
 * included, valid within one generation of targets. A cgroup never moves, so
 * this holds; when full, the least used entry costs another walk. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct memo);
} memos SEC(".maps");

/* Key: tgid of a member of a process tree. Value: slot. Full: COUNT_TREE_FULL.
 * Entries of ended processes are removed when their number is born anew, and
 * by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, u32);
	__type(value, u32);
} trees SEC(".maps");

/* What spares most threads of a host a look into a table at every switch.
 *
 * Processes that may be in `trees`, by the low bits of their number: set with the
 * entry, and cleared by user space when there is no tree, since two numbers may
 * share a bit. */
#define TREE_BITS 65536
u64 tree_bits[TREE_BITS / 64] = {};

/* v2 ids of cgroups that lie in no target, each with the generation in which that
 * was found, in one word: no reader sees half of it. A later one in the same cell
 * replaces it. */
#define OUTSIDE_CELLS 1024
#define OUTSIDE_WORD(id, generation) ((id) << 20 | ((generation) & 0xfffff))
u64 outside[OUTSIDE_CELLS] = {};

volatile u32 cgroup_count = 0; /* targets of each kind */
volatile u32 tree_count = 0;
volatile u32 generation = 1; /* rises whenever the set of cgroup targets changes */

static __always_inline struct target *target_of(u32 slot)
{
	u32 index = SLOT_INDEX(slot);
	return bpf_map_lookup_elem(&targets, &index);
}

static __always_inline bool targets_exist(void)
{
	return cgroup_count || tree_count;
}

/* Walks from a cgroup to the root of the hierarchy; gives the slot of the first target met. */
static __noinline u32 walk_cgroup(struct task_struct *p)
{
	struct cgroup *c = p->cgroups->dfl_cgrp;
#pragma unroll
	for (int i = 0; i < CGROUP_DEPTH; i++) {
		u64 id = c->kn->id;
		u32 *slot = bpf_map_lookup_elem(&roots, &id);
		if (slot)
			return *slot;
		struct cgroup_subsys_state *parent = c->self.parent;
		if (!parent)
			return 0;
		c = parent->cgroup;
	}
	count(COUNT_CGROUP_DEEP);
	return 0;
}

static __always_inline bool may_be_in_tree(u32 tgid)
{
	return *(volatile u64 *)&tree_bits[(tgid & (TREE_BITS - 1)) / 64] >> (tgid & 63) & 1;
}

/* 0, but not known to be: to the verifier, who follows a program once more for each
 * value that it can tell apart, all answers of slot_of are one. */
volatile u32 no_slot = 0;

static __always_inline u32 slot_of(struct task_struct *p)
{
	if (!p->pid)
		return no_slot; /* a CPU's idle thread */
	if (tree_count) {
		u32 tgid = p->tgid, *slot;
		if (may_be_in_tree(tgid) && (slot = bpf_map_lookup_elem(&trees, &tgid)))
			return *slot;
	}
	if (!cgroup_count)
		return no_slot;
	u64 id = p->cgroups->dfl_cgrp->kn->id;
	u32 now = generation;
	u64 *cell = &outside[id & (OUTSIDE_CELLS - 1)], word = OUTSIDE_WORD(id, now);
	if (*(volatile u64 *)cell == word)
		return no_slot;
	struct memo *known = bpf_map_lookup_elem(&memos, &id);
	struct memo found = { .generation = now };
	if (known && known->generation == now) {
		found.slot = known->slot;
	} else {
		found.slot = walk_cgroup(p);
		bpf_map_update_elem(&memos, &id, &found, BPF_ANY);
	}
	if (!found.slot)
		*(volatile u64 *)cell = word;
	return found.slot;
}

static __always_inline void mark_tree(u32 tgid)
{
	__sync_fetch_and_or(&tree_bits[(tgid & (TREE_BITS - 1)) / 64], 1ULL << (tgid & 63));
}

static __always_inline void add_to_tree(u32 tgid, u32 slot)
{
	mark_tree(tgid);
	if (bpf_map_update_elem(&trees, &tgid, &slot, BPF_ANY))
		count(COUNT_TREE_FULL);
}

/* A new process belongs where its parent does; a number used again starts afresh. */
static __always_inline void inherit_tree(struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	if (from == to)
		return;
	u32 *slot = bpf_map_lookup_elem(&trees, &from);
	if (slot)
		add_to_tree(to, *slot);
	else
		bpf_map_delete_elem(&trees, &to);
}

/* Adds the process of p if one of its ancestors is in a tree. */
static __always_inline void join_tree(struct task_struct *p)
{
	u32 own = p->tgid;
	if (bpf_map_lookup_elem(&trees, &own)) {
		mark_tree(own); /* the root, which user space has entered */
		return;
	}
	struct task_struct *up = p;
#pragma unroll
	for (int i = 0; i < TREE_DEPTH; i++) {
		up = up->real_parent;
		if (!up || !up->pid)
			return;
		u32 tgid = up->tgid, *slot = bpf_map_lookup_elem(&trees, &tgid);
		if (slot) {
			add_to_tree(own, *slot);
			return;
		}
	}
}
