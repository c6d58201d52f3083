/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * The kernel types in use, for CO-RE, and what differs between kernels and
 * architectures. Everything here is read by typed loads through BTF pointers:
 * bpf_probe_read_kernel is refused under lockdown=confidentiality, so neither
 * it nor BPF_CORE_READ may be called (a test scans the objects).
 */
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;
/* The names that libbpf's headers expect. */
typedef u8 __u8;
typedef u16 __u16;
typedef u32 __u32;
typedef u64 __u64;
typedef short __s16;
typedef s32 __s32;
typedef s64 __s64;
typedef u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;
#define true 1
#define false 0

enum {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};
enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_NO_PREALLOC = 1, BPF_F_USER_STACK = 256 };
enum { BPF_LOCAL_STORAGE_GET_F_CREATE = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct kernfs_node {
	u64 id;
};
struct cgroup;
struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};
struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};
struct css_set {
	struct cgroup *dfl_cgrp;
};
struct rq {
	u64 clock, clock_pelt;
	unsigned long lost_idle_time;
};
struct cfs_rq {
	struct rq *rq;
	int throttle_count;
	/* v5.19: in the PELT clock, which CPU capacity and frequency scale. */
	u64 throttled_clock_pelt, throttled_clock_pelt_time;
	/* v6.6, 677ea015f231 ("sched: add throttled time stat for throttled children"): wall. */
	u64 throttled_clock_self, throttled_clock_self_time;
};
struct task_group {
	struct cfs_rq **cfs_rq;
};
struct sched_entity {
	struct cfs_rq *cfs_rq;
	u64 sum_exec_runtime;
	/* v6.12, 152e11f6df29 ("sched/fair: Implement delayed dequeue"): asleep, and
	 * on the queue still. */
	unsigned char sched_delayed;
};
struct sched_info {
	unsigned long long last_arrival;
};
struct inode {
	u16 i_mode;
};
struct qstr {
	const unsigned char *name;
};
struct dentry {
	struct qstr d_name;
};
struct path {
	struct dentry *dentry;
};
struct file {
	struct path f_path;
	struct inode *f_inode;
};
struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};
struct files_struct {
	struct fdtable *fdt;
};
struct timespec64 {
	s64 tv_sec;
};
struct task_struct {
	int pid, tgid;
	unsigned int flags, __state;
	/* Both were an int until v7.0 made them a byte: read the low one, which a
	 * little-endian int has first. */
	u8 on_rq, on_cpu;
	int exit_state;
	u64 start_time;
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_info sched_info;
	struct task_struct *real_parent;
	struct task_group *sched_task_group;
	struct files_struct *files;
	unsigned int frozen : 1; /* by its v2 cgroup, which uses no state of its own */
	char comm[16];
};
/* v6.18, e1fad12dcb66 ("sched/fair: Switch to task based throttle model"). */
struct task_struct___throttled {
	bool throttled;
};
struct list_head {
	struct list_head *next;
};
#define bpf_ksym_exists(symbol) (!!(symbol))
/* Reads through a bare address, by a typed load; v6.2. */
extern void *bpf_rdonly_cast(const void *address, u32 type) __attribute__((section(".ksyms"), weak));
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id, seq_num;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#if defined(__TARGET_ARCH_x86)
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define SYSCALL_NR(regs) ((s32)(regs)->orig_ax)
#define FRAME_POINTER(regs) ((regs)->bp)
#define INSTRUCTION(regs) ((regs)->ip)
#define STRIP_POINTER(address) (address)
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs {
	u64 regs[31], sp, pc, pstate, orig_x0;
	s32 syscallno;
};
#define SYSCALL_NR(regs) ((regs)->syscallno)
#define FRAME_POINTER(r) ((r)->regs[29])
#define INSTRUCTION(regs) ((regs)->pc)
/* Pointer authentication keeps its code above the address: 48 bits, as user space has on Talos. */
#define STRIP_POINTER(address) ((address) & ((1ULL << 48) - 1))
#else
#error "amd64 and arm64 only"
#endif

#pragma clang attribute pop

/* The context of a perf_event program; its layout is UAPI. */
#if defined(__TARGET_ARCH_x86)
struct perf_context {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	u64 ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
	u64 sample_period, addr;
};
/* The two low bits of cs are the privilege level. */
#define IN_KERNEL(ctx) (((ctx)->cs & 3) == 0)
#else
struct perf_context {
	u64 regs[31], sp, pc, pstate;
	u64 sample_period, addr;
};
/* PSTATE.M is 0 at EL0. */
#define IN_KERNEL(ctx) (((ctx)->pstate & 0xf) != 0)
#endif

#define PF_KTHREAD 0x00200000
#define TASK_UNINTERRUPTIBLE 0x0002
#define TASK_STOPPED_OR_TRACED 0x000c
#define TASK_DEAD 0x0080
/* v6.1, f5d39b020809 ("freezer,sched: Rewrite core freezer logic"). */
#define TASK_FROZEN 0x8000
