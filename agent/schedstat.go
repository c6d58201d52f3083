package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/rungprof/rung/bpf"
)

// maxOracle bounds how many threads' schedstat are read at an edge: each costs
// about 10 µs and two open files for the time around the edge.
const maxOracle = 512

// Schedstat is the scheduler's own sums for one thread since its start: an
// oracle for the account, which is made from events.
type Schedstat struct {
	RunNs, WaitNs uint64 // on-CPU (charged), and run-queue wait
	Runs          uint64 // times put on a CPU
	// Waiting: the thread may have been waiting to run when it was read. The
	// kernel adds a wait when it ends, so WaitNs may then lack up to all of it.
	Waiting bool
}

// parseSchedstat reads a /proc/PID/task/TID/schedstat file: nanoseconds run,
// nanoseconds waited to run, number of runs.
//
//	105893427 2105411 351
func parseSchedstat(text []byte) (Schedstat, error) {
	fields := bytes.Fields(text)
	if len(fields) != 3 {
		return Schedstat{}, fmt.Errorf("schedstat: %q is not three numbers", text)
	}
	var n [3]uint64
	for i, field := range fields {
		var err error
		if n[i], err = strconv.ParseUint(string(field), 10, 64); err != nil {
			return Schedstat{}, fmt.Errorf("schedstat: %q is not three numbers", text)
		}
	}
	return Schedstat{RunNs: n[0], WaitNs: n[1], Runs: n[2]}, nil
}

// oracle holds the threads' files open just before an edge, so that at the edge
// only preads are left.
type oracle struct {
	threads  []oracleThread
	warnings []string
}

type oracleThread struct {
	tid             int
	schedstat, stat *os.File
}

// openOracle opens the files of the target's threads, at most maxOracle.
func (a *Agent) openOracle(t Target) *oracle {
	o := &oracle{}
	pids, err := a.processes(t)
	if err != nil {
		return o // the target is gone, which the window tells
	}
	for _, pid := range pids {
		tasks, err := os.ReadDir(filepath.Join(a.config.Proc, strconv.Itoa(pid), "task"))
		if err != nil {
			continue // exited
		}
		for _, task := range tasks {
			tid, err := strconv.Atoi(task.Name())
			if err != nil {
				continue
			}
			if len(o.threads) == maxOracle {
				o.warn("schedstat is read of %d threads only: the target has more", maxOracle)
				return o
			}
			dir := filepath.Join(a.config.Proc, strconv.Itoa(pid), "task", task.Name())
			thread, err := openOracleThread(tid, dir)
			if exited(err) {
				continue
			}
			if err != nil {
				o.warn("no schedstat: %v", err)
				return o
			}
			o.threads = append(o.threads, thread)
		}
	}
	return o
}

func openOracleThread(tid int, dir string) (oracleThread, error) {
	schedstat, err := os.Open(filepath.Join(dir, "schedstat"))
	if err != nil {
		return oracleThread{}, err
	}
	stat, err := os.Open(filepath.Join(dir, "stat"))
	if err != nil {
		schedstat.Close()
		return oracleThread{}, err
	}
	return oracleThread{tid, schedstat, stat}, nil
}

// read reads all threads, closes their files and answers the stamp of the last read.
func (o *oracle) read() (byTid map[int]Schedstat, end bpf.MonoNs) {
	byTid = make(map[int]Schedstat, len(o.threads))
	for _, thread := range o.threads {
		stat, err := thread.read()
		if exited(err) {
			continue
		}
		if err != nil {
			o.warn("no schedstat of thread %d: %v", thread.tid, err)
			continue
		}
		byTid[thread.tid] = stat
	}
	end = now()
	o.close()
	return byTid, end
}

// read reads schedstat, the state, and schedstat again. A thread that is not
// runnable in the middle, and was not put on a CPU in between, was not waiting
// at the first reading either.
func (t oracleThread) read() (Schedstat, error) {
	var text [1024]byte
	first, err := t.readSchedstat(text[:])
	if err != nil {
		return Schedstat{}, err
	}
	n, err := syscall.Pread(int(t.stat.Fd()), text[:], 0)
	if err != nil {
		return Schedstat{}, err
	}
	asleep := !runnable(text[:n])
	again, err := t.readSchedstat(text[:])
	if err != nil {
		return Schedstat{}, err
	}
	first.Waiting = !asleep || again.Runs != first.Runs || again.WaitNs != first.WaitNs
	return first, nil
}

func (t oracleThread) readSchedstat(text []byte) (Schedstat, error) {
	n, err := syscall.Pread(int(t.schedstat.Fd()), text, 0)
	if err != nil {
		return Schedstat{}, err
	}
	return parseSchedstat(text[:n])
}

// runnable finds the state in a /proc/PID/task/TID/stat text, "71 (name) S 1 …",
// and says whether it is that of a running or waiting thread. The name may hold
// anything, so the last parenthesis counts.
func runnable(stat []byte) bool {
	i := bytes.LastIndexByte(stat, ')')
	return i < 0 || i+2 >= len(stat) || stat[i+2] == 'R'
}

func (o *oracle) close() {
	for _, thread := range o.threads {
		thread.schedstat.Close()
		thread.stat.Close()
	}
}

func (o *oracle) warn(format string, args ...any) {
	if len(o.warnings) < 3 {
		o.warnings = append(o.warnings, fmt.Sprintf(format, args...))
	}
}

// between is what a thread ran and waited between two readings; Waiting says
// that the wait is not exact. A thread born in between (startNs within) began
// at 0. It answers false when the thread was not seen at the end, or is another
// one of the same number.
func between(tid int, born bool, first, last map[int]Schedstat) (Schedstat, bool) {
	end, ok := last[tid]
	if !ok {
		return Schedstat{}, false
	}
	begin, seen := first[tid]
	if born {
		begin, seen = Schedstat{}, true
	}
	if !seen || end.RunNs < begin.RunNs || end.WaitNs < begin.WaitNs {
		return Schedstat{}, false
	}
	return Schedstat{RunNs: end.RunNs - begin.RunNs, WaitNs: end.WaitNs - begin.WaitNs, Runs: end.Runs - min(begin.Runs, end.Runs), Waiting: begin.Waiting || end.Waiting}, true
}
