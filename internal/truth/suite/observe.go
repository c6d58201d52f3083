//go:build linux

package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// attempt is one try at a case.
type attempt struct {
	ctx     context.Context
	p       *bpf.Profiler
	host    *host
	short   bool
	dir     string // for files
	room    string // cgroup of workloads that have none of their own; "" for none
	second  bool   // the first try was out of bounds
	undo    []func() error
	figures []Figure
}

// pick is the short form's value or the full form's.
func pick[T any](a *attempt, short, full T) T {
	if a.short {
		return short
	}
	return full
}

func (a *attempt) add(figures ...Figure) { a.figures = append(a.figures, figures...) }

// later runs f when the attempt is over, last in, first out.
func (a *attempt) later(f func() error) { a.undo = append(a.undo, f) }

// plan is a child's work in one window.
type plan struct {
	task   task
	cgroup string // v2 directory to start it in; "" for none
	joined func(*child) error
	// Before the window opens, the target being known; and while the work is done.
	before, during func(*child) error
	park, rows     bool          // take the stacks of sleepers; read off-CPU rows
	longest        time.Duration // of an interval; what a repair can put in the wrong place
}

// observed is what came of it. Readings of schedstat lie just outside and just
// inside each edge.
type observed struct {
	*attempt
	child    *child
	report   report
	window   bpf.Window
	list     []bpf.Thread
	threads  map[uint32]bpf.Thread // the last of each number
	rows     []bpf.OffCPU
	readings [4]map[uint32]reading
	repairs  uint64
	losses   string  // counters that rose, for Detail
	pardonNs float64 // in a second try, for repairs: added to bounds of one off-CPU state apart from others
	stolenNs float64
}

var errLate = errors.New("an edge was set too late: the machine is busy")

// observe carries out a plan.
func (a *attempt) observe(pl plan) (*observed, error) {
	c, err := startChild(a.ctx, pl.task, pl.cgroup)
	if err != nil {
		return nil, err
	}
	defer c.close()
	switch {
	case pl.joined != nil:
		err = pl.joined(c)
	case pl.cgroup == "":
		err = a.enter(c)
	}
	if err != nil {
		return nil, err
	}
	s, err := a.p.AddTree(c.Pid)
	if err != nil {
		return nil, err
	}
	a.later(func() error { return a.p.Remove(s) }) // until then its stacks can be read
	if pl.before != nil {
		if err := pl.before(c); err != nil {
			return nil, err
		}
	}
	o := &observed{attempt: a, child: c}
	counters, err := a.p.Counters()
	if err != nil {
		return nil, err
	}
	stolen, err := stolenNs()
	if err != nil {
		return nil, err
	}
	if err := o.read(0); err != nil {
		return nil, err
	}
	o.window = bpf.Window{ID: 1, Start: bpf.Now() + 30e6, BlockNs: 100e6}
	if err := a.p.Arm(s, o.window); err != nil {
		return nil, err
	}
	if bpf.Now() >= o.window.Start {
		return nil, errLate
	}
	until(o.window.Start)
	if pl.park {
		if err := a.p.Park(s); err != nil {
			return nil, err
		}
	}
	if err := o.read(1); err != nil {
		return nil, err
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	if pl.during != nil {
		if err := pl.during(c); err != nil {
			return nil, err
		}
	}
	if o.report, err = c.result(); err != nil {
		return nil, err
	}
	time.Sleep(10 * time.Millisecond) // until workers sleep, and their figures rest
	if err := o.read(2); err != nil {
		return nil, err
	}
	o.window.End = bpf.Now() + 20e6
	if err := a.p.SetEnd(s, 1, o.window.End); err != nil {
		return nil, err
	}
	if bpf.Now() >= o.window.End {
		return nil, errLate
	}
	until(o.window.End)
	if err := o.read(3); err != nil {
		return nil, err
	}
	if o.list, err = a.p.Threads(s, 1); err != nil {
		return nil, err
	}
	o.threads = byTid(o.list)
	if pl.rows {
		if o.rows, err = a.p.OffCPU(s, 1); err != nil {
			return nil, err
		}
	}
	if err := o.count(counters, pl.longest); err != nil {
		return nil, err
	}
	after, err := stolenNs()
	o.stolenNs = after - stolen
	return o, err
}

// enter moves a child to where workloads have room.
func (a *attempt) enter(c *child) error {
	if a.room == "" {
		return nil
	}
	return joinCgroup(a.room, c)
}

func byTid(list []bpf.Thread) map[uint32]bpf.Thread {
	threads := make(map[uint32]bpf.Thread, len(list))
	for _, th := range list { // in order of StartNs
		threads[th.Tid] = th
	}
	return threads
}

func (o *observed) read(i int) (err error) {
	o.readings[i], err = readings(o.child.Pid)
	return err
}

// count notes which counters have risen since.
func (o *observed) count(before bpf.Counters, longest time.Duration) error {
	after, err := o.p.Counters()
	if err != nil {
		return err
	}
	var risen []string
	repairs := map[string]uint64{}
	for _, name := range bpf.CounterNames() {
		n := after[name] - before[name]
		repair := name == "switch_in_missed" || name == "switch_out_missed"
		if repair {
			o.repairs += n
			repairs[name] = n
		}
		if n > 0 || repair {
			risen = append(risen, fmt.Sprintf("%s %d", name, n))
		}
	}
	o.losses = strings.Join(risen, ", ")
	if o.second && o.repairs > 0 {
		o.pardonNs = pardon(repairs["switch_in_missed"], repairs["switch_out_missed"], longest)
		o.losses += fmt.Sprintf(", allowed for by %.3f ms", o.pardonNs/1e6)
	}
	return nil
}

// A repair keeps sums whole and may put time under the wrong state: where a
// wakeup was not seen, a wait to run; where a switch-out was not, the interval.
// One thread is hit a few times at most.
const (
	hitsPerThread = 4
	runWaitNs     = 25e6 // beside neighbours
)

func pardon(in, out uint64, longest time.Duration) float64 {
	return float64(min(in, hitsPerThread))*runWaitNs + float64(min(out, hitsPerThread))*float64(longest)
}

func until(at bpf.MonoNs) {
	for now := bpf.Now(); now <= at; now = bpf.Now() {
		time.Sleep(time.Duration(at - now + 1))
	}
}

// gateReason is that of workers before "go" and after their work.
var gateReason = bpf.SyscallReason(unix.SYS_PPOLL, bpf.ObjectNone, false)

// worked gives the workers that had work, of a role ("" for any).
func (o *observed) worked(role string) (ws []*worker) {
	for _, w := range o.report.Workers {
		if w.Began != 0 && (role == "" || w.Role == role) {
			ws = append(ws, w)
		}
	}
	return ws
}
