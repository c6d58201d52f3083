/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * How long a run queue has been throttled, with a thread waiting in it.
 *
 * From v6.6 the kernel keeps that as wall time in throttled_clock_self(_time),
 * for quotas of the thread's own group and of any above it: exact. Before, it
 * keeps the PELT clock, which CPU capacity and frequency slow down: a lower
 * bound, and then all of an interval that met throttling is the upper one.
 * v6.18 throttles threads, not queues: a flag of the thread says whether the
 * interval that begins now is throttled at all.
 */
#pragma once

enum {
	THROTTLE_NONE,  /* this kernel has no quotas, or the queue is not known */
	THROTTLE_EXACT, /* clock is wall time */
	THROTTLE_BOUND, /* clock is the PELT clock */
};

struct throttle {
	u64 clock; /* ns throttled so far, open interval included */
	u8 kind;
	u8 possible;   /* the interval that begins here may be throttled */
	u8 from_start; /* and is so from its beginning */
	u8 unsure;     /* what is left to the run queue of this interval may be throttled */
	u8 blind;      /* the queue it begins on cannot be read: nothing is certain */
	u8 pad[3];
};

static __always_inline u64 open_since(u64 now, u64 since)
{
	return since && now > since ? now - since : 0;
}

/* `clock` is the queue's by our reckoning: its own stands still while its CPU is
 * idle, as it is when all that would run there is throttled. 0: not known. */
static __always_inline void read_queue(struct cfs_rq *q, struct throttle *t, u64 clock)
{
	if (!q || !bpf_core_field_exists(q->throttle_count))
		return;
	t->from_start = q->throttle_count > 0;
	if (bpf_core_field_exists(q->throttled_clock_self_time)) {
		t->kind = THROTTLE_EXACT;
		if (q->rq->clock > clock)
			clock = q->rq->clock;
		t->clock = q->throttled_clock_self_time + open_since(clock, q->throttled_clock_self);
	} else if (bpf_core_field_exists(q->throttled_clock_pelt_time)) {
		t->kind = THROTTLE_BOUND;
		t->clock = q->throttled_clock_pelt_time;
		if (t->from_start)
			t->clock += open_since(q->rq->clock_pelt - q->rq->lost_idle_time, q->throttled_clock_pelt);
	}
}

/* Whether throttling can take the thread between now and its next switch-in. */
static __always_inline void read_flags(struct task_struct *p, struct throttle *t)
{
	struct task_struct___throttled *task = (void *)p;
	t->possible = 1;
	if (bpf_core_field_exists(task->throttled))
		t->possible = t->from_start = task->throttled;
}

static __always_inline void read_throttle_at(struct task_struct *p, struct throttle *t, u64 clock)
{
	__builtin_memset(t, 0, sizeof(*t));
	read_queue(p->se.cfs_rq, t, clock);
	read_flags(p, t);
}

/* In an event of the thread, which has set the queue's clock. */
static __always_inline void read_throttle(struct task_struct *p, struct throttle *t)
{
	read_throttle_at(p, t, 0);
}

#define MAX_CPUS 8192 /* of a kernel; the verifier wants a bound */

/* The same of the queue of another CPU, which the thread is about to join. Where
 * threads are throttled, one that is not stays so until it has run; the queue
 * itself is out of reach (v7.0 keeps it per CPU), as it is before v6.2. */
static __always_inline void read_throttle_on(struct task_struct *p, u32 cpu, struct throttle *t)
{
	struct task_struct___throttled *task = (void *)p;

	__builtin_memset(t, 0, sizeof(*t));
	read_flags(p, t);
	t->blind = t->possible;
	if (bpf_core_field_exists(task->throttled) || !bpf_ksym_exists(bpf_rdonly_cast) ||
	    !p->sched_task_group || cpu >= MAX_CPUS)
		return;
	struct list_head *cell = bpf_rdonly_cast((void *)p->sched_task_group->cfs_rq + (u64)cpu * sizeof(void *),
						 bpf_core_type_id_kernel(struct list_head));
	struct cfs_rq *q = bpf_rdonly_cast(cell->next, bpf_core_type_id_kernel(struct cfs_rq));
	read_queue(q, t, 0);
	t->blind = 0;
}

/* Of an interval of `length`, what was throttled for certain. */
static __always_inline u64 throttled_for(struct throttle *from, struct throttle *to, u64 length)
{
	if (from->blind)
		/* A clock at 0 has never run: there is no quota. */
		from->unsure = to->clock || to->from_start;
	if (from->blind || !from->possible || from->kind == THROTTLE_NONE || from->kind != to->kind)
		return 0;
	u64 ns = to->clock > from->clock ? to->clock - from->clock : 0;
	from->unsure = from->kind == THROTTLE_BOUND && (ns || from->from_start || to->from_start);
	return ns < length ? ns : length;
}
