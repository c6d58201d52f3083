package cgroup

import (
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/procfs"
)

// Mounts are the absolute directories at which cgroup hierarchies are seen.
type Mounts struct {
	V2 string            // empty: none mounted
	V1 map[string]string // by controller
}

// Modes of a host. Hybrid has a v2 hierarchy, with controllers on v1.
const (
	ModeV2     = "v2"
	ModeHybrid = "hybrid"
	ModeV1     = "v1"
	ModeNone   = "none"
)

// Mode classifies the host by where its CPU controllers are.
func (m Mounts) Mode() string {
	v1 := m.V1["cpu"] != "" || m.V1["cpuacct"] != "" || m.V1["memory"] != ""
	switch {
	case m.V2 != "" && v1:
		return ModeHybrid
	case m.V2 != "":
		return ModeV2
	case v1:
		return ModeV1
	}
	return ModeNone
}

// Detect finds the hierarchies in PROC/self/mountinfo. A hierarchy that is
// mounted several times is taken where its own root is seen, so that paths of
// /proc/PID/cgroup apply; the mount point never is assumed, because on hybrid
// hosts /sys/fs/cgroup is a tmpfs, where a reader finds nothing and no error.
func Detect(proc string) (Roots, error) {
	tree, err := procfs.NewFS(proc)
	if err != nil {
		return Roots{}, fmt.Errorf("detect cgroup mounts: %w", err)
	}
	mounts, err := tree.GetMounts()
	if err != nil {
		return Roots{}, fmt.Errorf("detect cgroup mounts: parse %s/self/mountinfo: %w", proc, err)
	}
	found := Roots{Proc: proc, Mounts: Mounts{V1: map[string]string{}}}
	whole := map[string]bool{} // hierarchies whose own root has been seen
	take := func(name string, mount *procfs.MountInfo, into func(string)) {
		if whole[name] {
			return
		}
		whole[name] = mount.Root == "/"
		into(unescape(mount.MountPoint))
	}
	for _, mount := range mounts {
		switch mount.FSType {
		case "cgroup2":
			take("", mount, func(dir string) { found.V2 = dir })
		case "cgroup":
			for _, controller := range []string{"cpu", "cpuacct", "memory"} {
				if _, has := mount.SuperOptions[controller]; has {
					take(controller, mount, func(dir string) { found.V1[controller] = dir })
				}
			}
		}
	}
	if found.Mode() == ModeNone {
		return Roots{}, errors.New("detect cgroup mounts: none found; mount one: mount -t cgroup2 none /sys/fs/cgroup")
	}
	return found, nil
}

// unescape undoes mountinfo's octal escapes for space, tab, newline and backslash.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace
