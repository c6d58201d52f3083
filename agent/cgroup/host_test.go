package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/containerd/cgroups/v3/cgroup2"
)

var started = time.Now()

func clock() uint64 { return uint64(time.Since(started)) }

// child makes a group of this test's own on the hierarchies of this host, and
// removes it at the end. It skips where the host does not let it.
func child(t testing.TB) (roots Roots, group string, dirs []string) {
	t.Helper()
	roots, err := Detect("/proc")
	if err != nil || roots.V2 == "" {
		t.Skipf("no cgroup v2 hierarchy here: %v", err)
	}
	group = fmt.Sprintf("/rung-test-%d-%d", os.Getpid(), time.Now().UnixNano())
	mounts := []string{roots.V2}
	if roots.Mode() == ModeHybrid && roots.V1["cpu"] != "" {
		mounts = append(mounts, roots.V1["cpu"])
	}
	for _, mount := range mounts {
		dir := filepath.Join(mount, group)
		if err := os.Mkdir(dir, 0o755); errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			t.Skipf("cgroups cannot be made here: %v", err)
		} else if err != nil {
			t.Skipf("cgroups cannot be made here: %v", err)
		}
		dirs = append(dirs, dir)
		t.Cleanup(func() {
			for range 50 { // a killed process leaves its group a little later
				if os.Remove(dir) == nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			t.Errorf("%s is left behind", dir)
		})
	}
	return roots, group, dirs
}

// TestHost reads a group of this host's own while a process spins in it under a
// quota of 20 % of a CPU.
func TestHost(t *testing.T) {
	roots, group, dirs := child(t)
	quotaDir := dirs[len(dirs)-1]
	var err error
	if len(dirs) == 2 {
		err = os.WriteFile(filepath.Join(quotaDir, "cpu.cfs_quota_us"), []byte("20000"), 0o644)
	} else {
		err = os.WriteFile(filepath.Join(quotaDir, "cpu.max"), []byte("20000 100000"), 0o644)
	}
	limited := err == nil
	reader, err := Open(roots, group, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if first := reader.Read(); first.CPU.UsageUsec != Known(0) {
		t.Errorf("a new group has used %+v", first.CPU.UsageUsec)
	}

	spin := exec.Command("sh", "-c", "read go; while :; do :; done")
	gate, err := spin.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := spin.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { spin.Process.Kill(); spin.Wait() })
	for _, dir := range dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(spin.Process.Pid)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	begin := reader.Read()
	fmt.Fprintln(gate)
	time.Sleep(500 * time.Millisecond)
	end := reader.Read()
	if end.Gone {
		t.Fatal("group gone")
	}
	used := end.CPU.UsageUsec.Since(begin.CPU.UsageUsec)
	if !used.OK || used.Value == 0 || used.Value > 2*(end.EndNs-begin.BeginNs)/1000 {
		t.Errorf("a spinning process used %+v usec in %d usec", used, (end.EndNs-begin.BeginNs)/1000)
	}
	if pids, err := roots.Processes(group); err != nil || len(pids) != 1 || pids[0] != spin.Process.Pid {
		t.Errorf("Processes = %v, %v; want %d", pids, err, spin.Process.Pid)
	}
	if limited {
		if throttled := end.CPU.NrThrottled.Since(begin.CPU.NrThrottled); !throttled.OK || throttled.Value == 0 {
			t.Errorf("throttled in %+v periods under a quota of 0.2; warnings %q", throttled, reader.Warnings())
		}
		if quota, ok := reader.Quota(); !ok || quota != (Quota{20000, 100000}) {
			t.Errorf("quota %+v, %v", quota, ok)
		}
	}
	if group2, err := roots.GroupOf(spin.Process.Pid); err != nil || group2 != group {
		t.Errorf("GroupOf = %q, %v; want %q", group2, err, group)
	}
}

func TestHostVanishes(t *testing.T) {
	roots, group, dirs := child(t)
	reader, err := Open(roots, group, clock)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := os.Remove(dirs[0]); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Mkdir(dirs[0], 0o755) }) // for child's own cleanup
	reading := reader.Read()
	if !reading.Gone || reading.CPU.UsageUsec.OK {
		t.Errorf("a removed group reads %+v", reading)
	}
	if _, err := roots.ID(group); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ID of a removed group: %v", err)
	}
}

// BenchmarkRead holds the reading at an edge against the library's.
func BenchmarkRead(b *testing.B) {
	roots, group, _ := child(b)
	b.Run("kept open", func(b *testing.B) {
		reader, err := Open(roots, group, clock)
		if err != nil {
			b.Fatal(err)
		}
		defer reader.Close()
		b.ReportAllocs()
		for b.Loop() {
			reader.Read()
		}
	})
	b.Run("containerd StatFiltered", func(b *testing.B) {
		manager, err := cgroup2.Load(group, cgroup2.WithMountpoint(roots.V2))
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if _, err := manager.StatFiltered(cgroup2.StatCPU); err != nil {
				b.Fatal(err)
			}
		}
	})
}
