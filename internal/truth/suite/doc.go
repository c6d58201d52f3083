// Package suite answers whether the account of package bpf is true: it runs
// workloads whose answer is known by construction or logged by themselves on
// their own clocks, and holds the account against them, with the scheduler's
// own sums (schedstat, rusage, cpu.stat) beside it. It names no layer and looks
// at no stack but those of its own workloads.
//
// It needs root, Linux 6.1 and, for all of its cases, two CPUs, the CPU
// controller and a cgroup v2 hierarchy that can be written. Cases run one after the other.
package suite
