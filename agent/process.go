package agent

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"github.com/prometheus/procfs"
)

// stat reads PROC/PID/stat.
func (a *Agent) stat(pid int) (procfs.ProcStat, error) {
	tree, err := procfs.NewFS(a.config.Proc)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	proc, err := tree.Proc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return proc.Stat()
}

// processes lists the target's processes as they stand, ascending.
func (a *Agent) processes(t Target) ([]int, error) {
	if t.Cgroup != "" {
		return a.roots.Processes(t.Cgroup)
	}
	tree, err := procfs.NewFS(a.config.Proc)
	if err != nil {
		return nil, err
	}
	all, err := tree.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, proc := range all {
		stat, err := proc.Stat()
		if exited(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		children[stat.PPID] = append(children[stat.PPID], proc.PID)
	}
	if !slices.ContainsFunc(all, func(proc procfs.Proc) bool { return proc.PID == int(t.Pid) }) {
		return nil, fs.ErrNotExist
	}
	pids := []int{int(t.Pid)}
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	slices.Sort(pids)
	return pids, nil
}

// rss sums the resident sets of the target's processes, in bytes; a page that
// two of them map counts twice. It answers false when there is none left.
func (a *Agent) rss(t Target) (uint64, bool) {
	pids, err := a.processes(t)
	if err != nil {
		return 0, false
	}
	var bytes uint64
	var any bool
	for _, pid := range pids {
		if stat, err := a.stat(pid); err == nil {
			bytes += uint64(stat.RSS) * uint64(os.Getpagesize())
			any = true
		}
	}
	return bytes, any
}

// exited says whether the error is that of a process that ended meanwhile.
func exited(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH)
}
