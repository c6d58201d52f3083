package cgroup

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// figures is all that a reader gives, absent ones as nil.
type figures struct {
	Usage, User, System, Periods, Throttled, ThrottledUsec, Memory, Pressure *uint64
	Quota                                                                    float64
	// Warn holds a part of each warning, in order.
	Warn []string
}

func u(v uint64) *uint64 { return &v }

func TestReader(t *testing.T) {
	for _, test := range []struct {
		name, mode, group string
		files             map[string]string
		want              figures
	}{
		{"v2 pod with containers", ModeV2, "/pod", pureV2, figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(10), Throttled: u(4), ThrottledUsec: u(777),
			Memory: u(4096), Pressure: u(1234), Quota: 0.5}},
		{"v2 quota of an ancestor", ModeV2, "/pod/c1", pureV2, figures{
			Usage: u(3900), User: u(2950), System: u(950), Periods: u(9), Throttled: u(1), ThrottledUsec: u(5), Quota: 0.5,
			Warn: []string{"/pod/c1/memory.current", "/pod/c1/cpu.pressure", "that of the ancestor /pod"}}},
		{"v2 without the cpu controller", ModeV2, "/besteffort", pureV2, figures{
			Usage: u(1), User: u(1), System: u(0),
			Warn: []string{"echo +cpu > ", "/besteffort/memory.current", "/besteffort/cpu.pressure", "/besteffort/cpu.max"}}},
		{"v2 root", ModeV2, "/", pureV2, figures{
			Usage: u(900000), User: u(1), System: u(2),
			Warn: []string{"cg/memory.current", "cg/cpu.pressure"}}},
		{"hybrid, pod in the same place on v1", ModeHybrid, "/pod", hybrid, figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(10), Throttled: u(4), ThrottledUsec: u(777),
			Memory: u(8192), Quota: 0.4,
			Warn: []string{"cpu.pressure"}}},
		{"hybrid, no process yet", ModeHybrid, "/pod", with(hybrid, "proc/71/cgroup", "", "cg/unified/pod/c1/cgroup.procs", "",
			"cg/cpu/pod/c1/cgroup.procs", "", "cg/memory/pod/c1/cgroup.procs", ""), figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(10), Throttled: u(4), ThrottledUsec: u(777),
			Memory: u(8192), Quota: 0.4,
			Warn: []string{"cpu.pressure"}}},
		{"hybrid, another v1 path", ModeHybrid, "/pod", with(hybrid, "proc/71/cgroup", "4:memory:/\n1:cpu:/q/c1\n0::/pod/c1\n",
			"cg/cpu/q/cpu.stat", "nr_periods 5\nnr_throttled 2\nthrottled_time 3000\n", "cg/cpu/q/cgroup.procs", "71\n",
			"cg/cpu/q/cpu.cfs_quota_us", "-1\n", "cg/cpu/q/cpu.cfs_period_us", "100000\n"), figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(5), Throttled: u(2), ThrottledUsec: u(3),
			Warn: []string{"root group of v1 memory", "cpu.pressure"}}},
		{"hybrid, v1 group shared with a stranger", ModeHybrid, "/pod", with(hybrid, "cg/cpu/pod/cgroup.procs", "99\n",
			"cg/memory/pod/cgroup.procs", "99\n"), figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(10), Throttled: u(4), ThrottledUsec: u(777), Quota: 0.4,
			Warn: []string{"v1 cpu:/pod, in which other processes", "other processes too are in v1 memory:/pod", "cpu.pressure"}}},
		{"hybrid, v1 groups beyond this namespace", ModeHybrid, "/pod", with(hybrid, "proc/71/cgroup", "4:memory:/../x\n1:cpu:/../x\n0::/pod/c1\n"), figures{
			Usage: u(4000), User: u(3000), System: u(1000),
			Warn: []string{"v1 cpu:/../x lies outside", "v1 memory:/../x lies outside", "cpu.pressure", "pod/cpu.max"}}},
		{"hybrid, processes in two v1 groups", ModeHybrid, "/pod", with(hybrid, "cg/unified/pod/c1/cgroup.procs", "71\n72\n",
			"proc/72/cgroup", "4:memory:/b\n1:cpu:/b\n0::/pod/c1\n", "proc/72/stat", alive, "proc/71/cgroup", "4:memory:/a\n1:cpu:/a\n0::/pod/c1\n"), figures{
			Usage: u(4000), User: u(3000), System: u(1000),
			Warn: []string{"several v1 cpu groups (/a, /b)", "several v1 memory groups", "cpu.pressure", "pod/cpu.max"}}},
		{"hybrid, an exiting process", ModeHybrid, "/pod", with(hybrid, "cg/unified/pod/c1/cgroup.procs", "71\n72\n",
			"proc/72/cgroup", "4:memory:/\n1:cpu:/\n0::/pod/c1\n", "proc/72/stat", strings.Replace(alive, "4194560", "4194564", 1)), figures{
			Usage: u(4000), User: u(3000), System: u(1000), Periods: u(10), Throttled: u(4), ThrottledUsec: u(777),
			Memory: u(8192), Quota: 0.4,
			Warn: []string{"cpu.pressure"}}},
		{"v1", ModeV1, "/svc", pureV1, figures{
			Usage: u(4000), Periods: u(1), Throttled: u(0), ThrottledUsec: u(0),
			Warn: []string{"cpuacct.usage_user", "cpuacct.usage_sys", "no v1 memory hierarchy", "v1 has none"}}},
		{"a broken line is no figure", ModeV2, "/pod", with(pureV2, "cg/pod/cpu.stat", "usage_usec -4\n"), figures{
			Memory: u(4096), Pressure: u(1234), Quota: 0.5,
			Warn: []string{`line "usage_usec -4"`}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := host(t, test.files)
			roots, err := Detect(filepath.Join(root, "proc"))
			if err != nil {
				t.Fatal(err)
			}
			if roots.Mode() != test.mode {
				t.Fatalf("mode %s, want %s", roots.Mode(), test.mode)
			}
			clock := uint64(0)
			reader, err := Open(roots, test.group, func() uint64 { clock++; return clock })
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			reading := reader.Read()
			if reading.EndNs != reading.BeginNs+1 || reading.Gone {
				t.Errorf("reading %+v", reading)
			}
			cpu := reading.CPU
			got := figures{Usage: cpu.UsageUsec.Ptr(), User: cpu.UserUsec.Ptr(), System: cpu.SystemUsec.Ptr(),
				Periods: cpu.NrPeriods.Ptr(), Throttled: cpu.NrThrottled.Ptr(), ThrottledUsec: cpu.ThrottledUsec.Ptr(),
				Memory: reader.MemoryBytes().Ptr(), Pressure: reader.PressureSomeUsec().Ptr()}
			if quota, ok := reader.Quota(); ok {
				got.Quota = quota.CPUs()
			}
			warnings := reader.Warnings()
			if len(warnings) == len(test.want.Warn) {
				for i, part := range test.want.Warn {
					if strings.Contains(warnings[i], part) {
						warnings[i] = part
					}
				}
			}
			got.Warn = warnings
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	root := host(t, hybrid)
	roots, err := Detect(filepath.Join(root, "proc"))
	if err != nil {
		t.Fatal(err)
	}
	for group, part := range map[string]string{
		"/nonexistent":        "no such file",
		"pod":                 "must begin with /",
		"/pod/":               `write it as "/pod"`,
		"/pod/../pod":         `write it as "/pod"`,
		"/sys/fs/cgroup/pod":  "leave out the mount point",
		"/pod\n":              "control characters",
		"/pod/c1/nonexistent": "no such file",
	} {
		if reader, err := Open(roots, group, func() uint64 { return 0 }); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Open(%q) = %v, %v; want an error with %q", group, reader, err, part)
		}
		if _, err := roots.ID(group); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ID(%q): %v; want an error with %q", group, err, part)
		}
	}
	if _, err := Detect(filepath.Join(host(t, map[string]string{"proc/self/mountinfo": "23 1 0:28 / /x rw - tmpfs tmpfs rw\n"}), "proc")); err == nil {
		t.Error("Detect found hierarchies on a host without any")
	}
}

func TestVanished(t *testing.T) {
	root := host(t, pureV2)
	roots, _ := Detect(filepath.Join(root, "proc"))
	if pids, err := roots.Processes("/pod"); err != nil || !slices.Equal(pids, []int{71, 72, 73}) {
		t.Errorf("Processes = %v, %v", pids, err)
	}
	if group, err := roots.GroupOf(71); err != nil || group != "/pod/c1" {
		t.Errorf("GroupOf = %q, %v", group, err)
	}
	before, err := roots.ID("/pod")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(root, "cg/pod"), filepath.Join(root, "cg/old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "cg/pod"), 0o755); err != nil {
		t.Fatal(err)
	}
	if after, err := roots.ID("/pod"); err != nil || after == before {
		t.Errorf("a recreated group has id %d, %v; the former had %d", after, err, before)
	}
}

func TestSince(t *testing.T) {
	for _, test := range []struct{ earlier, later, want Figure }{
		{Known(3), Known(5), Known(2)},
		{Known(0), Known(0), Known(0)},
		{Figure{}, Known(5), Figure{}},
		{Known(5), Figure{}, Figure{}},
		{Known(5), Known(3), Figure{}},
	} {
		if got := test.later.Since(test.earlier); got != test.want {
			t.Errorf("%v since %v = %v, want %v", test.later, test.earlier, got, test.want)
		}
	}
}
