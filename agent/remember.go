package agent

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// Addresses are named when a window is drained. By then a process of it may have
// ended, with its mappings and the way to its files: so both are read while it
// runs. What lives for less than the time between two looks is lost.

const (
	// A look at the processes takes at most one part in lookShare of the time, and
	// comes this often.
	lookShare              = 100
	shortestLook, longLook = 20 * time.Millisecond, time.Second
	// A process's mappings are read again after this, and then twice that, and so
	// on: programs are executed and libraries loaded early in its life.
	shortestRead, longestRead = 20 * time.Millisecond, 10 * time.Second
	// mostRemembered bounds the processes that are looked after in a window.
	mostRemembered = 1024
)

// remember keeps what names the addresses of the target's processes, from shortly
// before the opening edge until the function it answers is called, which waits.
func (a *Agent) remember(w *window) (done func()) {
	stop, stopped := make(chan struct{}), make(chan struct{})
	a.follow.Go(func() {
		defer close(stopped)
		if sleepRoughly(a.ctx, w.step.at-min(w.step.at, bpf.MonoNs(preparation))) != nil {
			return
		}
		m := memory{agent: a, target: w.target.Target, known: map[int]*remembered{}, others: map[int]bool{}}
		timer := time.NewTimer(0)
		defer timer.Stop()
		for {
			select {
			case <-timer.C:
			case <-stop:
				return
			case <-a.ctx.Done():
				return
			}
			began := now()
			if m.look(began) != nil {
				return
			}
			timer.Reset(min(max(lookShare*time.Duration(now()-began), shortestLook), longLook))
		}
	})
	return sync.OnceFunc(func() {
		close(stop)
		<-stopped
	})
}

// memory is what is known of a target's processes in a window.
type memory struct {
	agent  *Agent
	target Target
	known  map[int]*remembered
	others map[int]bool // processes of the host that are not the target's; of a process tree only
}

// remembered is a process whose mappings were read.
type remembered struct {
	due bpf.MonoNs // when they are read again
	gap time.Duration
}

// look remembers new processes, and those that are due again. The only error is
// that the symbols are closed.
func (m *memory) look(at bpf.MonoNs) error {
	pids, err := m.processes()
	if err != nil {
		return nil // the window tells that the target is gone
	}
	maps.DeleteFunc(m.known, func(pid int, _ *remembered) bool { _, found := slices.BinarySearch(pids, pid); return !found })
	for _, pid := range pids {
		p := m.known[pid]
		switch {
		case p == nil && len(m.known) >= mostRemembered:
			continue
		case p == nil:
			p = &remembered{gap: shortestRead}
			m.known[pid] = p
		case at < p.due:
			continue
		default:
			p.gap = min(2*p.gap, longestRead)
		}
		p.due = at + bpf.MonoNs(p.gap)
		if err := m.agent.symbols.Remember(uint32(pid)); errors.Is(err, symbol.ErrClosed) {
			return err
		}
	}
	return nil
}

// processes lists the target's processes, ascending. Of a tree, only those that
// are new on the host are looked at: reading them all takes milliseconds.
func (m *memory) processes() ([]int, error) {
	if m.target.Cgroup != "" {
		return m.agent.roots.Processes(m.target.Cgroup)
	}
	all, err := listPids(m.agent.config.Proc)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(m.others, func(pid int, _ bool) bool { _, found := slices.BinarySearch(all, pid); return !found })
	var own []int
	mine := map[int]bool{int(m.target.Pid): true}
	for pid := range m.known {
		mine[pid] = true
	}
	unsettled := map[int]int{} // parents of new processes
	for _, pid := range all {
		switch {
		case m.others[pid]:
		case mine[pid]:
			own = append(own, pid)
		default:
			if stat, err := m.agent.stat(pid); err == nil {
				unsettled[pid] = stat.PPID
			}
		}
	}
	for more := true; more; { // numbers wrap: a child's may be lower than its parent's
		more = false
		for pid, parent := range unsettled {
			if mine[parent] {
				mine[pid], more = true, true
				own = append(own, pid)
				delete(unsettled, pid)
			}
		}
	}
	for pid := range unsettled {
		m.others[pid] = true
	}
	slices.Sort(own)
	return own, nil
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
