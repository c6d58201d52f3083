package agent

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// Addresses are named when a window is drained. By then a process of it may have
// ended, with its mappings and the way to its files: so both are read while it
// runs. The kernel side tells of each that begins; what it does not tell of is
// found by listing the target's processes from time to time.

// remember keeps what names the addresses of the target's processes, from shortly
// before the opening edge until the function it answers is called, which waits.
func (a *Agent) remember(w *window) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	told, deaf := a.born.listen(w.slot)
	a.follow.Go(func() {
		defer close(stopped)
		defer deaf()
		if sleepRoughly(a.ctx, w.step.at-min(w.step.at, bpf.MonoNs(preparation))) != nil {
			return
		}
		runtime.LockOSThread() // for its CPU time
		defer runtime.UnlockOSThread()
		m := memory{
			list: a.lister(w.target.Target), read: a.symbols.Remember, clock: now, used: threadUsed,
			known: map[int]*remembered{}, saved: mostSaved, counted: now(),
		}
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			var err error
			select {
			case <-timer.C:
				err = m.look()
			case pid := <-told:
				err = m.meet(int(pid))
			case <-stop:
				return
			case <-a.ctx.Done():
				return
			}
			if err != nil {
				return // the symbols are closed
			}
			timer.Reset(m.pause())
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

// threadUsed is the CPU time of the calling thread.
func threadUsed() time.Duration {
	var t unix.Timespec
	// Cannot fail: the clock exists and the pointer is valid.
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

// mostTold is how many new processes wait for a window's look. The next listing
// finds what is more, if it lives.
const mostTold = 256

// born hands what the kernel side tells of new processes to the windows of their target.
type born struct {
	mu   sync.Mutex
	ears map[bpf.Slot][]chan uint32
}

func (b *born) tell(s bpf.Slot, tgid uint32) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, ear := range b.ears[s] {
		select {
		case ear <- tgid:
		default:
		}
	}
}

// listen gives the processes that begin in a target until deaf is called.
func (b *born) listen(s bpf.Slot) (told <-chan uint32, deaf func()) {
	ear := make(chan uint32, mostTold)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ears == nil {
		b.ears = map[bpf.Slot][]chan uint32{}
	}
	b.ears[s] = append(b.ears[s], ear)
	return ear, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ears[s] = slices.DeleteFunc(b.ears[s], func(e chan uint32) bool { return e == ear })
		if len(b.ears[s]) == 0 {
			delete(b.ears, s)
		}
	}
}

// lister gives a target's processes, ascending, of which some are known already.
func (a *Agent) lister(t Target) func(known []int) ([]int, error) {
	if t.Cgroup != "" {
		return func([]int) ([]int, error) { return a.roots.Processes(t.Cgroup) }
	}
	return (&family{agent: a, root: int(t.Pid), others: map[int]bool{}}).list
}

// family finds the processes of a tree. Only those that are new on the host are
// looked at: reading them all takes milliseconds.
type family struct {
	agent  *Agent
	root   int
	others map[int]bool // processes of the host that are not of the tree
}

func (f *family) list(known []int) ([]int, error) {
	all, err := listPids(f.agent.config.Proc)
	if err != nil {
		return nil, err
	}
	own := map[int]bool{f.root: true}
	for _, pid := range known {
		own[pid] = true
	}
	lives := func(pid int) bool { _, found := slices.BinarySearch(all, pid); return found }
	maps.DeleteFunc(f.others, func(pid int, _ bool) bool { return own[pid] || !lives(pid) })
	parents := map[int]int{} // of new processes
	for _, pid := range all {
		if f.others[pid] || own[pid] {
			continue
		}
		if stat, err := f.agent.stat(pid); err == nil {
			parents[pid] = stat.PPID
		}
	}
	for more := true; more; { // numbers wrap: a child's may be lower than its parent's
		more = false
		for pid, parent := range parents {
			if own[parent] {
				own[pid], more = true, true
				delete(parents, pid)
			}
		}
	}
	for pid := range parents {
		f.others[pid] = true
	}
	maps.DeleteFunc(own, func(pid int, _ bool) bool { return !lives(pid) })
	return slices.Sorted(maps.Keys(own)), nil
}

// listPids lists the numbers of a procfs's processes, ascending.
func listPids(proc string) ([]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}
