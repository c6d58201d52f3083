//go:build linux

package bpf

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// onlineCPUs lists the CPUs that run now. One brought up later is not sampled.
func onlineCPUs() ([]int, error) {
	const path = "/sys/devices/system/cpu/online"
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cpus, err := parseCPUList(string(text))
	if err != nil {
		return nil, fmt.Errorf("parse %s: %w", path, err)
	}
	return cpus, nil
}

// parseCPUList reads the kernel's list format, "0-3,8": ascending, at most 8,192 CPUs.
func parseCPUList(text string) ([]int, error) {
	var cpus []int
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := strconv.Atoi(first)
		if err != nil {
			return nil, fmt.Errorf("CPU list %q: %w", text, err)
		}
		hi := lo
		if isRange {
			if hi, err = strconv.Atoi(last); err != nil {
				return nil, fmt.Errorf("CPU list %q: %w", text, err)
			}
		}
		if lo < 0 || hi < lo || hi >= 8192 || (len(cpus) > 0 && lo <= cpus[len(cpus)-1]) {
			return nil, fmt.Errorf("CPU list %q: range %q out of order or of bounds", text, part)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
