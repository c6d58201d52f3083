package bpf

// The objects of both architectures are committed; clang 14 and libbpf-dev make them anew.
//go:generate go tool bpf2go -tags linux -target amd64,arm64 -cc clang -cflags "-O2 -g -mcpu=v3 -Wall -Werror" -type thread -type account -type target -type window -type memo -type stack -type frame -type sample_key -type dead_key -type report_head -type symbol -type throttle -type stratum -type stratum_key -type draw -type process rung src/rung.bpf.c
