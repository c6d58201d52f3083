//go:build linux

package bpf

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// quota is a cgroup with a CFS quota, on whichever hierarchy has the cpu controller.
type quota struct {
	dir string
	v1  bool
}

// makeQuota gives a child of parent (or of the root) with a quota in percent of
// one CPU, period 100 ms; 0 sets none.
func makeQuota(t *testing.T, parent *quota, percent int) *quota {
	t.Helper()
	q := &quota{}
	if parent == nil {
		for _, root := range []string{"/sys/fs/cgroup/cpu", cgroup2Root(t)} {
			if _, err := os.Stat(filepath.Join(root, "cpu.cfs_period_us")); err == nil {
				q.v1, q.dir = true, root
				break
			}
			q.dir = root
		}
	} else {
		q.v1, q.dir = parent.v1, parent.dir
	}
	if !q.v1 {
		if err := os.WriteFile(filepath.Join(q.dir, "cgroup.subtree_control"), []byte("+cpu"), 0); err != nil {
			t.Skipf("kernel test: no CPU quota here: %v", err)
		}
	}
	q.dir, _ = makeCgroup(t, q.dir, fmt.Sprintf("rung-quota-%d-%d", os.Getpid(), percent))
	if percent > 0 {
		// The weight, the most there is, lets it spend the quota beside busy neighbours.
		files := map[string]string{"cpu.max": fmt.Sprintf("%d 100000", percent*1000), "cpu.weight": "10000"}
		if q.v1 {
			files = map[string]string{"cpu.cfs_quota_us": fmt.Sprint(percent * 1000), "cpu.shares": "262144"}
		}
		for file, text := range files {
			if err := os.WriteFile(filepath.Join(q.dir, file), []byte(text), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return q
}

// join moves a whole process in, and out by its death before the cgroup goes.
func (q *quota) join(t *testing.T, c *child) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(q.dir, "cgroup.procs"), []byte(fmt.Sprint(c.pid)), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.cmd.Process.Kill(); c.cmd.Wait() })
}

// pin keeps all threads of a child on one CPU. After it has joined its cgroup:
// before v6.2, joining one with a cpuset takes affinities back.
func (c *child) pin(cpu int) {
	c.t.Helper()
	var one unix.CPUSet
	one.Set(cpu)
	for range 2 { // a thread begins where the one that makes it may run
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.pid))
		if err != nil {
			c.t.Fatal(err)
		}
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if err := unix.SchedSetaffinity(tid, &one); err != nil && err != unix.ESRCH {
				c.t.Fatalf("pin thread %d: %v", tid, err)
			}
		}
	}
}

// stat reads nr_throttled and the throttled time in ns from cpu.stat.
func (q *quota) stat(t *testing.T) (times, ns uint64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(q.dir, "cpu.stat"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch key {
		case "nr_throttled":
			times = n
		case "throttled_time":
			ns = n
		case "throttled_usec":
			ns = n * 1000
		}
	}
	return times, ns
}

// rest waits until nothing is throttled any more, and gives what was by then.
func (q *quota) rest(t *testing.T) (times, ns uint64) {
	t.Helper()
	for range 20 {
		times, ns = q.stat(t)
		time.Sleep(250 * time.Millisecond) // two periods and more
		if again, _ := q.stat(t); again == times {
			return times, ns
		}
	}
	t.Fatal("the cgroup was throttled for 5 s with nothing to do")
	return 0, 0
}

// asleep waits until the working thread is asleep, and gives when that was seen.
func (c *child) asleep() MonoNs {
	c.t.Helper()
	for !contains(c.t, fmt.Sprintf("/proc/%d/task/%d/stat", c.pid, c.tid), ") S ") {
		time.Sleep(time.Millisecond)
	}
	return Now()
}

// A pinned spinner under a quota is off the CPU only while it is throttled or
// waits to run: its own clocks and cpu.stat say for how long. The quota may be
// its own cgroup's or one above.
func TestThrottledSpinner(t *testing.T) {
	p := load(t, 99)
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name    string
		percent int
		nested  bool
	}{{"10 %", 10, false}, {"50 %", 50, false}, {"50 % in the pod", 50, true}} {
		t.Run(test.name, func(t *testing.T) {
			outer := makeQuota(t, nil, test.percent)
			inner := outer
			if test.nested {
				inner = makeQuota(t, outer, 0)
			}
			c := startWorkload(t, "", "spin", "2s")
			inner.join(t, c)
			c.pin(cpus[len(cpus)-1]) // cpu.stat adds up the CPUs of a cgroup
			s := tree(t, p, c)
			defer p.Remove(s)
			w := arm(t, p, s, 1)
			times0, stat0 := outer.rest(t)
			c.start()
			want := c.result()
			_, worked := outer.stat(t)
			asleep := c.asleep()
			// What its last steps have overdrawn may be throttled while it sleeps: in
			// cpu.stat then, and nobody's time.
			times, rested := outer.rest(t)
			times, worked, rested = times-times0, worked-stat0, rested-stat0
			th := finish(t, p, s, &w)[c.tid]

			off := th.RunQueueNs + th.ThrottledNs
			for _, b := range th.Blocked {
				if b.Reason != pollReason {
					off += b.Ns
				}
			}
			off = uint64(int64(off) + th.RunQueueSkewNs) // the CPU clock goes by the queue's clock
			truth := want.WallNs - want.CPUNs
			t.Logf("throttled %.4f s + run-queue wait %.4f s (slack %.4f), wall - CPU clock %.4f s; cpu.stat %.4f to %.4f s in %d periods",
				float64(th.ThrottledNs)/1e9, float64(th.RunQueueNs)/1e9, float64(th.ThrottledSlackNs)/1e9,
				float64(truth)/1e9, float64(worked)/1e9, float64(rested)/1e9, times)
			// Before and after its work it waits for the CPU too, to begin and to say so.
			around := uint64(want.Began-c.told) + uint64(asleep-want.Ended)
			tellTruth(t, "quota", outside(float64(off), float64(truth), float64(truth+around), float64(want.WallNs)))
			if err := within(off, truth, truth/500+4000*th.Switches+around); err != nil {
				t.Errorf("throttled + run-queue wait: %v; %+v", err, th)
			}
			if worked == 0 {
				t.Fatal("the cgroup was never throttled: the test shows nothing")
			}
			lo, hi := float64(th.ThrottledNs), float64(th.ThrottledNs+th.ThrottledSlackNs)
			apart := max(outside(lo, 0, float64(rested), float64(worked)), outside(hi, float64(worked), hi, float64(worked)))
			tellTruth(t, "throttled", apart)
			if apart > 1 {
				t.Errorf("throttled for %.0f to %.0f ns, cpu.stat says %d to %d", lo, hi, worked, rested)
			}
			if th.ThrottledSlackNs > times*100e6 {
				t.Errorf("the bound is %d ns wide after %d throttlings", th.ThrottledSlackNs, times)
			}
		})
	}
}

// Windows shorter than a throttling, edge to edge: many open and close within
// one, and each knows the stack that its throttled time is spent in.
func TestThrottledAcrossEdges(t *testing.T) {
	p := load(t, 99)
	for try := range 3 {
		var throttled bool
		t.Run(fmt.Sprint(try), func(t *testing.T) { throttled = throttledAcrossEdges(t, p) })
		if throttled || t.Failed() {
			return
		}
		t.Log("neighbours left it too little of the CPU to be throttled")
	}
	t.Error("it was not throttled, three times over: the test shows nothing")
}

func throttledAcrossEdges(t *testing.T, p *Profiler) bool {
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	q := makeQuota(t, nil, 10)
	c := startWorkload(t, "", "spin", "1500ms")
	q.join(t, c)
	c.pin(cpus[len(cpus)-1])
	s := tree(t, p, c)
	defer p.Remove(s)
	c.start()
	_, stat0 := q.stat(t)
	var throttled, gaps uint64
	start := Now() + 100e6
	before := Now()
	for id := uint32(1); id <= 20; id++ {
		w := Window{ID: id, Start: start, End: start + 50e6, BlockNs: 10e6}
		if err := p.Arm(s, w); err != nil {
			t.Fatal(err)
		}
		gaps += uint64(w.Start - before)
		until(w.Start)
		if err := p.Park(s); err != nil {
			t.Fatal(err)
		}
		late := uint64(Now() - w.Start)
		until(w.End)
		before = w.End
		th := threadsOf(t, p, s, id)[c.tid]
		rows, err := p.OffCPU(s, id)
		if err != nil {
			t.Fatal(err)
		}
		var sum, lost uint64
		for _, r := range rows {
			if r.Tid != c.tid || r.State != StateThrottled {
				continue
			}
			sum += r.WeightNs
			if functions(t, p, r.StackHash) == "" {
				lost += r.WeightNs
			}
		}
		throttled += th.ThrottledNs
		// All intervals are drawn, so long as they are fewer than the budget. The
		// one that ends before Park reaches it has no stack.
		// Where throttled time has a bound, it is somewhere within that.
		got, slack := sum-lost, th.ThrottledNs/20+1e6+late
		if got+slack < th.ThrottledNs || got > th.ThrottledNs+th.ThrottledSlackNs+slack {
			t.Errorf("window %d: %d ns of throttled time have a stack; %+v", id, got, th)
		}
		if err := p.Release(s, id); err != nil {
			t.Fatal(err)
		}
		start = max(w.End, Now()+ahead())
	}
	_, stat := q.stat(t)
	gaps += uint64(Now() - before)
	c.result()
	if stat -= stat0; stat < 300e6 {
		return false
	}
	t.Logf("throttled %d ms in the windows, cpu.stat %d ms with %d ms between them", throttled/1e6, stat/1e6, gaps/1e6)
	// cpu.stat counts a throttling when it ends, here of up to 100 ms.
	if throttled > stat+100e6 || throttled+gaps+100e6 < stat {
		t.Errorf("throttled %d ns in the windows, cpu.stat %d with %d between them", throttled, stat, gaps)
	}
	return true
}
