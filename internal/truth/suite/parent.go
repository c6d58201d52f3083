//go:build linux

package suite

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// child is a running workload, seen from the suite.
type child struct {
	hello
	task  task
	cmd   *exec.Cmd
	in    *os.File
	out   *os.File
	lines *bufio.Reader
	shift uint64 // add it to an address of the child to get ours
}

// startChild starts a workload whose workers wait in the gate. cgroupDir "" leaves
// it where the suite runs. It ends with the calling thread, which must be locked.
func startChild(ctx context.Context, t task, cgroupDir string) (*child, error) {
	text, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	// Enough Ps that no worker waits for one after a call. A signal to preempt a
	// thread could end its sleep early, and a collection would be work of its own.
	procs := 16
	if t.big() {
		procs = 64
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), workloadEnv+"="+string(text), "GOMAXPROCS="+strconv.Itoa(procs),
		"GODEBUG=asyncpreemptoff=1", "GOGC=off")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if cgroupDir != "" {
		dir, err := os.Open(cgroupDir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start workload %s: %w", t.Name, err)
	}
	c := &child{task: t, cmd: cmd, in: in.(*os.File), out: out.(*os.File), lines: bufio.NewReader(out)}
	if err := c.answer(&c.hello, 60*time.Second); err != nil {
		c.close()
		return nil, fmt.Errorf("%w; does its program call suite.Workload first?", err)
	}
	c.shift = anchor() - c.Anchor
	return c, nil
}

// answer reads one line of the child.
func (c *child) answer(v any, patience time.Duration) error {
	c.out.SetReadDeadline(time.Now().Add(patience))
	line, err := c.lines.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, v)
	}
	if err != nil {
		return fmt.Errorf("workload %s %s: %w", c.task.Name, c.task.Kind, err)
	}
	return nil
}

// begin opens the gate.
func (c *child) begin() error {
	_, err := c.in.WriteString("go\n")
	return err
}

// result waits for the end of the work.
func (c *child) result() (r report, err error) {
	if err := c.answer(&r, 2*time.Minute); err != nil {
		return r, err
	}
	if r.Error != "" {
		return r, fmt.Errorf("workload %s %s: %s", c.task.Name, c.task.Kind, r.Error)
	}
	return r, nil
}

func (c *child) close() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// pin keeps all threads on one CPU. After the child has joined its cgroup: before
// v6.2, joining one with a cpuset takes affinities back.
func (c *child) pin(cpu int) error {
	var one unix.CPUSet
	one.Set(cpu)
	for range 2 { // a thread begins where the one that makes it may run
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Pid))
		if err != nil {
			return err
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if err := unix.SchedSetaffinity(tid, &one); err != nil && err != unix.ESRCH {
				return fmt.Errorf("pin thread %d: %w", tid, err)
			}
		}
	}
	return nil
}

// function names the function that holds an address of the child, "" for none.
func (c *child) function(address uint64) string {
	if fn := runtime.FuncForPC(uintptr(address+c.shift) - 1); fn != nil {
		// At its entry, nothing is inlined.
		return runtime.FuncForPC(fn.Entry()).Name()
	}
	return ""
}
