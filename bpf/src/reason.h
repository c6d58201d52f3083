/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Why a thread sleeps: its syscall, the kind of object it waits on, and whether
 * it set a limit to the wait. All of it comes from the registers with which it
 * entered the kernel, and from its table of open files; no symbol is read.
 */
#pragma once

/* Reasons beside syscalls, in the place of the number; shared with reason.go. */
#define REASON_FAULT 0x7ff1
#define REASON_DISK 0x7ff2
#define REASON_KERNEL 0x7ff3
#define REASON_OTHER 0x7ff4
#define REASON_NONE 0x7fff /* of states that need none */

enum object {
	OBJECT_NONE, /* the syscall takes no file, or this kernel does not let it be read */
	OBJECT_SOCKET,
	OBJECT_PIPE,
	OBJECT_FILE,
	OBJECT_DEVICE,
	OBJECT_EVENTFD,
	OBJECT_TIMERFD,
	OBJECT_EPOLL,
	OBJECT_INOTIFY,
	OBJECT_ANON, /* another anonymous inode */
};

/* number | object << 16 | limited << 24 */
static __always_inline u32 make_reason(u32 number, u32 object, bool limited)
{
	return (number & 0xffff) | object << 16 | (u32)limited << 24;
}

/* Syscall numbers by architecture; 0xffff where it lacks one. */
#if defined(__TARGET_ARCH_x86)
enum {
	NR_read = 0, NR_write = 1, NR_poll = 7, NR_pread64 = 17, NR_pwrite64 = 18, NR_readv = 19,
	NR_writev = 20, NR_select = 23, NR_nanosleep = 35, NR_sendfile = 40, NR_connect = 42,
	NR_accept = 43, NR_sendto = 44, NR_recvfrom = 45, NR_sendmsg = 46, NR_recvmsg = 47,
	NR_flock = 73, NR_fsync = 74, NR_fdatasync = 75, NR_rt_sigtimedwait = 128, NR_futex = 202,
	NR_io_getevents = 208, NR_clock_nanosleep = 230, NR_epoll_wait = 232, NR_ppoll = 271,
	NR_pselect6 = 270, NR_epoll_pwait = 281, NR_accept4 = 288, NR_recvmmsg = 299,
	NR_sendmmsg = 307, NR_epoll_pwait2 = 441, NR_futex_waitv = 449, NR_futex_wait = 455,
};
#define ARG0(r) ((r)->di)
#define ARG1(r) ((r)->si)
#define ARG2(r) ((r)->dx)
#define ARG3(r) ((r)->r10)
#define ARG4(r) ((r)->r8)
#else
enum {
	NR_flock = 32, NR_read = 63, NR_write = 64, NR_readv = 65, NR_writev = 66, NR_pread64 = 67,
	NR_pwrite64 = 68, NR_sendfile = 71, NR_pselect6 = 72, NR_ppoll = 73, NR_fsync = 82,
	NR_fdatasync = 83, NR_futex = 98, NR_nanosleep = 101, NR_clock_nanosleep = 115,
	NR_rt_sigtimedwait = 137, NR_accept = 202, NR_connect = 203, NR_sendto = 206,
	NR_recvfrom = 207, NR_sendmsg = 211, NR_recvmsg = 212, NR_epoll_pwait = 22,
	NR_accept4 = 242, NR_recvmmsg = 243, NR_sendmmsg = 269, NR_io_getevents = 4,
	NR_epoll_pwait2 = 441, NR_futex_waitv = 449, NR_futex_wait = 455,
	NR_poll = 0xffff, NR_select = 0xfffe, NR_epoll_wait = 0xfffd,
};
#define ARG0(r) ((r)->orig_x0)
#define ARG1(r) ((r)->regs[1])
#define ARG2(r) ((r)->regs[2])
#define ARG3(r) ((r)->regs[3])
#define ARG4(r) ((r)->regs[4])
#endif

static __always_inline bool is_limited(struct pt_regs *r, u32 nr)
{
	switch (nr) {
	case NR_nanosleep:
	case NR_clock_nanosleep:
		return true;
	case NR_futex: /* a pointer to a time, for the operations that wait */
	case NR_futex_waitv:
		return ARG3(r) != 0;
	case NR_epoll_wait:
	case NR_epoll_pwait: /* milliseconds, or -1 */
		return (s32)ARG3(r) >= 0;
	case NR_epoll_pwait2:
		return ARG3(r) != 0;
	case NR_poll:
		return (s32)ARG2(r) >= 0;
	case NR_ppoll:
	case NR_rt_sigtimedwait:
		return ARG2(r) != 0;
	case NR_select:
	case NR_pselect6:
	case NR_recvmmsg:
	case NR_futex_wait:
	case NR_io_getevents:
		return ARG4(r) != 0;
	}
	return false;
}

/* Whether the first argument is a file to wait on. */
static __always_inline bool takes_file(u32 nr)
{
	switch (nr) {
	case NR_read: case NR_write: case NR_readv: case NR_writev: case NR_pread64: case NR_pwrite64:
	case NR_sendfile: case NR_connect: case NR_accept: case NR_accept4: case NR_sendto:
	case NR_recvfrom: case NR_sendmsg: case NR_recvmsg: case NR_recvmmsg: case NR_sendmmsg:
	case NR_flock: case NR_fsync: case NR_fdatasync:
		return true;
	}
	return false;
}

#define S_IFMT 0170000
#define MAX_FILES (1u << 24) /* per process; the verifier wants a bound */

/* "[eventfd]" and its like, as the first eight bytes of a name, little-endian. */
#define NAME8(a, b, c, d, e, f, g, h) \
	((u64)a | (u64)b << 8 | (u64)c << 16 | (u64)d << 24 | (u64)e << 32 | (u64)f << 40 | (u64)g << 48 | (u64)h << 56)

/* The kind of an open file. Reads through bare addresses, v6.2 and later. */
static __always_inline u32 object_of(struct task_struct *p, u32 fd)
{
	if (!bpf_ksym_exists(bpf_rdonly_cast) || !p->files)
		return OBJECT_NONE;
	struct fdtable *table = p->files->fdt;
	if (!table || fd >= table->max_fds || fd >= MAX_FILES)
		return OBJECT_NONE;
	struct list_head *cell = bpf_rdonly_cast((void *)table->fd + (u64)fd * sizeof(void *),
						 bpf_core_type_id_kernel(struct list_head));
	void *at = cell->next;
	if (!at)
		return OBJECT_NONE;
	struct file *file = bpf_rdonly_cast(at, bpf_core_type_id_kernel(struct file));
	switch (file->f_inode->i_mode & S_IFMT) {
	case 0140000:
		return OBJECT_SOCKET;
	case 0010000:
		return OBJECT_PIPE;
	case 0100000:
	case 0040000:
		return OBJECT_FILE;
	case 0020000:
	case 0060000:
		return OBJECT_DEVICE;
	}
	struct timespec64 *name = bpf_rdonly_cast((void *)file->f_path.dentry->d_name.name,
						  bpf_core_type_id_kernel(struct timespec64));
	switch ((u64)name->tv_sec) {
	case NAME8('[', 'e', 'v', 'e', 'n', 't', 'f', 'd'):
		return OBJECT_EVENTFD;
	case NAME8('[', 't', 'i', 'm', 'e', 'r', 'f', 'd'):
		return OBJECT_TIMERFD;
	case NAME8('[', 'e', 'v', 'e', 'n', 't', 'p', 'o'):
		return OBJECT_EPOLL;
	case NAME8('i', 'n', 'o', 't', 'i', 'f', 'y', 0):
		return OBJECT_INOTIFY;
	}
	return OBJECT_ANON;
}

static __always_inline u32 block_reason(struct task_struct *p, u32 state)
{
	if (p->flags & PF_KTHREAD)
		return make_reason(REASON_KERNEL, 0, false);
	struct pt_regs *r = (struct pt_regs *)bpf_task_pt_regs(p);
	s32 nr = r ? SYSCALL_NR(r) : -1;
	if (nr < 0)
		return make_reason(state & TASK_UNINTERRUPTIBLE ? REASON_DISK : REASON_FAULT, 0, false);
	return make_reason(nr, takes_file(nr) ? object_of(p, ARG0(r)) : OBJECT_NONE, is_limited(r, nr));
}
