//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungprof/rung/agent/cgroup"
)

// quotaRequirement is the one a demo without a quota can do without.
const quotaRequirement = "CFS quota controller"

// cgroups gives the lines about targets and quotas.
func (h host) cgroups() []requirement {
	member := requirement{Name: "cgroup v2 hierarchy"}
	quota := requirement{Name: quotaRequirement}
	roots, err := cgroup.Detect(h.path("proc"))
	if err != nil {
		const remedy = "mount /proc and the cgroup v2 hierarchy"
		return []requirement{member.missing(err.Error(), remedy), quota.missing("not looked for", remedy)}
	}
	mounts := roots.Mounts
	if mounts.V2 == "" {
		member = member.missing("not mounted", "mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified (targets are told apart by their v2 id)")
	} else if err := h.writable(h.path(mounts.V2)); err != nil {
		member = member.missing(fmt.Sprintf("%s: %v", mounts.V2, err),
			"run as root with the hierarchy mounted read-write (the demo makes a cgroup for each arm; the agent alone only reads)")
	} else {
		member.Found, member.Status = mounts.V2, statusOK
	}
	return []requirement{member, h.quotaController(quota, mounts)}
}

// quotaController looks for cpu on v1 first: a controller that a v1 hierarchy
// holds cannot be on v2.
func (h host) quotaController(r requirement, mounts cgroup.Mounts) requirement {
	if dir := mounts.V1["cpu"]; dir != "" {
		file := filepath.Join(dir, "cpu.cfs_quota_us")
		if _, err := os.Stat(h.path(file)); err != nil {
			return r.missing("no "+file, "boot a kernel built with CONFIG_CFS_BANDWIDTH=y")
		}
		if err := h.writable(h.path(dir)); err != nil {
			return r.missing(fmt.Sprintf("%s: %v", dir, err), "run as root with the hierarchy mounted read-write")
		}
		r.Found, r.Status = "v1 cpu at "+dir, statusOK
		return r
	}
	if mounts.V2 == "" {
		return r.missing("neither v1 nor v2", "mount the cgroup v2 hierarchy")
	}
	// Children of the root get the controllers that its subtree_control lists.
	// It is not ours to change: that would regroup every other process's CPU share.
	file := filepath.Join(mounts.V2, "cgroup.subtree_control")
	data, err := os.ReadFile(h.path(file))
	if err != nil {
		return r.missing(err.Error(), "mount the whole cgroup v2 hierarchy")
	}
	if !slices.Contains(strings.Fields(string(data)), "cpu") {
		return r.missing(file+" does not list cpu", "echo +cpu > "+file+" (or run the demo with --quota 0, without a quota)")
	}
	r.Found, r.Status = "v2 cpu at "+mounts.V2, statusOK
	return r
}
