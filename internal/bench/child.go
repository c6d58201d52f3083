//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// This program is also its workloads: a child of its own with a task in the
// environment. A child says its worker's tid, waits for a line, works, and says
// in a line of JSON what it did by its own clocks.

const workloadEnv = "RUNG_BENCH_WORKLOAD"

var workloads = map[string]func(args []string, in *bufio.Reader) any{
	"handoff": handoff,
	"places":  places,
	"parked":  parked,
	"spin":    spin,
	"sleeps":  sleeps,
}

func runWorkload(args []string) {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // raw system calls hold what a collection would wait for
	// Sleeps as short as they say: the default slack is 50 µs.
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	fmt.Println(unix.Gettid())
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return // the parent has gone
	}
	line, err := json.Marshal(workloads[args[0]](args[1:], in))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s\n", line)
	in.ReadString('\n')
}

// child is a running workload.
type child struct {
	cmd      *exec.Cmd
	in       *os.File
	lines    *bufio.Reader
	pid, tid uint32
}

// startChild starts a workload, which waits for begin. dirs are cgroups to put it into.
func startChild(dirs []string, task ...string) (*child, error) {
	cmd := exec.Command("/proc/self/exe")
	// A signal to preempt a thread could end its sleep early.
	cmd.Env = append(os.Environ(), workloadEnv+"="+strings.Join(task, " "), "GOMAXPROCS=2", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start workload %v: %w", task, err)
	}
	c := &child{cmd: cmd, in: in.(*os.File), lines: bufio.NewReader(out), pid: uint32(cmd.Process.Pid)}
	for _, dir := range dirs {
		if err := os.WriteFile(dir+"/cgroup.procs", []byte(strconv.Itoa(int(c.pid))), 0o644); err != nil {
			return nil, errors.Join(err, c.kill())
		}
	}
	line, err := c.lines.ReadString('\n')
	tid, err2 := strconv.Atoi(strings.TrimSpace(line))
	if err := errors.Join(err, err2); err != nil {
		return nil, errors.Join(fmt.Errorf("workload %v: its first line: %w", task, err), c.kill())
	}
	c.tid = uint32(tid)
	return c, nil
}

// say sends a line; the first one lets the workload begin.
func (c *child) say(line string) error {
	_, err := c.in.WriteString(line + "\n")
	return err
}

// hear reads the workload's next line of JSON.
func (c *child) hear(v any) error {
	line, err := c.lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("workload %s ended: %w", c.cmd.Env[len(c.cmd.Env)-3], err)
	}
	return json.Unmarshal(line, v)
}

// kill ends it, and waits until it has gone. It may be called again.
func (c *child) kill() error {
	if c.cmd.ProcessState != nil {
		return nil
	}
	c.cmd.Process.Kill()
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

func loadAverage() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	v, _ := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	return v
}

func onlineCPUs() int { return runtime.NumCPU() }

// pin keeps the calling thread on one CPU.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	return unix.SchedSetaffinity(0, &set)
}

// lastCPU is where loops are pinned: interrupts mostly go to the first.
func lastCPU() (int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return 0, err
	}
	for cpu := 1023; cpu >= 0; cpu-- {
		if set.IsSet(cpu) {
			return cpu, nil
		}
	}
	return 0, errors.New("this process may run on no CPU")
}

func clockNs(id int32) int64 {
	var t unix.Timespec
	// Cannot fail: the clocks in use exist and the pointer is valid.
	_ = unix.ClockGettime(id, &t)
	return t.Nano()
}

// sleep waits as context-aware as a measurement can.
func (b *bench) sleep(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

// sleepUntil waits until an instant has passed.
func (b *bench) sleepUntil(at bpf.MonoNs) error {
	for now := bpf.Now(); now <= at; now = bpf.Now() {
		if err := b.sleep(time.Duration(at-now) + time.Microsecond); err != nil {
			return err
		}
	}
	return nil
}
