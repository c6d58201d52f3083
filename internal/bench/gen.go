//go:build linux

package main

// The objects of both architectures are committed; clang 14 and libbpf-dev make them anew.
//go:generate go tool bpf2go -tags linux -target amd64,arm64 -cc clang -cflags "-O2 -g -mcpu=v3 -Wall -Werror -I../../bpf/src" yardstick bpf/yardstick.bpf.c
