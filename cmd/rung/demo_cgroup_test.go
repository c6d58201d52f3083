//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/agent/cgroup"
)

// liveCgroups are a demo's on this machine, removed when the test ends.
func liveCgroups(t *testing.T) *demoCgroups {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making cgroups needs root")
	}
	roots, err := cgroup.Detect("/proc")
	if err != nil || roots.V2 == "" {
		t.Skipf("needs a cgroup v2 hierarchy: %v", err)
	}
	h := thisHost()
	for _, r := range h.cgroups() {
		if r.Status == statusMissing {
			t.Skipf("%s: %s", r.Name, r.Found)
		}
	}
	g := &demoCgroups{mounts: roots.Mounts, name: fmt.Sprintf("rung-test-%d", os.Getpid())}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := g.remove(ctx); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestCgroupsOnThisMachine(t *testing.T) {
	g := liveCgroups(t)
	before := topLevel(t, g.mounts.V2)
	control := filepath.Join(g.mounts.V2, "cgroup.subtree_control")
	rootControl, err := os.ReadFile(control)
	if err != nil {
		t.Fatal(err)
	}
	a, err := g.add("rest-h1", 0.25)
	if err != nil {
		t.Fatal(err)
	}
	b, err := g.add("loop", 0)
	if err != nil {
		t.Fatal(err)
	}
	if a.path != "/"+g.name+"/rest-h1" {
		t.Errorf("path %q", a.path)
	}
	roots, err := cgroup.Detect("/proc")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := cgroup.Open(roots, a.path, func() uint64 { return 0 })
	if err != nil {
		t.Fatalf("the agent's reader does not find %s: %v", a.path, err)
	}
	reader.Close()
	// Joining happens before the child's first instruction of its own: here the
	// child is `rung join -- join -- ` of a directory that does not exist, whose
	// error shows that the first join worked and exec came after it.
	t.Setenv(asRung, "1")
	log := filepath.Join(t.TempDir(), "log")
	p, err := startProcess(processSpec{name: "child", args: joinArgs(a, "join", "--cgroup", "/nonexistent", "--", "version"), logPath: log})
	if err != nil {
		t.Fatal(err)
	}
	<-p.exited
	if tail := logTail(log, 3); !strings.Contains(tail, "enter cgroup /nonexistent") {
		t.Errorf("log %q", tail)
	}
	for _, dir := range append(a.dirs, b.dirs...) {
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	}
	if dir := a.dirs[0]; g.mounts.V1["cpu"] == "" {
		wantFile(t, filepath.Join(dir, "cpu.max"), "25000 100000")
		wantFile(t, filepath.Join(b.dirs[0], "cpu.max"), "max 100000")
	} else {
		wantFile(t, filepath.Join(g.mounts.V1["cpu"], g.name, "rest-h1", "cpu.cfs_quota_us"), "25000")
		wantFile(t, filepath.Join(g.mounts.V1["cpu"], g.name, "rest-h1", "cpu.cfs_period_us"), "100000")
		wantFile(t, filepath.Join(g.mounts.V1["cpu"], g.name, "loop", "cpu.cfs_quota_us"), "-1")
	}
	wantFile(t, control, strings.TrimSpace(string(rootControl)))
	if err := g.remove(t.Context()); err != nil {
		t.Error(err)
	}
	if after := topLevel(t, g.mounts.V2); after[g.name] || len(after) > len(before) {
		t.Errorf("cgroups before %v, after %v", before, after)
	}
}

// A directory that exists is somebody else's and is neither used nor removed.
func TestCgroupOfSomebodyElse(t *testing.T) {
	root := t.TempDir()
	g := &demoCgroups{mounts: cgroup.Mounts{V2: root}, name: "taken"}
	theirs := filepath.Join(root, "taken")
	if err := os.Mkdir(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := g.add("arm", 0); err == nil || !strings.Contains(err.Error(), theirs) {
		t.Errorf("got %v, want an error that names %s", err, theirs)
	}
	if err := g.remove(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Errorf("somebody else's cgroup is gone: %v", err)
	}
}

// Without cpu in the root's subtree_control the demo says what to do, and does
// not do it itself.
func TestCgroupWithoutController(t *testing.T) {
	root := t.TempDir()
	g := &demoCgroups{mounts: cgroup.Mounts{V2: root}, name: "demo"}
	_, err := g.add("arm", 0.5) // no file cgroup.subtree_control below a plain directory
	want := "echo +cpu > " + filepath.Join(root, "cgroup.subtree_control")
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want the remedy %q", err, want)
	}
	if err := g.remove(t.Context()); err != nil {
		t.Error(err)
	}
	if left := topLevel(t, root); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	} else if got := strings.TrimSpace(string(data)); got != want {
		t.Errorf("%s: %q, want %q", path, got, want)
	}
}

func topLevel(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, e := range entries {
		if e.IsDir() {
			names[e.Name()] = true
		}
	}
	return names
}
