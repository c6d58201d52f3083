/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The account: where each thread's wall time went, per window.
 *
 * A thread is always in one state, since one instant. Each scheduler event ends
 * the interval and credits it to the windows it overlaps. What is still open
 * when a window is read is closed at its edge by user space. One writer at a
 * time: the scheduler's locks serialise the events of a thread. Readers check
 * `seq`, which is odd while a thread is being changed.
 */
#pragma once

#define REASONS 12 /* blocked reasons per thread and window; the last is "other" */

enum state {
	STATE_UNKNOWN, /* awake when met, no event since: the first one proves what it was */
	STATE_ON_CPU,
	STATE_RUN_QUEUE,
	STATE_BLOCKED,
	STATE_STOPPED, /* by signal, tracer or freezer */
	STATE_DEAD,
	STATE_THROTTLED, /* a part of a runnable interval; no thread enters it */
};

struct blocked {
	u64 ns;
	u32 intervals;
	u32 reason; /* see reason.h */
	u32 taken;  /* intervals drawn for their stack */
	u32 used;
};

struct account {
	u32 window; /* id; of any other window the content is stale */
	u32 pad;
	u64 on_cpu_wall, on_cpu_charged, run_queue, stopped; /* ns */
	s64 on_cpu_skew, run_queue_skew; /* ns, see credit_skew */
	u64 throttled, throttled_slack; /* ns known to be throttled; of run_queue, what may be */
	u64 switches, wakeups;
	u32 run_queue_taken, pad2;
	struct blocked blocked[REASONS];
};

struct thread {
	u64 seq;
	u32 slot, state;
	u32 reason; /* of the open interval, when blocked */
	u32 tgid;
	u32 tid, pad;
	struct draw draw; /* of the open interval */
	u64 parked_since, parked_stack; /* of one that was open when a window began */
	u32 parked, pad3; /* what ends now is that one */
	u64 since;    /* start of the open interval */
	s64 skew;     /* then: our clock less the run queue's */
	u64 born;     /* when the thread could first run */
	u64 exec;     /* se.sum_exec_runtime at `since` of an on-CPU interval */
	struct throttle throttle; /* at `since` of a runnable interval */
	u64 start_ns; /* the kernel's start_time: identity */
	char comm[16];
	struct account accounts[WINDOWS];
};

const volatile u32 max_threads = 65536;
volatile u32 thread_count = 0; /* that have an account */

/* Value: account of one thread. At most max_threads, more: COUNT_THREADS_FULL;
 * an allocation that fails is COUNT_STORAGE_LOST. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct dead_key {
	u32 slot, tid;
	u64 start_ns;
};

/* Key: an ended thread. Value: its last account, until its windows are read.
 * 16,384 threads may end per window and not be lost; more: COUNT_DEAD_LOST. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct dead_key);
	__type(value, struct thread);
} dead SEC(".maps");

volatile u32 report_slot = 0; /* the target that the next report is about */

static __always_inline void lock(struct thread *th)
{
	__sync_fetch_and_add(&th->seq, 1);
}
#define unlock lock

static __noinline struct thread *add_thread(struct task_struct *p)
{
	struct thread *th = 0;
	/* Counted first: other CPUs add threads too. */
	if (__sync_fetch_and_add(&thread_count, 1) >= max_threads)
		count(COUNT_THREADS_FULL);
	else if (!(th = bpf_task_storage_get(&threads, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE)))
		count(COUNT_STORAGE_LOST);
	if (!th)
		__sync_fetch_and_sub(&thread_count, 1);
	return th;
}

/* Frees the account of a thread whose target is removed. */
static __always_inline void forget_thread(struct task_struct *p, u32 slot)
{
	struct thread *th = bpf_task_storage_get(&threads, p, 0, 0);
	if (th && th->slot == slot && !bpf_task_storage_delete(&threads, p))
		__sync_fetch_and_sub(&thread_count, 1);
}

#define SLOT_NONE ~0u /* of an account that is being made: nobody's yet */

/* Makes an account anew for a target. An iterator does so at any moment of a
 * thread's life: who comes second, while it is being made, goes without. */
static __always_inline bool begin_account(struct thread *th, struct task_struct *p, u32 slot)
{
	struct target *t = target_of(slot);
	u32 before = th->slot;
	if (!t || before == SLOT_NONE || __sync_val_compare_and_swap(&th->slot, before, SLOT_NONE) != before)
		return false;
	lock(th);
	th->state = STATE_UNKNOWN;
	th->tgid = p->tgid;
	th->tid = p->pid;
	th->draw.drawn = 0;
	th->start_ns = p->start_time;
	th->born = p->start_time;
	th->since = t->added > p->start_time ? t->added : p->start_time;
	th->skew = 0;
	th->exec = p->se.sum_exec_runtime;
	th->parked_since = 0;
	read_throttle(p, &th->throttle); /* of an interval that is open already */
	for (int i = 0; i < WINDOWS; i++)
		th->accounts[i].window = 0;
	return true;
}

static __always_inline void publish_account(struct thread *th, u32 slot)
{
	unlock(th);
	__sync_lock_test_and_set(&th->slot, slot); /* after all of the above, on every CPU */
}

/* The account of the thread that an event is about. */
static __always_inline struct thread *thread_of(struct task_struct *p, u32 slot, bool create)
{
	struct thread *th = bpf_task_storage_get(&threads, p, 0, 0);
	if (!th && create)
		th = add_thread(p);
	if (!th || th->slot == slot)
		return th;
	if (!begin_account(th, p, slot))
		return 0;
	publish_account(th, slot);
	return th;
}

/* The place of a reason in an account: its own, or the last one for all others. */
static __always_inline struct blocked *blocked_of(struct account *a, u32 reason)
{
	for (int i = 0; i < REASONS - 1; i++) {
		struct blocked *b = &a->blocked[i];
		if (!b->used) {
			b->used = 1;
			b->reason = reason;
		}
		if (b->reason == reason)
			return b;
	}
	struct blocked *other = &a->blocked[REASONS - 1];
	other->used = 1;
	other->reason = REASON_OTHER;
	return other;
}

/* The account of window i, emptied if it held another's. */
static __always_inline struct account *account_of(struct thread *th, struct window *w, int i)
{
	struct account *a = &th->accounts[i];
	if (a->window != w->id) {
		__builtin_memset(a, 0, sizeof(*a));
		a->window = w->id;
	}
	return a;
}

/* The part of `charged` that falls to `part` of `whole`; ns, without overflow. */
static __always_inline u64 share(u64 charged, u64 part, u64 whole)
{
	if (part >= whole)
		return charged;
	if (whole < 1ULL << 30)
		return charged * part / whole;
	if (whole < 1ULL << 36) /* 68 s: exact to a microsecond */
		return (charged >> 10) * part / (whole >> 10);
	return (charged >> 20) * (part >> 10) / (whole >> 30);
}

/* Credits the open interval, up to `now`, to each window it overlaps. */
static __noinline int credit(struct thread *th, struct target *t, u64 now, u64 charged)
{
	u64 since = th->since;
	u32 state = th->state;
#pragma unroll
	for (int i = 0; i < WINDOWS; i++) {
		struct window *w = &t->windows[i];
		u64 from = since > w->start ? since : w->start;
		u64 to = now < w->end ? now : w->end;
		if (!w->id || to <= from)
			continue;
		struct account *a = account_of(th, w, i);
		u64 ns = to - from;
		u32 reason = REASON_NONE;
		if (state == STATE_ON_CPU) {
			a->on_cpu_wall += ns;
			a->on_cpu_charged += share(charged, ns, now - since);
			if (to == now)
				a->switches++;
		} else if (state == STATE_RUN_QUEUE) {
			a->run_queue += ns;
			if (th->throttle.unsure)
				a->throttled_slack += ns;
		} else if (state == STATE_THROTTLED) {
			a->throttled += ns;
		} else if (state == STATE_STOPPED) {
			a->stopped += ns;
		} else if (state == STATE_BLOCKED) {
			struct blocked *b = blocked_of(a, th->reason);
			b->ns += ns;
			b->intervals++;
			reason = b->reason;
			if (reason == REASON_OTHER)
				count(COUNT_REASON_OTHER);
			if (to == now)
				a->wakeups++;
		}
		bool parked = th->parked && state != STATE_STOPPED;
		if ((th->draw.drawn || parked) && state != STATE_ON_CPU) {
			struct stratum_key key = {
				.slot = th->slot, .window = w->id, .tgid = th->tgid, .tid = th->tid,
				.state = state, .reason = reason,
				.waker_tgid = th->draw.waker_tgid, .waker_tid = th->draw.waker_tid,
				.stack = parked ? th->parked_stack : th->draw.stack,
				.waker_stack = th->draw.waker_stack,
			};
			add_drawn(&key, ns, parked ? 0 : th->draw.halvings, ns > (to - w->start) / LARGE_SHARE);
		}
	}
	return 0;
}

/* The scheduler stamps its own figures with the run queue's clock, which it sets
 * when it begins to choose the next thread, or at the wakeup before; the switch
 * comes microseconds later. Adds to the window that `now` lies in by how much
 * the interval is longer on that clock: what to add to on_cpu_wall to get what
 * is charged, and to run_queue with throttled to get schedstat's wait. */
static __always_inline void credit_skew(struct thread *th, struct target *t, u64 now, s64 skew)
{
#pragma unroll
	for (int i = 0; i < WINDOWS; i++) {
		struct window *w = &t->windows[i];
		struct account *a = &th->accounts[i];
		if (!w->id || a->window != w->id || now < w->start || now >= w->end)
			continue;
		if (th->state == STATE_ON_CPU)
			a->on_cpu_skew += th->skew - skew;
		else if (th->state == STATE_RUN_QUEUE)
			a->run_queue_skew += th->skew - skew;
	}
}

/* Our clock less that of the thread's run queue, whose origin is its own. */
static __always_inline s64 queue_skew(struct task_struct *p, u64 now)
{
	struct cfs_rq *q = p->se.cfs_rq;
	return q ? (s64)(now - q->rq->clock) : 0;
}

/* Ends a runnable interval: the queue's throttle clock says how much of it was
 * throttled, the flags of its beginning on which side that lies. */
static __noinline int credit_runnable(struct thread *th, struct target *t, u64 now,
				      struct throttle *end)
{
	u64 length = now - th->since;
	u64 known = throttled_for(&th->throttle, end, length);

	if (!known) {
		credit(th, t, now, 0);
	} else if (th->throttle.from_start) {
		u64 until = th->since + known;
		th->state = STATE_THROTTLED;
		credit(th, t, until, 0);
		th->state = STATE_RUN_QUEUE;
		th->since = until;
		credit(th, t, now, 0);
	} else {
		u64 from = now - known;
		credit(th, t, from, 0);
		th->state = STATE_THROTTLED;
		th->since = from;
		credit(th, t, now, 0);
	}
	return 0;
}

/* Ends the open interval and begins one in `state`. */
static __always_inline void turn(struct thread *th, struct task_struct *p, u32 slot, u32 state,
				 u64 now, u64 charged)
{
	struct target *t = target_of(slot);
	if (!t)
		return;
	struct throttle throttle = {};
	th->parked = th->parked_since == th->since;
	if (th->state == STATE_RUN_QUEUE || state == STATE_RUN_QUEUE)
		read_throttle(p, &throttle);
	if (now < th->since)
		count(COUNT_BACKWARDS);
	else if (th->state == STATE_RUN_QUEUE)
		credit_runnable(th, t, now, &throttle);
	else if (now > th->since)
		credit(th, t, now, charged);
	s64 skew = queue_skew(p, now);
	if (th->skew && skew)
		credit_skew(th, t, now, skew);
	if (state == STATE_RUN_QUEUE)
		th->throttle = throttle;
	th->state = state;
	th->since = now;
	th->skew = skew;
}

/* What a thread that is off the CPU and not runnable is in. */
static __always_inline u32 asleep_in(struct task_struct *task, u32 state)
{
	if (state & (TASK_STOPPED_OR_TRACED | TASK_FROZEN))
		return STATE_STOPPED;
	if (bpf_core_field_exists(task->frozen) && BPF_CORE_READ_BITFIELD(task, frozen))
		return STATE_STOPPED;
	return STATE_BLOCKED;
}

/* A thread off the CPU that is on no queue either; else it is preempted on its way
 * to sleep, which another CPU may end at this moment. */
static __always_inline bool is_asleep(struct task_struct *p)
{
	if (p->on_cpu)
		return false;
	return !p->on_rq || (bpf_core_field_exists(p->se.sched_delayed) && p->se.sched_delayed);
}

/* What the kernel has a thread in. */
static __always_inline u32 state_now(struct task_struct *p)
{
	u32 state = p->__state;
	if (p->exit_state)
		return STATE_DEAD;
	if (p->on_cpu)
		return STATE_ON_CPU;
	return state && is_asleep(p) ? asleep_in(p, state) : STATE_RUN_QUEUE;
}

/* The account of a thread that an iterator visits. One that sleeps is known to,
 * so that the event which ends its sleep needs no guess; of any other the first
 * event tells. One woken between the look and the publication is repaired by its
 * next switch, and counted. */
static __always_inline struct thread *meet_thread(struct task_struct *p, u32 slot)
{
	struct thread *th = bpf_task_storage_get(&threads, p, 0, 0);
	if (!th)
		th = add_thread(p);
	if (!th || th->slot == slot)
		return th;
	if (!begin_account(th, p, slot))
		return 0;
	u32 state = state_now(p);
	if (state == STATE_BLOCKED)
		th->reason = block_reason(p, p->__state);
	if (state == STATE_BLOCKED || state == STATE_STOPPED)
		th->state = state;
	publish_account(th, slot);
	return th;
}

/* Whether a window that has not been read yet holds something of this thread. */
static __always_inline bool in_a_window(struct thread *th, u32 slot)
{
	struct target *t = target_of(slot);
	if (!t)
		return false;
	for (int i = 0; i < WINDOWS; i++)
		if (t->windows[i].id && th->accounts[i].window == t->windows[i].id)
			return true;
	return false;
}

/* The scheduler's own stamp of the last switch-in, for one that was not seen. */
static __always_inline u64 last_arrival(struct task_struct *p, u64 now)
{
	struct cfs_rq *queue = p->se.cfs_rq;
	if (!queue)
		return now;
	u64 clock = queue->rq->clock, arrival = p->sched_info.last_arrival;
	return clock > arrival ? now - (clock - arrival) : now;
}

/* Draws the interval that begins now, in a window, and takes its stack. */
static __noinline int draw_interval(void *ctx, struct thread *th, struct target *t, u64 now)
{
	th->draw.drawn = 0;
#pragma unroll
	for (int i = 0; i < WINDOWS; i++) {
		struct window *w = &t->windows[i];
		if (!w->id || now < w->start || now >= w->end)
			continue;
		struct account *a = account_of(th, w, i);
		u32 *taken = th->state == STATE_BLOCKED ? &blocked_of(a, th->reason)->taken : &a->run_queue_taken;
		if (!draw(*taken, &th->draw))
			continue;
		*taken += 1;
		th->draw.waker_tgid = th->draw.waker_tid = 0;
		th->draw.waker_stack = 0;
		th->draw.stack = take_stack(ctx, true, now);
	}
	return 0;
}

static __always_inline void switch_out(void *ctx, struct task_struct *p, u32 slot, bool preempt, u64 now)
{
	struct thread *th = thread_of(p, slot, true);
	if (!th)
		return;
	lock(th);
	if (th->state == STATE_UNKNOWN) {
		th->state = STATE_ON_CPU;
	} else if (th->state != STATE_ON_CPU) {
		count(COUNT_SWITCH_MISSED);
		u64 at = last_arrival(p, now);
		th->skew = 0; /* no reading of the queue's clock belongs to that switch */
		if (at > th->since)
			turn(th, p, slot, STATE_ON_CPU, at, 0);
		else
			th->state = STATE_ON_CPU;
		th->skew = 0;
	}
	u64 exec = p->se.sum_exec_runtime;
	u64 charged = exec > th->exec ? exec - th->exec : 0;
	th->exec = exec;
	u32 state = p->__state;
	if (state & TASK_DEAD) {
		turn(th, p, slot, STATE_DEAD, now, charged);
		__builtin_memcpy(th->comm, p->comm, sizeof(th->comm));
		unlock(th);
		__sync_fetch_and_sub(&thread_count, 1);
		if (!in_a_window(th, slot))
			return;
		struct dead_key key = { .slot = slot, .tid = p->pid, .start_ns = th->start_ns };
		if (bpf_map_update_elem(&dead, &key, th, BPF_ANY))
			count(COUNT_DEAD_LOST);
		return;
	}
	if (preempt || !state) {
		turn(th, p, slot, STATE_RUN_QUEUE, now, charged);
	} else if (asleep_in(p, state) == STATE_STOPPED) {
		turn(th, p, slot, STATE_STOPPED, now, charged);
	} else {
		turn(th, p, slot, STATE_BLOCKED, now, charged);
		th->reason = block_reason(p, state);
	}
	struct target *t = target_of(slot);
	if (t && th->state != STATE_STOPPED)
		draw_interval(ctx, th, t, now);
	unlock(th);
}

static __always_inline void switch_in(struct task_struct *p, u32 slot, u64 now)
{
	struct thread *th = thread_of(p, slot, true);
	if (!th)
		return;
	u64 exec = p->se.sum_exec_runtime, charged = 0;
	lock(th);
	if (th->state == STATE_UNKNOWN) {
		th->state = STATE_RUN_QUEUE;
	} else if (th->state == STATE_ON_CPU) {
		/* The switch-out was not seen: it ran for what it was charged, then waited. */
		count(COUNT_OUT_MISSED);
		charged = exec > th->exec ? exec - th->exec : 0;
		u64 until = th->since + charged;
		th->skew = 0; /* as in switch_out */
		if (until < now) {
			turn(th, p, slot, STATE_RUN_QUEUE, until, charged);
			charged = 0;
		}
		th->skew = 0;
	} else if (th->state == STATE_BLOCKED || th->state == STATE_STOPPED) {
		count(COUNT_SWITCH_MISSED);
	}
	turn(th, p, slot, STATE_ON_CPU, now, charged);
	th->exec = exec;
	th->draw.drawn = 0;
	unlock(th);
}

/* Who ends a drawn interval: the current thread, or an interrupt on top of it,
 * which its stack tells. The wakeup itself may run on the sleeper's CPU. */
static __always_inline void waking(void *ctx, struct task_struct *p, u32 slot)
{
	struct thread *th = thread_of(p, slot, false);
	if (!th || th->state != STATE_BLOCKED || (!th->draw.drawn && th->parked_since != th->since))
		return;
	struct task_struct *waker = bpf_get_current_task_btf();
	th->draw.waker_tgid = waker->tgid;
	th->draw.waker_tid = waker->pid;
	th->draw.waker_stack = take_stack(ctx, true, bpf_ktime_get_ns());
}

static __always_inline void wakeup(struct task_struct *p, u32 slot, u64 now)
{
	struct thread *th = thread_of(p, slot, false);
	/* Woken before it slept, or while preempted on its way to sleep: no transition. */
	if (!th || (th->state != STATE_BLOCKED && th->state != STATE_STOPPED))
		return;
	lock(th);
	turn(th, p, slot, STATE_RUN_QUEUE, now, 0);
	if (th->parked) /* the wait to run, too, is where it slept */
		th->parked_since = now;
	th->draw.waker_tgid = th->draw.waker_tid = 0;
	th->draw.waker_stack = 0;
	unlock(th);
}

static __always_inline void wakeup_new(struct task_struct *p, u32 slot, u64 now)
{
	struct thread *th = thread_of(p, slot, true);
	if (!th)
		return;
	lock(th);
	th->born = now;
	th->since = now;
	th->state = STATE_RUN_QUEUE;
	th->skew = queue_skew(p, now);
	read_throttle(p, &th->throttle);
	unlock(th);
}

/* A runnable thread changes queues: what it waited on the old one is settled
 * there. Load balancing moves nothing out of or into a throttled queue. */
static __always_inline void migrate(struct task_struct *p, u32 slot, int cpu, u64 now)
{
	struct thread *th = thread_of(p, slot, false);
	if (!th || th->state != STATE_RUN_QUEUE)
		return;
	lock(th);
	turn(th, p, slot, STATE_RUN_QUEUE, now, 0);
	if (th->parked)
		th->parked_since = now;
	read_throttle_on(p, cpu, &th->throttle);
	unlock(th);
}

/* One thread in the stream of a report; user space mirrors it in report.go. */
struct report_head {
	u64 now, seq, exec, start_ns;
	struct throttle throttle; /* now, of the thread's queue */
	u32 tid, tgid, state, has_account;
	u32 reason, pad;
	char comm[16];
};

/* A use of the types that only user space and the stream know, for their BTF. */
struct report_head *report_head_type __attribute__((unused));
enum counter counter_type __attribute__((unused));
enum state state_type __attribute__((unused));

/* Writes head, account (if any) and the sequence number again: a reader takes
 * the record only where all three sequence numbers are the same and even. */
static __always_inline void report_thread(struct seq_file *out, struct task_struct *p)
{
	struct thread *th = bpf_task_storage_get(&threads, p, 0, 0);
	struct report_head head = {};
	u32 state = p->__state;

	head.has_account = th != 0;
	if (th)
		head.seq = __sync_fetch_and_add(&th->seq, 0);
	head.tid = p->pid;
	head.tgid = p->tgid;
	head.start_ns = p->start_time;
	head.exec = p->se.sum_exec_runtime;
	__builtin_memcpy(head.comm, p->comm, sizeof(head.comm));
	head.state = state_now(p);
	if (!th && thread_count >= max_threads)
		head.state = STATE_UNKNOWN; /* events may have gone by uncounted */
	head.reason = block_reason(p, state);
	head.now = bpf_ktime_get_ns();
	read_throttle_at(p, &head.throttle, th && th->skew ? head.now - th->skew : 0);
	bpf_seq_write(out, &head, sizeof(head));
	if (!th)
		return;
	bpf_seq_write(out, th, sizeof(*th));
	u64 seq = __sync_fetch_and_add(&th->seq, 0);
	bpf_seq_write(out, &seq, sizeof(seq));
}
