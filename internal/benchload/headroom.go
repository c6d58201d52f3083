//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// headroom counts the steps that call themselves client-limited: of a driver that
// is slow by construction, with a twentieth of a CPU, and of one that is not.
func (b *bench) headroom() error {
	// 50 ms of service time, which the verdict holds lateness against.
	arm, address, err := b.arm("--mode", "loop", "--workers", "64", "--downstream", "50ms")
	if err != nil {
		return err
	}
	defer arm.end()
	args := []string{"--protocol", "rest-h1", "--address", address, "--connections", "64", "--duration", "1s", "--settle", "100ms"}
	with, err := b.ladder(nil, append(args, "--rates", strings.Repeat("200,", 9)+"200")...)
	if err != nil {
		return err
	}
	flagged, why := 0, ""
	for _, r := range with {
		if len(r.ClientLimited) > 0 {
			flagged, why = flagged+1, r.ClientLimited[0].Why
		}
	}
	b.judge("flagged with headroom", float64(flagged), "of 10", "0", flagged == 0 && len(with) == 10, why)

	group, remove, err := quotaGroup(5)
	if err != nil {
		b.missing("flagged without headroom", "of 10", "10", err)
		return nil
	}
	defer remove()
	join := []string{"sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group}
	null, address, err := b.arm("--mode", "null-h1")
	if err != nil {
		return err
	}
	defer null.end()
	without, err := b.ladder(join, "--protocol", "rest-h1", "--address", address, "--connections", "64", "--duration", "1s", "--settle", "100ms", "--timeout", "10s",
		"--connect-timeout", "10s", "--rates", strings.Repeat("4000,", 9)+"4000")
	if err != nil {
		return err
	}
	flagged = 0
	var kinds []string
	for _, r := range without {
		if len(r.ClientLimited) > 0 {
			flagged++
		}
		for _, l := range r.ClientLimited {
			if !slices.Contains(kinds, string(l.Kind)) {
				kinds = append(kinds, string(l.Kind))
			}
		}
	}
	b.judge("flagged without headroom", float64(flagged), "of 10", "10", flagged == 10 && len(without) == 10, fmt.Sprintf("a driver with 5 %% of a CPU at 4,000/s: %s", strings.Join(kinds, ", ")))
	return nil
}

// quotaGroup makes a control group with a quota in percent of a CPU, of whichever
// version has the cpu controller here.
func quotaGroup(percent int) (dir string, remove func(), err error) {
	quota := fmt.Sprint(1000 * percent)
	var reasons []error
	for _, v := range []struct {
		root  string
		files [][2]string
	}{
		{"/sys/fs/cgroup", [][2]string{{"cpu.max", quota + " 100000"}}},
		{"/sys/fs/cgroup/cpu", [][2]string{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", quota}}},
		{"/sys/fs/cgroup/cpu,cpuacct", [][2]string{{"cpu.cfs_period_us", "100000"}, {"cpu.cfs_quota_us", quota}}},
	} {
		if v.files[0][0] == "cpu.max" {
			if _, err := os.Stat(filepath.Join(v.root, "cgroup.subtree_control")); err != nil {
				reasons = append(reasons, err)
				continue
			}
			// It may be on already, or not be ours to turn on: the quota tells.
			_ = os.WriteFile(filepath.Join(v.root, "cgroup.subtree_control"), []byte("+cpu"), 0o644)
		}
		dir := filepath.Join(v.root, fmt.Sprintf("rung-benchload-%d", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			reasons = append(reasons, err)
			continue
		}
		remove := func() { _ = os.Remove(dir) }
		failed := false
		for _, f := range v.files {
			if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
				reasons, failed = append(reasons, err), true
			}
		}
		if !failed {
			return dir, remove, nil
		}
		remove()
	}
	return "", nil, fmt.Errorf("no control group with a CPU quota can be made: %w", errors.Join(reasons...))
}
