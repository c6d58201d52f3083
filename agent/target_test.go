package agent

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/bpf"
)

func TestParseTarget(t *testing.T) {
	for text, want := range map[string]Target{
		"web=cgroup:/kubepods/pod1": {Name: "web", Cgroup: "/kubepods/pod1"},
		"shop/web-0=cgroup:/":       {Name: "shop/web-0", Cgroup: "/"},
		"w=cgroup:/a=b:c":           {Name: "w", Cgroup: "/a=b:c"},
		"jvm=pid:4711":              {Name: "jvm", Pid: 4711},
	} {
		got, err := ParseTarget(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("ParseTarget(%q) = %v, %v", text, got, err)
		}
	}
	for text, part := range map[string]string{
		"":                        "write NAME=cgroup:/path",
		"web":                     "write NAME=cgroup:/path",
		"web=/a":                  "write NAME=cgroup:/path",
		"web=pod:/a":              "neither cgroup nor pid",
		"web=pid:0":               "not a process id",
		"web=pid:-1":              "not a process id",
		"web=pid:99999999999":     "not a process id",
		"web=cgroup:a":            "must begin with /",
		"web=cgroup:":             "name either",
		"web=cgroup:/a/../b":      `write it as "/b"`,
		"=cgroup:/a":              "target name",
		"-x=cgroup:/a":            "target name",
		"a b=cgroup:/a":           "target name",
		"w=cgroup:/sys/fs/cgroup": "leave out the mount point",
	} {
		if got, err := ParseTarget(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("ParseTarget(%q) = %v, %v; want an error with %q", text, got, err, part)
		}
	}
}

func FuzzParseTarget(f *testing.F) {
	f.Add("web=cgroup:/a")
	f.Add("jvm=pid:1")
	f.Fuzz(func(t *testing.T, text string) {
		target, err := ParseTarget(text)
		if err != nil {
			return
		}
		if again, err := ParseTarget(target.String()); err != nil || again != target {
			t.Errorf("%q reads as %v, then as %v, %v", text, target, again, err)
		}
	})
}

func TestConfigRefuses(t *testing.T) {
	a := Target{Name: "a", Cgroup: "/pod"}
	for part, config := range map[string]Config{
		"rate 0 Hz: want 1 to 9999": {Loaded: bpf.Options{RateHz: 0}, Targets: []Target{a}},
		"10000 Hz":                  {Loaded: bpf.Options{RateHz: 10000}, Targets: []Target{a}},
		"no target":                 {Loaded: bpf.Options{RateHz: 1}},
		"named twice":               {Loaded: bpf.Options{RateHz: 1}, Targets: []Target{a, {Name: "a", Pid: 1}}},
		"the same cgroup /pod":      {Loaded: bpf.Options{RateHz: 1}, Targets: []Target{a, {Name: "b", Cgroup: "/pod"}}},
		"target b (/pod/c1) lies within target a (/pod)": {Loaded: bpf.Options{RateHz: 1}, Targets: []Target{a, {Name: "b", Cgroup: "/pod/c1"}}},
		"target a (/pod) lies within target b (/)":       {Loaded: bpf.Options{RateHz: 1}, Targets: []Target{a, {Name: "b", Cgroup: "/"}}},
		"the same process 7":                             {Loaded: bpf.Options{RateHz: 1}, Targets: []Target{{Name: "a", Pid: 7}, {Name: "b", Pid: 7}}},
		"at most 64":                                     {Loaded: bpf.Options{RateHz: 1}, Targets: make([]Target, 65)},
	} {
		if err := config.Validate(); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Validate: %v; want %q", err, part)
		}
	}
	near := Config{Loaded: bpf.Options{RateHz: 1}, Targets: []Target{a, {Name: "b", Cgroup: "/pod2"}}}
	if err := near.Validate(); err != nil {
		t.Error(err)
	}
}

// TestSharedProcess names a cgroup and a process tree that is in it.
func TestSharedProcess(t *testing.T) {
	root := fakeHost(t)
	write(t, root, map[string]string{"proc/70/stat": procStat(70, 1, 9), "proc/71/stat": procStat(71, 70, 100)})
	for _, targets := range [][]Target{
		{{Name: "web", Cgroup: "/web"}, {Name: "tree", Pid: 70}},
		{{Name: "tree", Pid: 70}, {Name: "web", Cgroup: "/web"}},
		{{Name: "outer", Pid: 70}, {Name: "inner", Pid: 71}},
	} {
		a, err := New(Config{Targets: targets, Loaded: bpf.Options{RateHz: 1}, Proc: filepath.Join(root, "proc")}, newFakeKernel())
		if err != nil {
			t.Fatal(err)
		}
		if a.targets[0].unavailable != "" || !strings.Contains(a.targets[1].unavailable, "share process 71") {
			t.Errorf("%v: unavailable %q and %q", targets, a.targets[0].unavailable, a.targets[1].unavailable)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}
