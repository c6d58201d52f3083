//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/bpf"
)

const allCapabilities = "000001ffffffffff"

// fixture is a host laid out below a temporary directory, as its name says.
type fixture map[string]string

const mountsV2 = "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

const mountsHybrid = "30 1 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
	"31 30 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
	"32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"

func soundHost() fixture {
	return fixture{
		"proc/sys/kernel/osrelease":            "6.12.9-arm64\n",
		"sys/kernel/btf/vmlinux":               "BTF",
		"proc/7/status":                        "Name:\tx\nCapEff:\t" + allCapabilities + "\n",
		"proc/7/mountinfo":                     mountsV2,
		"sys/fs/cgroup/cgroup.subtree_control": "cpu memory pids\n",
	}
}

// host lays the files out; a file whose content is "-" is left out.
func (f fixture) host(t *testing.T) host {
	t.Helper()
	root := t.TempDir()
	for name, content := range f {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if content == "-" {
			continue
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("7", filepath.Join(root, "proc/self")); err != nil {
		t.Fatal(err)
	}
	return host{
		goos:      "linux",
		root:      root,
		cpus:      4,
		writable:  func(dir string) error { _, err := os.Stat(dir); return err },
		perfEvent: func() error { return nil },
		loadBPF:   func() (error, error) { return nil, nil },
	}
}

func TestRequirements(t *testing.T) {
	for _, c := range []struct {
		name   string
		files  fixture
		change func(*host)
		// The one line that is not ok, none for a sound host.
		line   string
		status requirementStatus
		remedy string
	}{
		{name: "sound v2"},
		{name: "sound hybrid", files: fixture{"proc/7/mountinfo": mountsHybrid,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/unified/cgroup.procs": ""}},
		{name: "oldest kernel", files: fixture{"proc/sys/kernel/osrelease": "6.1.0-57-cloud-amd64\n"}},
		{name: "newest kernel", files: fixture{"proc/sys/kernel/osrelease": "7.0-rc1\n"}},
		{name: "old kernel", files: fixture{"proc/sys/kernel/osrelease": "5.15.0-91-generic\n"},
			line: "kernel 6.1", status: statusMissing, remedy: "boot a newer kernel"},
		{name: "odd kernel", files: fixture{"proc/sys/kernel/osrelease": "custom\n"}, line: "kernel 6.1", status: statusMissing, remedy: "report"},
		{name: "no BTF", files: fixture{"sys/kernel/btf/vmlinux": "-"},
			line: "BTF", status: statusMissing, remedy: "CONFIG_DEBUG_INFO_BTF=y"},
		{name: "no capability", files: fixture{"proc/7/status": "Name:\tx\nCapEff:\t0000000000000000\n"},
			line: "capabilities", status: statusMissing, remedy: "run as root"},
		{name: "one CPU", change: func(h *host) { h.cpus = 1 }, line: "2 CPUs", status: statusWarning, remedy: "no latency"},
		{name: "no perf", change: func(h *host) { h.perfEvent = func() error { return fs.ErrPermission } },
			line: "perf", status: statusMissing, remedy: "CAP_PERFMON"},
		{name: "no cgroup v2", files: fixture{"proc/7/mountinfo": strings.Join(strings.SplitAfter(mountsHybrid, "\n")[:2], ""),
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n"},
			line: "cgroup v2", status: statusMissing, remedy: "mount -t cgroup2"},
		{name: "no quota in v1", files: fixture{"proc/7/mountinfo": mountsHybrid, "sys/fs/cgroup/unified/cgroup.procs": ""},
			line: "CFS quota", status: statusMissing, remedy: "CONFIG_CFS_BANDWIDTH=y"},
		{name: "cpu not handed down", files: fixture{"sys/fs/cgroup/cgroup.subtree_control": "memory\n"},
			line: "CFS quota", status: statusMissing, remedy: "echo +cpu > /sys/fs/cgroup/cgroup.subtree_control"},
		{name: "load refused", change: func(h *host) {
			h.loadBPF = func() (error, error) {
				return nil, &bpf.MissingError{Requirement: "ring", Remedy: "boot with ring", Err: errors.New("refused\n 900 lines")}
			}
		}, line: "load and attach", status: statusMissing, remedy: "boot with ring"},
		{name: "no statistics", change: func(h *host) { h.loadBPF = func() (error, error) { return fs.ErrPermission, nil } },
			line: "statistics", status: statusWarning, remedy: "bpf_stats_enabled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := soundHost()
			for name, content := range c.files {
				files[name] = content
			}
			h := files.host(t)
			if c.change != nil {
				c.change(&h)
			}
			for _, r := range h.requirements() {
				if r.Found == "" || strings.Contains(r.Found+r.Remedy, "\n") {
					t.Errorf("%s: found %q, remedy %q: want one line", r.Name, r.Found, r.Remedy)
				}
				switch {
				case c.line != "" && strings.Contains(r.Name, c.line):
					if r.Status != c.status || !strings.Contains(r.Remedy, c.remedy) {
						t.Errorf("%+v: want %s with remedy %q", r, c.status, c.remedy)
					}
				case r.Status != statusOK && r.Found != "not tried":
					t.Errorf("%+v: want ok", r)
				}
			}
			err := missingError(h.requirements())
			if missing := c.status == statusMissing; (err != nil) != missing {
				t.Errorf("error %v, want one: %v", err, missing)
			}
		})
	}
}

func TestOtherSystem(t *testing.T) {
	var out bytes.Buffer
	err := runCheck(host{goos: "darwin"}, false, &out)
	var coded exitError
	if !errors.As(err, &coded) || coded.code != exitUsage {
		t.Errorf("got %v, want exit %d", err, exitUsage)
	}
	if got := out.String(); !strings.Contains(got, "missing") || !strings.Contains(got, "darwin") {
		t.Errorf("printed %q", got)
	}
}

func TestCheckJSON(t *testing.T) {
	var out bytes.Buffer
	if err := runCheck(soundHost().host(t), true, &out); err != nil {
		t.Fatal(err)
	}
	var all []requirement
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 10 {
		t.Errorf("%d requirements, want 10", len(all))
	}
}

// Each capability alone must be asked for: the sound set less one is unsound.
func TestCapabilityBits(t *testing.T) {
	for _, c := range neededCapabilities {
		files := soundHost()
		var all uint64
		for _, other := range neededCapabilities {
			if other.bit != c.bit {
				all |= 1 << other.bit
			}
		}
		files["proc/7/status"] = "Name:\tx\nCapEff:\t" + fmt.Sprintf("%016x", all) + "\n"
		r := files.host(t).capabilities()
		if r.Status != statusMissing || !strings.Contains(r.Found, c.name+" ") || strings.Contains(r.Found, ",") {
			t.Errorf("without %s: %+v", c.name, r)
		}
		files["proc/7/status"] = "Name:\tx\nCapEff:\t" + fmt.Sprintf("%016x", all|1<<c.bit) + "\n"
		if r := files.host(t).capabilities(); r.Status != statusOK {
			t.Errorf("with exactly the needed ones: %+v", r)
		}
	}
}
