package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	v1stats "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
)

// The figures of this file need no exact instant: they are read beside the
// edge, through containerd/cgroups. That library answers 0 for a file it cannot
// open, so each file is opened here first and its absence told.

// MemoryBytes is the memory charged to the group now. It is absent, with a
// warning, where the memory controller does not count the group on its own.
func (r *Reader) MemoryBytes() Figure {
	if r.roots.V2 != "" {
		file := filepath.Join(r.roots.Dir(r.group), "memory.current")
		err := readable(file)
		if err == nil {
			manager, err := cgroup2.Load(r.group, cgroup2.WithMountpoint(r.roots.V2))
			if err != nil {
				r.warn("no memory figure: %v", err)
				return Figure{}
			}
			stat, err := manager.StatFiltered(cgroup2.StatMemory)
			if err != nil {
				r.warn("no memory figure: %v", err)
				return Figure{}
			}
			r.source("cgroup2 memory.current")
			return Known(stat.GetMemory().GetUsage())
		}
		if r.roots.V1["memory"] == "" {
			r.warn("no memory figure: %v", err)
			return Figure{}
		}
	}
	return r.memoryV1()
}

func (r *Reader) memoryV1() Figure {
	at, err := r.roots.locate("memory", r.group)
	if err != nil {
		r.warn("no memory figure: %v", err)
		return Figure{}
	}
	if at.shared {
		r.warn("no memory figure: other processes too are in v1 memory:%s", at.group)
		return Figure{}
	}
	// The library finds the controller by its name below a common parent.
	mount := r.roots.V1["memory"]
	if filepath.Base(mount) != string(cgroup1.Memory) {
		r.warn("no memory figure: the v1 memory hierarchy is mounted at %s, not at a directory named memory", mount)
		return Figure{}
	}
	var stat v1stats.Metrics
	controller := cgroup1.NewMemory(filepath.Dir(mount), cgroup1.IgnoreModules("memsw", "kmem", "kmem.tcp"))
	if err := controller.Stat(at.group, &stat); err != nil {
		r.warn("no memory figure: %v", err)
		return Figure{}
	}
	r.source("v1 memory.usage_in_bytes")
	return Known(stat.GetMemory().GetUsage().GetUsage())
}

// PressureSomeUsec is the running total of CPU pressure "some". v1 has none.
func (r *Reader) PressureSomeUsec() Figure {
	if r.roots.V2 == "" {
		r.warn("no CPU pressure: cgroup v1 has none")
		return Figure{}
	}
	file := filepath.Join(r.roots.Dir(r.group), "cpu.pressure")
	if err := readable(file); err != nil {
		r.warn("no CPU pressure: %v", err)
		return Figure{}
	}
	manager, err := cgroup2.Load(r.group, cgroup2.WithMountpoint(r.roots.V2))
	if err != nil {
		r.warn("no CPU pressure: %v", err)
		return Figure{}
	}
	stat, err := manager.StatFiltered(cgroup2.StatCPU)
	if err != nil {
		r.warn("no CPU pressure: %v", err)
		return Figure{}
	}
	if stat.GetCPU().GetPSI().GetSome() == nil {
		r.warn("no CPU pressure: %s is switched off (see cgroup.pressure, boot parameter psi=1)", file)
		return Figure{}
	}
	r.source("cgroup2 cpu.pressure")
	return Known(stat.GetCPU().GetPSI().GetSome().GetTotal())
}

// Quota is the tightest CFS limit on the group, its own or an ancestor's; a
// warning tells when it is an ancestor's, whose throttling the group's own
// counters need not show. It answers false when there is none, or, with a
// warning, when it cannot be read.
func (r *Reader) Quota() (Quota, bool) {
	dir, group, read, source := r.roots.Dir(r.group), r.group, quotaV2, "cgroup2 cpu.max"
	if r.v1cpu != nil {
		dir, group, read, source = r.v1cpu.dir, r.v1cpu.group, quotaV1, "v1 cpu.cfs_quota_us"
	} else if r.roots.V2 == "" {
		return Quota{}, false // locate has warned
	}
	var tightest Quota
	var holder string
	for level, at := dir, group; ; level, at = filepath.Dir(level), filepath.Dir(at) {
		quota, limited, err := read(level)
		switch {
		case err != nil && at == group && !(at == "/" && missing(err)):
			r.warn("no quota: %v", err)
		case err == nil:
			r.source(source)
			if limited && (holder == "" || quota.CPUs() < tightest.CPUs()) {
				tightest, holder = quota, at
			}
		}
		if at == "/" {
			break
		}
	}
	if holder != "" && holder != group {
		r.warn("the quota of %.3g CPUs is that of the ancestor %s; throttling there is counted in its cpu.stat, not in the target's", tightest.CPUs(), holder)
	}
	return tightest, holder != ""
}

func quotaV2(dir string) (Quota, bool, error) {
	file, err := os.Open(filepath.Join(dir, "cpu.max"))
	if err != nil {
		return Quota{}, false, err
	}
	defer file.Close()
	quota, limited, err := ParseQuota(file)
	if err != nil {
		return Quota{}, false, fmt.Errorf("parse %s: %w", file.Name(), err)
	}
	return quota, limited, nil
}

func quotaV1(dir string) (Quota, bool, error) {
	limit, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
	if err != nil {
		return Quota{}, false, err
	}
	period, err := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
	if err != nil {
		return Quota{}, false, err
	}
	quota, limited, err := makeQuota(strings.TrimSpace(string(limit)), strings.TrimSpace(string(period)), "-1")
	if err != nil {
		return Quota{}, false, fmt.Errorf("parse %s: %w", filepath.Join(dir, "cpu.cfs_quota_us"), err)
	}
	return quota, limited, nil
}
