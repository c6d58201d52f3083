package attribution

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Thread is the account of one thread over a window, as the agent measured it:
// LifetimeNs = OnCPUWallNs + RunQueueNs + throttled + Σ Blocked + StoppedNs.
type Thread struct {
	Tid, Tgid uint32
	Comm      string
	// Group is the thread group; "" means that of the rules, else ThreadGroup(Comm).
	Group string
	// Folded is the number of threads that the row is the sum of, 0 for one thread.
	Folded int
	// LifetimeNs is the part of the window in which the thread existed.
	LifetimeNs uint64
	// OnCPUWallNs is between switch stamps; OnCPUChargedNs what the kernel
	// charged to the cgroup.
	OnCPUWallNs, OnCPUChargedNs uint64
	// RunQueueNs contains throttled time unless ThrottledLoNs is set; then it
	// contains at most ThrottledHiNs − ThrottledLoNs of it.
	RunQueueNs                   uint64
	ThrottledLoNs, ThrottledHiNs *uint64
	// What the run queue's own clock adds to OnCPUWallNs, and to RunQueueNs with
	// throttled time: see rungv1.Thread.
	OnCPUSkewNs, RunQueueSkewNs int64
	Blocked                     []Blocked
	StoppedNs                   uint64
	Switches                    uint64
	// Schedstat of the kernel over the same window: the oracle; nil: not read.
	SchedstatRunNs, SchedstatWaitNs *uint64
}

// Blocked is time a thread was blocked for one reason.
type Blocked struct {
	// Reason is a syscall's name, or "page fault", "disk", "kernel", "other".
	Reason string
	// Object is the kind of file the syscall waits on: "pipe", "socket", …; ""
	// for none, or not known.
	Object string
	// Limited: the wait had a timeout.
	Limited   bool
	Ns        uint64
	Intervals uint64
}

// Account is the time of all threads of a target, by thread group. Each row adds
// up: Lifetime = OnCPU + RunQueue + Throttled.Lo + Σ Blocked + Idle + Stopped +
// Residual, in whole nanoseconds.
type Account struct {
	WindowNs int64 `json:"windowNs"`
	// Groups by descending busy time (lifetime less idle), then name.
	Groups []AccountRow `json:"groups"`
	// Total is the sum of Groups.
	Total AccountRow `json:"total"`
	// ThrottledSeparated: throttled time was told apart for every thread that
	// waited; otherwise it is contained in RunQueue.
	ThrottledSeparated bool `json:"throttledSeparated"`
	// Notes of the idle rules that took effect: what they cannot tell apart.
	Notes    []string `json:"notes,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// AccountRow is one thread group's time.
type AccountRow struct {
	Group    string     `json:"group"`
	Threads  int        `json:"threads"`
	Lifetime ThreadTime `json:"lifetime"`
	OnCPU    ThreadTime `json:"onCpu"` // wall
	Charged  ThreadTime `json:"onCpuCharged"`
	RunQueue ThreadTime `json:"runQueue"`
	// Throttled is absent when it was not told apart.
	Throttled *ThreadRange `json:"throttled,omitempty"`
	// Blocked holds what no idle rule took, by descending time.
	Blocked []ReasonRow `json:"blocked"`
	// BlockedTotal is the sum of Blocked.
	BlockedTotal ThreadTime `json:"blockedTotal"`
	// Idle is blocked time of threads waiting for work, with its reasons.
	Idle        ThreadTime  `json:"idle"`
	IdleReasons []ReasonRow `json:"idleReasons,omitempty"`
	Stopped     ThreadTime  `json:"stopped"`
	// Residual is lifetime less all states; not 0 means the account leaks.
	Residual ThreadTime `json:"residual"`
	Switches uint64     `json:"switches"`
}

// ThreadTime is time summed over threads: in nanoseconds, and in mean threads
// (thread-seconds per second of the window).
type ThreadTime struct {
	Ns          int64   `json:"ns"`
	MeanThreads float64 `json:"meanThreads"`
}

// ThreadRange is a bound [Lo, Hi] on time summed over threads.
type ThreadRange struct {
	Lo ThreadTime `json:"lo"`
	Hi ThreadTime `json:"hi"`
}

// ReasonRow is blocked time for one reason: a syscall with the kind of file it
// waits on and whether the wait had a timeout.
type ReasonRow struct {
	Reason    string     `json:"reason"`
	Object    string     `json:"object,omitempty"`
	Limited   bool       `json:"limited,omitempty"`
	Time      ThreadTime `json:"time"`
	Intervals uint64     `json:"intervals"`
	// Wakers ended the intervals: absent until AddWakers.
	Wakers []WakerRow `json:"wakers,omitempty"`
}

func (r *ReasonRow) key() waitReason { return waitReason{r.Reason, r.Object, r.Limited} }

// Name is the row's reason for people.
func (r *ReasonRow) Name() string { return ReasonName(r.Reason, r.Object, r.Limited) }

// ReasonName puts a reason's parts together: "read (pipe)", "futex, timed".
// Sleeps are timed by their nature, which is not said.
func ReasonName(reason, object string, limited bool) string {
	name := reason
	if object != "" {
		name += " (" + object + ")"
	}
	if limited && !strings.Contains(reason, "nanosleep") {
		name += ", timed"
	}
	return name
}

// NewAccount sums threads by group. Rules r say which waits are idle; nil: none.
func NewAccount(threads []Thread, windowNs int64, r *Rules) (*Account, error) {
	if windowNs <= 0 {
		return nil, fmt.Errorf("window of %d ns: want a length", windowNs)
	}
	a := &Account{WindowNs: windowNs, ThrottledSeparated: true}
	sums := map[string]*groupSum{}
	total := &groupSum{}
	for i := range threads {
		t := &threads[i]
		group := cmp.Or(t.Group, r.Grouper().Group(t.Comm, t.Tid))
		g := sums[group]
		if g == nil {
			g = &groupSum{}
			sums[group] = g
		}
		if t.ThrottledLoNs == nil && t.RunQueueNs > 0 {
			a.ThrottledSeparated = false
		}
		for _, b := range t.Blocked {
			idle, note := false, ""
			if r != nil {
				idle, note = r.isIdle(group, t.Comm, b.Reason)
			}
			if note != "" && !slices.Contains(a.Notes, note) {
				a.Notes = append(a.Notes, note)
			}
			g.block(b, idle)
			total.block(b, idle)
		}
		g.add(t)
		total.add(t)
	}
	slices.Sort(a.Notes)
	for name, g := range sums {
		a.Groups = append(a.Groups, g.row(name, windowNs))
	}
	slices.SortFunc(a.Groups, func(x, y AccountRow) int {
		return cmp.Or(cmp.Compare(y.Lifetime.Ns-y.Idle.Ns, x.Lifetime.Ns-x.Idle.Ns), cmp.Compare(x.Group, y.Group))
	})
	a.Total = total.row("total", windowNs)
	if len(threads) == 0 {
		a.Warnings = append(a.Warnings, "no thread: the target had none, or the account was not taken")
	}
	if ns := a.Total.Residual.Ns; ns != 0 {
		a.Warnings = append(a.Warnings, fmt.Sprintf("the states of the threads miss their lifetime by %d ns", ns))
	}
	return a, nil
}

// groupSum adds threads up in whole nanoseconds. Sums of a hostile record wrap;
// of a real one (2^63 ns are 292 thread-years) they do not.
type groupSum struct {
	threads                                     int
	lifetime, onCPU, charged, runQueue, stopped int64
	throttledLo, throttledHi                    int64
	throttled                                   bool
	blocked, idle                               map[waitReason]waitTime
	switches                                    uint64
}

func (g *groupSum) add(t *Thread) {
	g.threads += max(1, t.Folded)
	g.lifetime += int64(t.LifetimeNs)
	g.onCPU += int64(t.OnCPUWallNs)
	g.charged += int64(t.OnCPUChargedNs)
	g.runQueue += int64(t.RunQueueNs)
	g.stopped += int64(t.StoppedNs)
	g.switches += t.Switches
	if t.ThrottledLoNs != nil {
		lo := *t.ThrottledLoNs
		hi := lo
		if t.ThrottledHiNs != nil {
			hi = *t.ThrottledHiNs
		}
		g.throttled = true
		g.throttledLo += int64(lo)
		g.throttledHi += int64(hi)
	}
}

func (g *groupSum) block(b Blocked, idle bool) {
	m := &g.blocked
	if idle {
		m = &g.idle
	}
	if *m == nil {
		*m = map[waitReason]waitTime{}
	}
	key := waitReason{b.Reason, b.Object, b.Limited}
	sum := (*m)[key]
	(*m)[key] = waitTime{sum.ns + b.Ns, sum.intervals + b.Intervals}
}

// waitReason is what the rows of blocked time differ by.
type waitReason struct {
	reason, object string
	limited        bool
}

func (w waitReason) compare(o waitReason) int {
	return cmp.Or(cmp.Compare(w.reason, o.reason), cmp.Compare(w.object, o.object), compareBool(w.limited, o.limited))
}

type waitTime struct{ ns, intervals uint64 }

func (g *groupSum) row(name string, windowNs int64) AccountRow {
	mean := func(ns int64) ThreadTime { return ThreadTime{ns, float64(ns) / float64(windowNs)} }
	reasons := func(m map[waitReason]waitTime) (rows []ReasonRow, sum int64) {
		for key, b := range m {
			rows = append(rows, ReasonRow{Reason: key.reason, Object: key.object, Limited: key.limited,
				Time: mean(int64(b.ns)), Intervals: b.intervals})
			sum += int64(b.ns)
		}
		slices.SortFunc(rows, func(x, y ReasonRow) int {
			return cmp.Or(cmp.Compare(y.Time.Ns, x.Time.Ns), x.key().compare(y.key()))
		})
		return rows, sum
	}
	row := AccountRow{
		Group: name, Threads: g.threads, Lifetime: mean(g.lifetime), OnCPU: mean(g.onCPU), Charged: mean(g.charged),
		RunQueue: mean(g.runQueue), Stopped: mean(g.stopped), Switches: g.switches,
	}
	if g.throttled {
		row.Throttled = &ThreadRange{mean(g.throttledLo), mean(g.throttledHi)}
	}
	var blocked, idle int64
	row.Blocked, blocked = reasons(g.blocked)
	row.IdleReasons, idle = reasons(g.idle)
	row.BlockedTotal, row.Idle = mean(blocked), mean(idle)
	row.Residual = mean(g.lifetime - g.onCPU - g.runQueue - g.throttledLo - blocked - idle - g.stopped)
	return row
}
