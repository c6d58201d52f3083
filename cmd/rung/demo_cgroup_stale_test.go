//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rungprof/rung/agent/cgroup"
)

func TestDemoOwner(t *testing.T) {
	own, err := thisOwner("/proc")
	if err != nil {
		t.Fatal(err)
	}
	again, ok := parseDemoOwner(own.cgroupName())
	if !ok || again != own || own.start == 0 || own.namespace == 0 || own.dead("/proc") {
		t.Errorf("%+v, read back as %+v, %t", own, again, ok)
	}
	later := own
	later.start++ // another process of the same number
	if !later.dead("/proc") {
		t.Error("a number that was used again passes for its earlier process")
	}
	other := deadOwner(t)
	if !other.dead("/proc") {
		t.Error("a process that ended is alive")
	}
	other.namespace++
	if other.dead("/proc") {
		t.Error("a process of another pid namespace is called dead")
	}
	if old, ok := parseDemoOwner("rung-demo-" + strconv.Itoa(os.Getpid())); !ok || old.dead("/proc") {
		t.Errorf("%+v, %t", old, ok)
	}
	for _, name := range []string{"rung-demo-", "rung-demo-x", "rung-demo-1-2", "rung-demo-1-2-3-4", "rung-demo-0", "rung-demo-99999999999999999999", "rung-test-7"} {
		if o, ok := parseDemoOwner(name); ok {
			t.Errorf("%s is of %+v", name, o)
		}
	}
}

// deadOwner is a process that has ended.
func deadOwner(t *testing.T) demoOwner {
	t.Helper()
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	own, err := thisOwner("/proc")
	if err != nil {
		t.Fatal(err)
	}
	start, running := startOf("/proc", cmd.Process.Pid)
	if !running {
		t.Fatal("a process that was just started does not run")
	}
	cmd.Process.Kill()
	cmd.Wait()
	return demoOwner{cmd.Process.Pid, start, own.namespace}
}

func TestOtherDemos(t *testing.T) {
	v2, cpu := t.TempDir(), t.TempDir()
	own, err := thisOwner("/proc")
	if err != nil {
		t.Fatal(err)
	}
	dead := deadOwner(t).cgroupName()
	for dir, procs := range map[string]string{
		filepath.Join(v2, dead, "arm"): "", filepath.Join(cpu, dead, "arm"): "",
		filepath.Join(cpu, "rung-demo-of-hand"):           "7\n", // of no form that is known
		filepath.Join(v2, "rung-demo-empty"):              "",
		filepath.Join(v2, "system.slice"):                 "1\n",
		filepath.Join(v2, "rung-demo-1-1-"+"5"):           "8\n", // of another pid namespace
		filepath.Join(v2, own.cgroupName(), "arm"):        "9\n",
		filepath.Join(v2, demoCgroupPrefix+"0001", "arm"): "1\n", // process 1 lives
	} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(procs), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	g := &demoCgroups{mounts: cgroup.Mounts{V2: v2, V1: map[string]string{"cpu": cpu, "cpuacct": cpu}}, name: own.cgroupName()}
	stale, running := g.others("/proc")
	slices.Sort(running)
	if !slices.Equal(stale, []string{dead}) || !slices.Equal(running, []string{"rung-demo-0001", "rung-demo-1-1-5", "rung-demo-of-hand"}) {
		t.Errorf("stale %q, running %q", stale, running)
	}
}

// TestRemoveStale takes away, on this machine, what a demo that was killed left:
// its cgroups and an arm in one of them; a stranger in one stays, and its cgroup.
func TestRemoveStale(t *testing.T) {
	g := liveCgroups(t)
	left := func() (*demoCgroups, armCgroup) {
		d := &demoCgroups{mounts: g.mounts, name: deadOwner(t).cgroupName()}
		t.Cleanup(func() { d.remove(t.Context()) })
		c, err := d.add("rest-h1", 0.25)
		if err != nil {
			t.Fatal(err)
		}
		return d, c
	}
	orphaned, place := left()
	t.Setenv(asRung, "1")
	said := make(chan string, 1)
	arm, err := startProcess(processSpec{name: "arm", logPath: filepath.Join(t.TempDir(), "log"), onStdout: sayOnce(armReadyPrefix, said),
		args: joinArgs(place, "arm", "--mode", "rest-h1", "--listen", "127.0.0.1:0")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(arm.stop)
	if _, err := arm.ready(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	strange, place := left()
	sleeper := exec.Command("sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sleeper.Process.Kill(); sleeper.Wait() })
	if err := writeCgroupFile(place.dirs[0], "cgroup.procs", strconv.Itoa(sleeper.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	empty, _ := left()

	stale, _ := g.others("/proc")
	for _, d := range []*demoCgroups{orphaned, strange, empty} {
		if !slices.Contains(stale, d.name) {
			t.Fatalf("%s is not among what dead demos left: %q", d.name, stale)
		}
	}
	for _, d := range []*demoCgroups{orphaned, empty} {
		if err := g.removeStale(t.Context(), "/proc", d.name); err != nil {
			t.Error(err)
		}
		for _, mount := range g.hierarchies() {
			if _, err := os.Stat(filepath.Join(mount, d.name)); !os.IsNotExist(err) {
				t.Errorf("%s is left in %s: %v", d.name, mount, err)
			}
		}
	}
	<-arm.exited
	err = g.removeStale(t.Context(), "/proc", strange.name)
	if err == nil || !strings.Contains(err.Error(), "holds process "+strconv.Itoa(sleeper.Process.Pid)+", which is no arm of Rung's") {
		t.Errorf("with a stranger in it: %v", err)
	}
	if _, running := startOf("/proc", sleeper.Process.Pid); !running {
		t.Error("the stranger was ended")
	}
	own, err := thisOwner("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.removeStale(t.Context(), "/proc", own.cgroupName()); err == nil {
		t.Error("the cgroups of a demo that runs were removed")
	}
}
