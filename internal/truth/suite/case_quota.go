//go:build linux

package suite

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// quota is a cgroup with a CFS quota, on whichever hierarchy has the CPU controller.
type quota struct{ dir string }

// makeQuota makes one of a percentage of one CPU, per period of 100 ms.
func (a *attempt) makeQuota(percent int) (*quota, error) {
	root, v1, err := a.host.cpuController()
	if err != nil {
		return nil, fmt.Errorf("%w, or leave the quota cases out", err)
	}
	dir, remove, err := makeCgroup(root, fmt.Sprintf("quota-%d", percent))
	if err != nil {
		return nil, err
	}
	a.later(remove)
	file, text := "cpu.max", fmt.Sprintf("%d 100000", percent*1000)
	if v1 {
		file, text = "cpu.cfs_quota_us", strconv.Itoa(percent*1000)
	}
	if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0); err != nil {
		return nil, fmt.Errorf("set a quota: %w", err)
	}
	// Most of the CPU while there is quota: beside neighbours, too, it is the quota
	// that holds the spinner back.
	return &quota{dir}, weigh(dir, v1, 256)
}

func (q *quota) join(c *child) error { return joinCgroup(q.dir, c) }

// parseCPUStat reads how often and for how long a cgroup was throttled, over its CPUs.
func parseCPUStat(text string) (times, ns uint64, err error) {
	found := 0
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		unit := map[string]uint64{"nr_throttled": 1, "throttled_time": 1, "throttled_usec": 1000}[key]
		if unit == 0 {
			continue
		}
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("cpu.stat: %s: %w", line, err)
		}
		found++
		if key == "nr_throttled" {
			times = n
		} else {
			ns = n * unit
		}
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("cpu.stat has no throttled time: %q", text)
	}
	return times, ns, nil
}

// underQuota: a pinned spinner is off the CPU only while its cgroup is throttled
// or it waits to run.
func underQuota(a *attempt, percent int) error {
	q, err := a.makeQuota(percent)
	if err != nil {
		return err
	}
	length := pick(a, 2*time.Second, 8*time.Second)
	o, err := a.observe(plan{
		task: task{Name: "spin", Kind: "quota", N: 1, Length: length, CPU: a.host.last(), Dir: q.dir},
		joined: func(c *child) error { // cpu.stat adds up the CPUs of a cgroup
			return errors.Join(q.join(c), c.pin(a.host.last()))
		},
		longest: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	o.everyCase()
	f := o.spunOff("spinner", "throttled + run-queue wait", nil)
	w := o.worked("spinner")[0]
	times, stat, err := parseCPUStat(w.Notes[0])
	if err != nil {
		return err
	}
	timesAfter, statAfter, err := parseCPUStat(w.Notes[1])
	if err != nil {
		return err
	}
	times, stat = timesAfter-times, statAfter-stat
	th := o.threads[w.Tid]
	f.Detail = join(f.Detail, fmt.Sprintf("throttled %.4f s, run-queue wait %.4f s", float64(th.ThrottledNs)/1e9, float64(th.RunQueueNs)/1e9))
	o.add(f)
	// Only a bound on kernels before 6.6; elsewhere the slack is 0.
	part := float64(stat) / 100
	o.add(worst("throttled, cpu.stat", "period", []gap{{who(w), float64(stat), float64(th.ThrottledNs), part + float64(th.ThrottledSlackNs), part, times}}, ""),
		newFigure("periods throttled", "periods", length.Seconds()*10, float64(times), -length.Seconds()*5, length.Seconds(), "fewer would show little"))
	if th.ThrottledSlackNs > 0 {
		o.add(newFigure("width of the bound", "ms", 0, float64(th.ThrottledSlackNs)/1e6, 0, 100*float64(times), "one period per throttling"))
	}
	return nil
}
