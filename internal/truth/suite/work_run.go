//go:build linux

package suite

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// spinWork is N spinners for Length, pinned to one CPU where CPU is not below 0.
// Kind "log" notes both clocks every 100 µs; "quota" reads the cpu.stat of the
// cgroup Dir at both ends, when the cgroup is not throttled.
func spinWork(c *crew) {
	for range c.task.N {
		c.add("spinner", func(w *worker) {
			if c.task.CPU >= 0 {
				w.pin(c.task.CPU)
			}
			if c.task.Kind == "log" {
				w.Log = make([]stamp, 0, c.task.Length/(50*time.Microsecond))
			}
			if c.task.Kind == "quota" {
				w.Notes = append(w.Notes, cpuStat(c.task.Dir))
				defer func() { w.Notes = append(w.Notes, cpuStat(c.task.Dir)) }()
			}
			begin := bpf.Now()
			for next := begin; next < begin+bpf.MonoNs(c.task.Length); {
				next = bpf.Now() + 100e3
				w.burn(next)
				if c.task.Kind == "log" {
					w.Log = append(w.Log, stamp{bpf.Now(), threadCPU()})
				}
			}
		})
	}
}

func cpuStat(dir string) string {
	return string(must(os.ReadFile(filepath.Join(dir, "cpu.stat"))))
}

// roundsWork passes a byte to and fro between two workers on one CPU, N rounds
// evenly over Length. Each round takes each of them off the CPU once.
func roundsWork(c *crew) {
	serveFrom, callTo := channel("pipe")
	callFrom, serveTo := channel("pipe")
	pace := bpf.MonoNs(c.task.Length) / bpf.MonoNs(c.task.N)
	c.add("caller", func(w *worker) {
		w.pin(c.task.CPU)
		due := bpf.Now()
		for range c.task.N {
			if now := bpf.Now(); due > now+200e3 {
				w.timed(func() { w.sleep(time.Duration(due - now)) })
			}
			w.burn(due)
			due += pace
			w.timed(func() { w.write(callTo, 1); w.read(callFrom, 1) })
		}
	})
	c.add("server", func(w *worker) {
		w.pin(c.task.CPU)
		for range c.task.N {
			w.timed(func() { w.read(serveFrom, 1) })
			w.write(serveTo, 1)
		}
	})
}

// herdWork is N threads that compute for 1 ms and sleep for 5 ms in turns.
func herdWork(c *crew) {
	for range c.task.N {
		c.add("sleeper", func(w *worker) {
			for end := bpf.Now() + bpf.MonoNs(c.task.Length); bpf.Now() < end; {
				for begin := threadCPU(); threadCPU() < begin+1e6; {
					sink.Add(spin(2000))
				}
				w.timed(func() { w.sleep(5 * time.Millisecond) })
				w.NominalNs += 5e6
			}
		})
	}
}

// wanderWork moves a spinner from CPU to CPU every 2 ms, beside one spinner on each.
func wanderWork(c *crew) {
	cpus := c.task.N
	end := func() bpf.MonoNs { return bpf.Now() + bpf.MonoNs(c.task.Length) }
	for cpu := range cpus {
		c.add("resident", func(w *worker) {
			w.pin(allowedCPU(cpu))
			w.burn(end())
		})
	}
	c.add("wanderer", func(w *worker) {
		last := end()
		for i := 0; bpf.Now() < last; i++ {
			w.pin(allowedCPU(i % cpus))
			w.Waits++
			w.burn(bpf.Now() + 2e6)
		}
	})
}

// crowdWork is N threads: half are parked in the gate for good, half sleep
// several times. One is active only.
func crowdWork(c *crew) {
	const sleeps = 4
	for i := range c.task.N {
		if i%2 == 1 {
			c.add("parked", nil)
			continue
		}
		c.add("sleeper", func(w *worker) {
			for j := range sleeps {
				w.timed(func() { w.sleep(c.task.Length + time.Duration((i+7*j)%100)*c.task.Length/200) })
			}
		})
	}
}

// born is a thread or process that the work made, as told by itself.
type born struct {
	Pid    uint32     `json:"pid"`
	Tid    uint32     `json:"tid"`
	Began  bpf.MonoNs `json:"began"`
	Ended  bpf.MonoNs `json:"ended"`
	CPUNs  uint64     `json:"cpuNs"`  // since it was born
	WaitNs uint64     `json:"waitNs"` // around its own sleep
}

// nurseryWork makes N threads, one every Length, that work, sleep and end.
func nurseryWork(c *crew) {
	lives := make(chan born, c.task.N)
	c.add("mother", func(w *worker) {
		for range c.task.N {
			go live(lives)
			w.timed(func() { w.sleep(c.task.Length) })
		}
		for range c.task.N {
			c.others = append(c.others, <-lives)
		}
	})
}

func live(lives chan born) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
	b := born{Pid: uint32(unix.Getpid()), Tid: uint32(unix.Gettid()), Began: bpf.Now()}
	w := &worker{}
	w.burn(bpf.Now() + 500e3)
	t0 := bpf.Now()
	w.sleep(2 * time.Millisecond)
	b.WaitNs = uint64(bpf.Now() - t0)
	b.CPUNs, b.Ended = threadCPU(), bpf.Now()
	lives <- b
}

// napWork sleeps once for Length, and logs when.
func napWork(c *crew) {
	c.add("napper", func(w *worker) {
		w.Log = append(w.Log, stamp{bpf.Now(), threadCPU()})
		w.timed(func() { w.sleep(c.task.Length) })
		w.Log = append(w.Log, stamp{bpf.Now(), threadCPU()})
	})
	c.add("parked", nil)
}

// stoppedWork is a spinner, a sleeper and a parked thread, to be stopped from outside.
func stoppedWork(c *crew) {
	c.add("spinner", func(w *worker) {
		w.pin(c.task.CPU)
		w.burn(bpf.Now() + bpf.MonoNs(c.task.Length))
	})
	c.add("sleeper", func(w *worker) {
		for end := bpf.Now() + bpf.MonoNs(c.task.Length); bpf.Now() < end; {
			w.timed(func() { w.sleep(10 * time.Millisecond) })
		}
	})
	c.add("parked", nil)
}

// allowedCPU is the i-th CPU that the process may run on.
func allowedCPU(i int) int { return processCPUs[i%len(processCPUs)] }

// processCPUs is read before any worker pins itself.
var processCPUs = allowedCPUs()
