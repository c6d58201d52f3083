package loadgen

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ownGroups are the cgroups that bound this process: that of the cpu controller,
// in either version, and the v2 group whose pressure is read. The zero value
// knows none.
type ownGroups struct {
	// quota lists the directories of the cpu controller from the own group up.
	quota    []string
	v2       bool   // of quota
	unified  string // own v2 directory, "" without one
	absent   map[string]string
	affinity int // CPUs; 0 unknown
}

// findOwnGroups looks once; a process that is moved later is judged by where it was.
func findOwnGroups() *ownGroups {
	own := &ownGroups{absent: map[string]string{}}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		own.affinity = set.Count()
	}
	if err := own.find(); err != nil {
		own.absent["cgroup"] = err.Error()
	}
	return own
}

func (o *ownGroups) find() error {
	self, err := procfs.Self()
	if err != nil {
		return err
	}
	groups, err := self.Cgroups()
	if err != nil {
		return err
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		return err
	}
	for _, g := range groups {
		switch {
		case g.HierarchyID == 0:
			dir, top := groupDir(mounts, g, "cgroup2", "")
			if dir == "" {
				continue
			}
			o.unified = dir
			if _, err := os.Stat(filepath.Join(dir, "cpu.max")); err == nil {
				o.quota, o.v2 = upTo(dir, top), true
			}
		case slices.Contains(g.Controllers, "cpu"):
			if dir, top := groupDir(mounts, g, "cgroup", "cpu"); dir != "" {
				o.quota, o.v2 = upTo(dir, top), false
			}
		}
	}
	return nil
}

// groupDir is a group's directory and its hierarchy's mount point, "" where the
// mount does not reach the group.
func groupDir(mounts []*procfs.MountInfo, g procfs.Cgroup, fsType, controller string) (dir, top string) {
	for _, m := range mounts {
		if m.FSType != fsType {
			continue
		}
		if _, has := m.SuperOptions[controller]; controller != "" && !has {
			continue
		}
		rel, err := filepath.Rel(m.Root, g.Path)
		if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		return filepath.Join(m.MountPoint, rel), m.MountPoint
	}
	return "", ""
}

func upTo(dir, top string) []string {
	var chain []string
	for ; strings.HasPrefix(dir, top); dir = filepath.Dir(dir) {
		chain = append(chain, dir)
		if dir == top {
			break
		}
	}
	return chain
}

// allowance is how many CPUs this process may use.
func (o *ownGroups) allowance() float64 {
	cpus := float64(runtime.GOMAXPROCS(0))
	if o.affinity > 0 {
		cpus = math.Min(cpus, float64(o.affinity))
	}
	for _, dir := range o.quota {
		if q, ok := readQuota(dir, o.v2); ok {
			cpus = math.Min(cpus, q)
		}
	}
	return cpus
}

// readQuota is a group's quota in CPUs; false where it has none.
func readQuota(dir string, v2 bool) (float64, bool) {
	var quota, period string
	if v2 {
		b, _ := os.ReadFile(filepath.Join(dir, "cpu.max"))
		quota, period, _ = strings.Cut(strings.TrimSpace(string(b)), " ")
	} else {
		b, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_quota_us"))
		p, _ := os.ReadFile(filepath.Join(dir, "cpu.cfs_period_us"))
		quota, period = strings.TrimSpace(string(b)), strings.TrimSpace(string(p))
	}
	q, err := strconv.ParseFloat(quota, 64)
	p, errPeriod := strconv.ParseFloat(period, 64)
	if err != nil || errPeriod != nil || q <= 0 || p <= 0 {
		return 0, false // "max", -1, or no such file: the root has none
	}
	return q / p, true
}

// throttled sums over the own group and those above; nil without a quota.
func (o *ownGroups) throttled() *throttleCount {
	var sum *throttleCount
	for _, dir := range o.quota {
		if _, ok := readQuota(dir, o.v2); !ok {
			continue
		}
		stat := readFlat(filepath.Join(dir, "cpu.stat"))
		if sum == nil {
			sum = &throttleCount{}
		}
		sum.periods = max(sum.periods, stat["nr_periods"])
		sum.throttled += stat["nr_throttled"]
	}
	return sum
}

// readFlat reads a file of "key value" lines; what it lacks is 0.
func readFlat(path string) map[string]uint64 {
	out := map[string]uint64{}
	b, _ := os.ReadFile(path)
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			out[key] = n
		}
	}
	return out
}

// pressure is the total of the own group's "some" line, nil where there is none
// of the driver alone.
func (o *ownGroups) pressure() *time.Duration {
	total, err := ownPressure(o.unified, os.Getpid())
	if err != nil {
		o.absent["cpuPressure"] = err.Error()
		return nil
	}
	delete(o.absent, "cpuPressure")
	return &total
}

// ownPressure refuses a group whose pressure is also that of others: the root's
// is the host's, and a group that holds the arm rises when the arm is throttled.
func ownPressure(dir string, pid int) (time.Duration, error) {
	if dir == "" {
		return 0, errors.New("no cgroup v2")
	}
	// The root is the one group without this file.
	if _, err := os.Stat(filepath.Join(dir, "cgroup.events")); err != nil {
		return 0, errors.New("the driver is in the root cgroup, whose pressure is the host's")
	}
	procs, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return 0, err
	}
	if lines := strings.Fields(string(procs)); len(lines) != 1 || lines[0] != strconv.Itoa(pid) {
		return 0, fmt.Errorf("the driver shares its cgroup with %d other processes", max(len(lines)-1, 0))
	}
	below, err := filepath.Glob(filepath.Join(dir, "*", "cgroup.events"))
	if err != nil {
		return 0, err
	}
	for _, events := range below {
		if readFlat(events)["populated"] != 0 {
			return 0, errors.New("other groups run below the driver's cgroup")
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "cpu.pressure"))
	if err != nil {
		return 0, err
	}
	return parsePressure(b)
}

// parsePressure reads the total of the line "some avg10=0.00 … total=12345", in µs.
func parsePressure(b []byte) (time.Duration, error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "some ")
		if !ok {
			continue
		}
		for _, field := range strings.Fields(rest) {
			if text, ok := strings.CutPrefix(field, "total="); ok {
				us, err := strconv.ParseInt(text, 10, 64)
				if err != nil || us < 0 {
					return 0, fmt.Errorf("cpu.pressure: total %q", text)
				}
				return time.Duration(us) * time.Microsecond, nil
			}
		}
	}
	return 0, fmt.Errorf("cpu.pressure: no total of some in %q", b)
}

// absences is a copy of what could not be had, nil without any.
func (o *ownGroups) absences() map[string]string {
	if len(o.absent) == 0 {
		return nil
	}
	out := map[string]string{}
	for k, v := range o.absent {
		out[k] = v
	}
	return out
}
