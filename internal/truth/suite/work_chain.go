//go:build linux

package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// linkWork is a process that works for Length, starts the next of N like it, and
// at the end of the chain becomes another program by exec. Each tells what its
// process has used.
func linkWork(c *crew) {
	c.add("link", func(w *worker) {
		w.burn(bpf.Now() + bpf.MonoNs(c.task.Length))
		w.timed(func() { w.sleep(c.task.Length) })
		if c.task.N > 0 {
			c.others = append(c.others, next(c.task)...)
		}
	})
}

// next runs the next process of the chain and answers what it and those after it say.
func next(t task) []born {
	t.N--
	text, _ := json.Marshal(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workloadEnv+"=", chainEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL} // no link outlives the one before
	out, err := cmd.Output()
	if err != nil {
		panic(fmt.Sprintf("process %d from the end of the chain: %v", t.N, err))
	}
	var all []born
	if err := json.Unmarshal(out, &all); err != nil {
		panic(fmt.Sprintf("process %d from the end of the chain: %q: %v", t.N, out, err))
	}
	return all
}

const chainEnv = "RUNG_TRUTH_CHAIN"

// chained is a process of the chain after the first. The last one execs itself
// once: what it tells then is of its second life, its CPU clock of both.
func chained(text string) {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(err)
	}
	runtime.LockOSThread()
	b := born{Pid: uint32(os.Getpid()), Tid: uint32(unix.Gettid()), Began: bpf.Now()}
	w := &worker{}
	w.burn(bpf.Now() + bpf.MonoNs(t.Length))
	t0 := bpf.Now()
	w.sleep(t.Length)
	b.WaitNs = uint64(bpf.Now() - t0)
	var after []born
	switch {
	case t.N > 0:
		after = next(t)
	case t.Kind != "again":
		t.Kind = "again"
		text, _ := json.Marshal(t)
		os.Setenv(chainEnv, string(text)) // not appended: of two, the first counts
		err := unix.Exec("/proc/self/exe", []string{"chained"}, os.Environ())
		panic(fmt.Sprintf("exec: %v", err))
	}
	var cpu unix.Timespec
	unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu)
	b.CPUNs, b.Ended = uint64(cpu.Nano()), bpf.Now()
	json.NewEncoder(os.Stdout).Encode(append([]born{b}, after...))
	os.Exit(0)
}
