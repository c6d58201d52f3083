/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/*
 * Kernel names without /proc/kallsyms: the kernel's own formatter knows them,
 * also under kptr_restrict=2 and lockdown=confidentiality.
 */
#pragma once

#define NAME_LEN 128

struct symbol {
	u64 address;
	char name[NAME_LEN]; /* "name+0x12/0x34 [module]", or the address if it has none */
};

static const char symbol_format[] = "%pS";

static __always_inline int symbol_name(struct symbol *s)
{
	u64 address = s->address;
	char name[NAME_LEN] = {}; /* the formatter refuses the context as its buffer */
	long n = bpf_snprintf(name, sizeof(name), symbol_format, &address, sizeof(address));
#pragma unroll
	for (int i = 0; i < NAME_LEN / 8; i++)
		((u64 *)s->name)[i] = ((u64 *)name)[i];
	return n;
}
