//go:build linux

package bpf

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A brake stops a child and lets it go on.
type brake struct {
	name         string
	stop, resume func(t *testing.T, c *child)
	stopped      func(t *testing.T, c *child) bool
}

func brakes(dir string) []brake {
	freeze := func(value string) func(*testing.T, *child) {
		return func(t *testing.T, c *child) {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(value), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	signal := func(s unix.Signal) func(*testing.T, *child) {
		return func(t *testing.T, c *child) {
			if err := unix.Kill(int(c.pid), s); err != nil {
				t.Fatal(err)
			}
		}
	}
	return []brake{
		{"signal", signal(unix.SIGSTOP), signal(unix.SIGCONT), func(t *testing.T, c *child) bool {
			return contains(t, fmt.Sprintf("/proc/%d/task/%d/stat", c.pid, c.tid), ") T ")
		}},
		{"freezer", freeze("1"), freeze("0"), func(t *testing.T, c *child) bool {
			return contains(t, filepath.Join(dir, "cgroup.events"), "frozen 1")
		}},
	}
}

// counted are the losses and repairs so far.
func counted(t *testing.T, p *Profiler) Counters {
	t.Helper()
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(counters, func(_ string, n uint64) bool { return n == 0 })
	return counters
}

func contains(t *testing.T, file, text string) bool {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(content), text)
}

// A thread is stopped for as long as it was told to be, whether that began
// before its target was known, before the window or in it.
func TestStopped(t *testing.T) {
	p := load(t, 99)
	dir, _ := makeCgroup(t, cgroup2Root(t), fmt.Sprintf("rung-stop-%d", os.Getpid()))
	slack := MonoNs(3e6)
	if emulated() {
		slack = 100e6
	}
	for _, b := range brakes(dir) {
		for _, when := range []string{"before the target", "before the window", "in the window"} {
			t.Run(b.name+" "+when, func(t *testing.T) {
				c := startWorkload(t, dir, "idle", "1h")
				t.Cleanup(func() { b.resume(t, c); c.cmd.Process.Kill(); c.cmd.Wait() })
				var from, began MonoNs // the stop lies between them, as far as it counts
				stop := func() {
					from = Now()
					b.stop(t, c)
					for !b.stopped(t, c) {
						time.Sleep(time.Millisecond)
					}
					began = Now()
				}
				if when == "before the target" {
					stop()
				}
				s := tree(t, p, c)
				defer p.Remove(s)
				if when == "before the window" {
					stop()
				}
				w := arm(t, p, s, 1)
				if when == "in the window" {
					time.Sleep(30 * time.Millisecond)
					stop()
				}
				time.Sleep(150 * time.Millisecond)
				cont := Now()
				b.resume(t, c)
				for b.stopped(t, c) {
					time.Sleep(time.Millisecond)
				}
				gone := Now()
				time.Sleep(50 * time.Millisecond)
				th := finish(t, p, s, &w)[c.tid]
				low, high := cont-max(began, w.Start), gone-max(from, w.Start)
				if got := MonoNs(th.StoppedNs); got+slack < low || got > high+slack {
					t.Errorf("stopped for %d ns, want %d to %d; %+v, %v", got, low, high, th, counted(t, p))
				}
				// The Go runtime may have work for it: no more than the scheduler has charged.
				if rest := th.LifetimeNs - th.StoppedNs - min(th.OnCPUWallNs, th.OnCPUChargedNs); th.BlockedNs()+uint64(slack) < rest {
					t.Errorf("blocked for %d ns of the %d that it was neither stopped nor busy; %+v, %v", th.BlockedNs(), rest, th, counted(t, p))
				}
			})
		}
	}
}
