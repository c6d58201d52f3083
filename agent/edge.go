package agent

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/bpf"
)

// edge is all that is read at one edge of a window.
type edge struct {
	at       bpf.MonoNs
	counters cgroup.Reading // absent figures for a process tree
	// bracketNs is the distance from the edge to the end of the counters' reading.
	bracketNs    uint64
	pressureUsec cgroup.Figure
	schedstat    map[int]Schedstat // by tid
	schedstatEnd bpf.MonoNs
	agentCPUNs   uint64
	losses       bpf.Counters
	costs        []bpf.ProgramCost
	costsErr     error
	suspendedNs  int64
	wallAheadNs  int64
	warnings     []string
}

// readEdge sleeps until an edge and reads everything there, the most urgent
// first. Its files are opened just before. An edge that has passed is read at
// once: the bracket tells. The only error is that the agent is being closed.
func (a *Agent) readEdge(w *window, at bpf.MonoNs) (edge, error) {
	e := edge{at: at}
	if err := sleepRoughly(a.ctx, at-min(at, bpf.MonoNs(preparation))); err != nil {
		return edge{}, err
	}
	oracle := a.openOracle(w.target.Target)
	calm := urgently()
	if err := sleepUntil(a.ctx, at); err != nil {
		calm()
		oracle.close()
		return edge{}, err
	}
	if w.reader != nil {
		e.counters = w.reader.Read()
	} else {
		e.counters.BeginNs = uint64(now())
		e.counters.EndNs = e.counters.BeginNs
	}
	e.bracketNs = e.counters.EndNs - min(uint64(at), e.counters.EndNs)
	e.schedstat, e.schedstatEnd = oracle.read()
	calm()
	e.agentCPUNs = agentCPUNs()
	if w.reader != nil {
		e.pressureUsec = w.reader.PressureSomeUsec()
	}
	var err error
	if e.losses, err = a.kernel.Counters(); err != nil {
		e.warn("losses are unknown: %v", err)
	}
	e.costs, e.costsErr = a.kernel.Costs()
	e.suspendedNs = suspendedNs()
	e.wallAheadNs = a.wallAheadNs()
	e.warnings = append(e.warnings, oracle.warnings...)
	return e, nil
}

// agentCPUNs is the CPU time this process has used.
func agentCPUNs() uint64 {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return uint64(usage.Utime.Nano() + usage.Stime.Nano())
}

func (e *edge) warn(format string, args ...any) {
	e.warnings = append(e.warnings, fmt.Sprintf(format, args...))
}
