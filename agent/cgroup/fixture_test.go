package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// host writes a fixture of a host's /proc and /sys/fs/cgroup: files by path
// below a temporary directory, in which @ stands for that directory. A path
// that ends in a slash makes an empty directory.
func host(t testing.TB, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			continue
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "@", root)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// with adds files to copies of a fixture; an empty text takes a file out.
func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, text := range files {
		all[name] = text
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
		if more[i+1] == "" {
			delete(all, more[i])
		}
	}
	return all
}

// alive is the text of a /proc/PID/stat, leaving the process without PF_EXITING.
const alive = "71 (svc) S 1 1 1 0 -1 4194560 0 0 0 0 5 6 0 0 20 0 2 0 100 4096000 25 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"

// pureV2 is a host with one hierarchy and a pod of two containers in it.
var pureV2 = map[string]string{
	"proc/self/mountinfo":            "23 1 0:28 / @/cg rw - cgroup2 cgroup2 rw\n",
	"proc/71/stat":                   alive,
	"proc/71/cgroup":                 "0::/pod/c1\n",
	"cg/cgroup.procs":                "1\n",
	"cg/cpu.stat":                    "usage_usec 900000\nuser_usec 1\nsystem_usec 2\n",
	"cg/pod/cgroup.procs":            "",
	"cg/pod/cpu.stat":                "usage_usec 4000\nuser_usec 3000\nsystem_usec 1000\nnice_usec 0\nnr_periods 10\nnr_throttled 4\nthrottled_usec 777\n",
	"cg/pod/cpu.max":                 "50000 100000\n",
	"cg/pod/cpu.pressure":            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	"cg/pod/memory.current":          "4096\n",
	"cg/pod/memory.stat":             "anon 10\n",
	"cg/pod/c1/cgroup.procs":         "71\n",
	"cg/pod/c1/cpu.stat":             "usage_usec 3900\nuser_usec 2950\nsystem_usec 950\nnr_periods 9\nnr_throttled 1\nthrottled_usec 5\n",
	"cg/pod/c1/cpu.max":              "max 100000\n",
	"cg/pod/c2/cgroup.procs":         "72\n73\n",
	"cg/besteffort/cgroup.procs":     "",
	"cg/besteffort/cpu.stat":         "usage_usec 1\nuser_usec 1\nsystem_usec 0\n",
	"cg/besteffort/c3/cgroup.procs":  "74\n",
	"cg/besteffort/c3/irrelevant.in": "",
}

// hybrid is a host with CPU controllers on v1, its v2 tree aside, and the tmpfs
// between them that silent readers mistake for v2.
var hybrid = map[string]string{
	"proc/self/mountinfo": `31 23 0:28 / @/cg rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / @/cg/cpu rw,relatime - cgroup cgroup rw,cpu
33 31 0:30 / @/cg/cpuacct rw,relatime - cgroup cgroup rw,cpuacct
35 31 0:32 / @/cg/memory rw,relatime - cgroup cgroup rw,memory
40 31 0:37 / @/cg/systemd rw,relatime - cgroup cgroup rw,name=systemd
41 31 0:38 / @/cg/unified rw,relatime - cgroup2 cgroup2 rw
`,
	"proc/71/stat":                            alive,
	"proc/71/cgroup":                          "4:memory:/pod/c1\n2:cpuacct:/pod/c1\n1:cpu:/pod/c1\n0::/pod/c1\n",
	"cg/unified/pod/cgroup.procs":             "",
	"cg/unified/pod/cpu.stat":                 "usage_usec 4000\nuser_usec 3000\nsystem_usec 1000\nnice_usec 0\n",
	"cg/unified/pod/c1/cgroup.procs":          "71\n",
	"cg/cpu/cgroup.procs":                     "1\n",
	"cg/cpu/pod/cgroup.procs":                 "",
	"cg/cpu/pod/c1/cgroup.procs":              "71\n",
	"cg/cpu/pod/cpu.stat":                     "nr_periods 10\nnr_throttled 4\nthrottled_time 777999\nnr_bursts 0\nburst_time 0\n",
	"cg/cpu/pod/cpu.cfs_quota_us":             "40000\n",
	"cg/cpu/pod/cpu.cfs_period_us":            "100000\n",
	"cg/memory/pod/cgroup.procs":              "",
	"cg/memory/pod/c1/cgroup.procs":           "71\n",
	"cg/memory/pod/memory.stat":               "cache 1\nhierarchical_memory_limit 2\n",
	"cg/memory/pod/memory.oom_control":        "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n",
	"cg/memory/pod/memory.failcnt":            "0\n",
	"cg/memory/pod/memory.limit_in_bytes":     "99\n",
	"cg/memory/pod/memory.usage_in_bytes":     "8192\n",
	"cg/memory/pod/memory.max_usage_in_bytes": "9000\n",
}

// pureV1 co-mounts cpu and cpuacct, as most v1 hosts did.
var pureV1 = map[string]string{
	"proc/self/mountinfo":               "32 31 0:29 / @/cg/cpu\\040both rw - cgroup cgroup rw,cpu,cpuacct\n",
	"cg/cpu both/svc/cgroup.procs":      "71\n",
	"cg/cpu both/svc/cpuacct.usage":     "4000999\n",
	"cg/cpu both/svc/cpu.stat":          "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n",
	"cg/cpu both/svc/cpu.cfs_quota_us":  "-1\n",
	"cg/cpu both/svc/cpu.cfs_period_us": "100000\n",
}
