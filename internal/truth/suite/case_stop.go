//go:build linux

package suite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// brake stops a child and lets it go on.
type brake struct {
	stop, resume func(*child) error
	stopped      func(*child) (bool, error)
}

// bySignal stops the whole process.
func bySignal() brake {
	send := func(s unix.Signal) func(*child) error {
		return func(c *child) error { return unix.Kill(int(c.Pid), s) }
	}
	return brake{send(unix.SIGSTOP), send(unix.SIGCONT), func(c *child) (bool, error) {
		all := true
		for _, w := range c.Workers {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stat", c.Pid, w.Tid))
			if err != nil {
				return false, err
			}
			all = all && stateOf(text) == 'T'
		}
		return all, nil
	}}
}

// byFreezer stops a v2 cgroup.
func byFreezer(dir string) brake {
	write := func(value string) func(*child) error {
		return func(*child) error {
			return os.WriteFile(filepath.Join(dir, "cgroup.freeze"), []byte(value), 0)
		}
	}
	return brake{write("1"), write("0"), func(*child) (bool, error) {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.events"))
		return bytes.Contains(text, []byte("frozen 1")), err
	}}
}

// stopTimes is how long a child was stopped, as seen by who stops it: for at
// least low, at most high.
type stopTimes struct{ low, high bpf.MonoNs }

// hold stops a child, and lets it go on after `f`.
func (b brake) hold(c *child, f func() error) (from, began, cont, gone bpf.MonoNs, err error) {
	wait := func(want bool) error {
		for range 20_000 {
			is, err := b.stopped(c)
			if err != nil || is == want {
				return err
			}
			time.Sleep(time.Millisecond)
		}
		return fmt.Errorf("stopped is not %v after twenty seconds", want)
	}
	from = bpf.Now()
	if err = b.stop(c); err != nil {
		return
	}
	if err = wait(true); err != nil {
		return
	}
	began = bpf.Now()
	if err = f(); err != nil {
		return
	}
	cont = bpf.Now()
	if err = b.resume(c); err != nil {
		return
	}
	err = wait(false)
	gone = bpf.Now()
	return
}

// stops stops a spinner, a sleeper and a parked thread three times within the
// window, or once, before they work, across its opening edge.
func stops(a *attempt, kind string, atEdge bool) error {
	pl := plan{task: task{Name: "stopped", Length: pick(a, 1*time.Second, 2*time.Second), CPU: a.host.last()}, longest: 20 * time.Millisecond}
	b := bySignal()
	if kind == "freezer" {
		if a.host.cgroup2 == "" {
			return fmt.Errorf("no cgroup v2 hierarchy is mounted: mount one, or leave the freezer cases out")
		}
		dir, remove, err := makeCgroup(a.host.cgroup2, "freezer")
		if err != nil {
			return err
		}
		a.later(remove)
		pl.cgroup, b = dir, byFreezer(dir)
	}
	var held stopTimes
	note := func(opened, from, began, cont, gone bpf.MonoNs) {
		held.low += cont - max(began, opened)
		held.high += gone - max(from, opened)
	}
	var resumed chan error
	var from, began, cont, gone bpf.MonoNs
	times := 3
	if atEdge {
		times = 1
		resumed = make(chan error, 1)
		stopped := make(chan struct{})
		pl.before = func(c *child) error {
			go func() {
				var err error
				from, began, cont, gone, err = b.hold(c, func() error {
					close(stopped)
					time.Sleep(300 * time.Millisecond)
					return nil
				})
				resumed <- err
			}()
			select {
			case <-stopped:
				return nil
			case err := <-resumed:
				return err
			}
		}
		pl.during = func(*child) error { return <-resumed }
	} else {
		pl.during = func(c *child) error {
			for range times {
				time.Sleep(50 * time.Millisecond)
				f, bg, ct, g, err := b.hold(c, func() error { time.Sleep(100 * time.Millisecond); return nil })
				if err != nil {
					return err
				}
				note(0, f, bg, ct, g)
			}
			return nil
		}
	}
	o, err := a.observe(pl)
	if err != nil {
		return err
	}
	if atEdge {
		if began > o.window.Start {
			return errLate
		}
		note(o.window.Start, from, began, cont, gone)
	}
	o.everyCase()
	var gaps []gap
	for _, w := range o.report.Workers {
		th := o.threads[w.Tid]
		s := slack(clockPart, float64(held.low), uint64(times)) + o.pardonNs
		gaps = append(gaps, gap{who(w), float64(held.low), float64(th.StoppedNs), s, s + float64(held.high-held.low), uint64(times)})
	}
	o.add(worst("stopped", "stop", gaps, "clock of who stops it"))
	if !atEdge {
		o.add(o.spunOff("spinner", "stopped + run-queue wait", nil))
		return nil
	}
	// It was stopped in the gate, before its work.
	o.add(o.spunOff("spinner", "run-queue wait after it", func(th bpf.Thread) uint64 { return th.StoppedNs }))
	return nil
}
