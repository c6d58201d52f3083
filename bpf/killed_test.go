//go:build linux

package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
)

var held *Profiler // until the process ends

// hold loads a Profiler with a target and an open window, and says so.
func hold([]string) truth {
	p, err := Load(Options{RateHz: 99})
	if err != nil {
		panic(err)
	}
	s, err := p.AddTree(1)
	if err != nil {
		panic(err)
	}
	if err := p.Arm(s, Window{ID: 1, Start: Now(), BlockNs: 1e8}); err != nil {
		panic(err)
	}
	held = p
	return truth{}
}

// objectsOfRung are the kernel's programs and maps that have names of ours, by id.
func objectsOfRung(t *testing.T) map[string]bool {
	t.Helper()
	spec, err := loadRung()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	visit := func(kind string, next func(uint32) (uint32, error), name func(uint32) (string, error), ours func(string) bool) {
		for id := uint32(0); ; {
			after, err := next(id)
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
			if errors.Is(err, fs.ErrPermission) {
				t.Skip("kernel test: objects can be listed with CAP_SYS_ADMIN only")
			}
			if err != nil {
				t.Fatal(err)
			}
			id = after
			text, err := name(id)
			if err == nil && ours(text) { // an error: it is gone already
				found[fmt.Sprintf("%s %s %d", kind, text, id)] = true
			}
		}
	}
	// The kernel keeps 15 characters of a name.
	cut := func(name string) string { return name[:min(len(name), 15)] }
	visit("program", func(id uint32) (uint32, error) {
		next, err := ebpf.ProgramGetNextID(ebpf.ProgramID(id))
		return uint32(next), err
	},
		func(id uint32) (string, error) {
			prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
			if err != nil {
				return "", err
			}
			defer prog.Close()
			info, err := prog.Info()
			if err != nil {
				return "", err
			}
			return info.Name, nil
		}, func(name string) bool {
			for ours := range spec.Programs {
				if cut(ours) == name {
					return true
				}
			}
			return false
		})
	visit("map", func(id uint32) (uint32, error) {
		next, err := ebpf.MapGetNextID(ebpf.MapID(id))
		return uint32(next), err
	},
		func(id uint32) (string, error) {
			m, err := ebpf.NewMapFromID(ebpf.MapID(id))
			if err != nil {
				return "", err
			}
			defer m.Close()
			info, err := m.Info()
			if err != nil {
				return "", err
			}
			return info.Name, nil
		}, func(name string) bool {
			for ours := range spec.Maps {
				if !strings.HasPrefix(ours, ".") && cut(ours) == name {
					return true
				}
			}
			return false
		})
	return found
}

// A Profiler whose process is killed within a window leaves nothing in the kernel.
func TestKilledLeavesNothing(t *testing.T) {
	mustLoad(t, Options{RateHz: 1}).Close() // skips, with the reason
	before := objectsOfRung(t)
	c := startWorkload(t, "", "hold")
	c.start()
	c.result()
	var held []string
	for object := range objectsOfRung(t) {
		if !before[object] {
			held = append(held, object)
		}
	}
	if len(held) < 20 {
		t.Fatalf("only %q: the test shows nothing", held)
	}
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	c.cmd.Wait()
	var left []string
	for range 600 { // the kernel frees them after grace periods, which load makes long
		left = nil
		now := objectsOfRung(t)
		for _, object := range held {
			if now[object] {
				left = append(left, object)
			}
		}
		if len(left) == 0 {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Errorf("left after 30 s: %q", left)
}

// Two Profilers at once measure the same target, and each is right.
func TestTwoProfilers(t *testing.T) {
	a, b := load(t, 99), load(t, 499)
	c := startWorkload(t, "", "pipe", "300", "2ms")
	sa, sb := tree(t, a, c), tree(t, b, c)
	wa, wb := arm(t, a, sa, 1), arm(t, b, sb, 1)
	c.start()
	want := c.result()
	for name, th := range map[string]Thread{"first": finish(t, a, sa, &wa)[c.tid], "second": finish(t, b, sb, &wb)[c.tid]} {
		var blocked Blocked
		for _, each := range th.Blocked {
			if each.Reason == waitReason(t, "pipe") {
				blocked = each
			}
		}
		low, high := want.WallNs-want.CPUNs-want.WallNs/100-th.RunQueueNs, want.WallNs
		if blocked.Ns < low || blocked.Ns > high || blocked.Intervals < uint64(want.Waits)*95/100 {
			t.Errorf("%s: blocked %+v, want %d to %d ns", name, blocked, low, high)
		}
	}
}
