//go:build linux

package bpf

import (
	"fmt"
	"os"
	"testing"
)

// ticks is how often the sampling clock has found anything to do or not.
func ticks(t *testing.T, p *Profiler) uint64 {
	t.Helper()
	stats, err := p.objects.OnClock.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return stats.RunCount
}

// A clock per cgroup ticks in CPU time of its target: not at all while that is
// idle, whatever else runs, and at its rate while it is busy.
func TestClockPerCgroup(t *testing.T) {
	root := cgroup2Root(t)
	p := loadWith(t, Options{RateHz: 499, Clock: ClockPerCgroup, CgroupMount: root})
	dir, id := makeCgroup(t, root, fmt.Sprintf("rung-clock-%d", os.Getpid()))
	s, err := p.AddCgroup(id)
	if err != nil {
		t.Fatal(err)
	}
	idle := startWorkload(t, dir, "idle", "1h")
	busy := startWorkload(t, "", "spin", "400ms")
	w := arm(t, p, s, 1)
	before := ticks(t, p)
	busy.start()
	busy.result()
	if n := ticks(t, p) - before; n > 5 {
		t.Errorf("%d ticks for an idle target while another process was busy", n)
	}
	finish(t, p, s, &w)
	idle.cmd.Process.Kill()
	idle.cmd.Wait()
	if err := p.Release(s, 1); err != nil {
		t.Fatal(err)
	}

	c := startWorkload(t, dir, "spin", "1s")
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
	w = arm(t, p, s, 2)
	before = ticks(t, p)
	c.start()
	c.result()
	if _, err := p.Costs(); err != nil {
		t.Logf("runs are not counted here: %v", err)
	} else if n := ticks(t, p) - before; n < 100 {
		t.Errorf("%d ticks for a busy target: too few to be true", n)
	}
	th := finish(t, p, s, &w)[c.tid]
	samples, err := p.Samples(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	var n float64
	for _, sample := range samples {
		if sample.Tid == c.tid {
			n += float64(sample.Count)
		}
	}
	if want := float64(th.OnCPUWallNs) / 1e9 * 499; !emulated() && (n < want*0.9-3 || n > want*1.1+3) || n < want/2 {
		t.Errorf("%.0f samples of %.3f s on the CPU, want about %.0f", n, float64(th.OnCPUWallNs)/1e9, want)
	}
	if err := p.Remove(s); err != nil {
		t.Fatal(err)
	}
}

func TestClockPerCgroupBadInput(t *testing.T) {
	root := cgroup2Root(t)
	if _, err := Load(Options{RateHz: 99, Clock: ClockPerCgroup}); err == nil {
		t.Error("no mount point was accepted")
	}
	p := loadWith(t, Options{RateHz: 99, Clock: ClockPerCgroup, CgroupMount: root})
	if _, err := p.AddTree(uint32(os.Getpid())); err == nil {
		t.Error("a process tree was accepted")
	}
	if _, err := p.AddCgroup(1 << 40); err == nil {
		t.Error("a cgroup that does not exist was accepted")
	}
}
