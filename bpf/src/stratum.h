/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Off-CPU stacks, sampled in strata.
 *
 * A stratum is (thread, state, reason) within a window; its total is exact
 * (account.h). Of its intervals the first `budget` give their stacks, then every
 * other one for as many again, then every fourth, and so on: the chance halves
 * and never is 0. An interval that is drawn counts with its duration times the
 * inverse of its chance; user space scales the sum to the exact total.
 */
#pragma once

struct stratum_key {
	u32 slot, window, tgid, tid;
	u32 state, reason;
	u32 waker_tgid, waker_tid; /* 0: none, or not known */
	u64 stack, waker_stack;    /* content hashes; 0: lost or none */
};

struct stratum {
	u64 samples;
	u64 weight;  /* Σ duration ÷ chance, ns */
	u64 largest; /* of those summands */
	u64 squares; /* Σ (1 - chance) × summand², in µs²: what its variance is made of */
};

/* Value: drawn intervals with one stack and waker. Full: the large ones go to
 * large_strata; of the others COUNT_STRATUM_LOST, and the remaining stacks of a
 * stratum stand for those that are lost. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct stratum_key);
	__type(value, struct stratum);
} strata SEC(".maps");

/* Of a window so far, an interval that counts as large: a thread has at most as
 * many in a window. */
#define LARGE_SHARE 64

/* The same, of large intervals, once strata is full. Full: COUNT_STRATUM_LOST. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct stratum_key);
	__type(value, struct stratum);
} large_strata SEC(".maps");

const volatile u32 stack_budget = 64; /* 0: no stacks */

/* What is drawn of the open interval of a thread. */
struct draw {
	u64 stack, waker_stack;
	u32 waker_tgid, waker_tid;
	u8 drawn, halvings; /* chance = 1 / 2^halvings */
	u8 pad[6];
};

/* Draws the next interval of a stratum that has given `taken` so far. */
static __always_inline bool draw(u32 taken, struct draw *d)
{
	if (!stack_budget)
		return false;
	u32 halvings = taken / stack_budget;
	if (halvings > 20)
		halvings = 20;
	d->halvings = halvings;
	d->drawn = !(bpf_get_prandom_u32() & ((1u << halvings) - 1));
	return d->drawn;
}

/* The row of a key, made if there is room. */
static __noinline struct stratum *stratum_of(struct stratum_key *key, bool large)
{
	struct stratum zero = {}, *s = bpf_map_lookup_elem(&strata, key);
	if (s)
		return s;
	if (!bpf_map_update_elem(&strata, key, &zero, BPF_NOEXIST))
		return bpf_map_lookup_elem(&strata, key);
	s = bpf_map_lookup_elem(&large_strata, key);
	if (s || !large || bpf_map_update_elem(&large_strata, key, &zero, BPF_NOEXIST))
		return s;
	return bpf_map_lookup_elem(&large_strata, key);
}

/* Adds `ns` of a drawn interval to a window. */
static __noinline int add_drawn(struct stratum_key *key, u64 ns, u32 halvings, bool large)
{
	u64 weight = ns << (halvings & 31);
	u64 us = weight / 1000;
	u64 square = us > 3000000000ULL ? ~0ULL / 2 : us * us;

	square -= square >> (halvings & 31);
	struct stratum *s = stratum_of(key, large);
	if (!s) {
		count(COUNT_STRATUM_LOST);
		return 0;
	}
	/* A key holds one thread, whose events are serial; its waker's stack aside. */
	s->samples += 1;
	s->weight += weight;
	s->squares += square;
	if (weight > s->largest)
		s->largest = weight;
	return 0;
}
