package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rungprof/rung/attribution"
)

// layoutAccounts adds, for each arm, the account of its top step: states down,
// thread groups across, in mean threads.
func layoutAccounts(d *document, r *Report, width int) {
	d.add(heading{2, "Account of the threads at each arm's top step, in mean threads"})
	separated, any := true, false
	for i := range r.Arms {
		a := &r.Arms[i]
		top := a.TopStep()
		if top == nil {
			d.add(heading{3, a.Name}, para{"No account: " + accountMissing(a) + "."})
			continue
		}
		any = true
		separated = separated && top.Account.ThrottledSeparated
		title := fmt.Sprintf("%s · step %s", a.Name, top.Name)
		if !top.Account.ThrottledSeparated {
			title += " · its record does not tell throttled apart: that is inside run-queue wait"
		}
		d.add(heading{3, title}, accountTable(top.Account, width))
		var notes []string
		if idle := reasonsText(top.Account.Total.IdleReasons); idle != "" {
			notes = append(notes, "idle is blocked in "+idle)
		}
		if t := top.Account.Total.Throttled; t != nil && t.Hi.Ns != t.Lo.Ns {
			notes = append(notes, fmt.Sprintf("throttled lies between %s and %s; what is above the lower bound is inside run-queue wait",
				number(t.Lo.MeanThreads, 3), number(t.Hi.MeanThreads, 3)))
		}
		notes = append(notes, wakerNotes(top.Account)...)
		notes = append(notes, top.Account.Notes...)
		notes = append(notes, top.Account.Warnings...)
		d.note(notes)
		for _, o := range top.Others {
			layoutOther(d, a, top, o, width)
		}
	}
	if any {
		d.explain(accountLegend(separated))
	}
}

// layoutOther adds the account of a target beside the arm.
func layoutOther(d *document, a *Arm, top *Step, o Other, width int) {
	title := fmt.Sprintf("%s · step %s · beside it %s", a.Name, top.Name, o.Name)
	if o.Cores != nil && o.CPUMsPerRequest != nil {
		title += fmt.Sprintf(": %s cores, %s ms of CPU for each of the arm's requests", fixed(3)(*o.Cores), perRequest(*o.CPUMsPerRequest))
	}
	d.add(heading{3, title})
	if o.Account == nil {
		d.add(para{"No account: its record holds no window."})
	} else {
		d.add(accountTable(o.Account, width))
		d.note(append(wakerNotes(o.Account), o.Account.Notes...))
	}
	d.note(o.Warnings)
}

func accountMissing(a *Arm) string {
	for _, s := range a.Steps {
		if reason := s.Absent["account"]; reason != "" && !s.Warmup {
			return reason
		}
	}
	return "no step has a record of its threads"
}

// state is one row of an account: a part of the lifetime.
type state struct {
	name string
	of   func(*attribution.AccountRow) int64
}

// shownThreads is the least time, in mean threads, for which a reason has a row
// of its own: less would print as 0.000.
const shownThreads = 0.0005

// states lists the rows that an account needs. Together they are the lifetime.
func states(a *attribution.Account) []state {
	list := []state{
		{"on-CPU", func(r *attribution.AccountRow) int64 { return r.OnCPU.Ns }},
		{"run-queue wait", func(r *attribution.AccountRow) int64 { return r.RunQueue.Ns }},
	}
	if a.Total.Throttled != nil {
		list = append(list, state{"throttled", func(r *attribution.AccountRow) int64 {
			if r.Throttled == nil {
				return 0
			}
			return r.Throttled.Lo.Ns
		}})
	}
	var small, seen []string
	for _, b := range a.Total.Blocked {
		if slices.Contains(seen, b.Name()) {
			continue // a name stands for all rows that have it
		}
		seen = append(seen, b.Name())
		if b.Time.MeanThreads < shownThreads {
			small = append(small, b.Name())
			continue
		}
		list = append(list, blockedState(b.Name(), b.Name()))
	}
	switch len(small) {
	case 0:
	case 1:
		list = append(list, blockedState(small[0], small[0]))
	default:
		list = append(list, blockedState(plural(len(small), "more reason"), small...))
	}
	if a.Total.Stopped.Ns != 0 {
		list = append(list, state{"stopped", func(r *attribution.AccountRow) int64 { return r.Stopped.Ns }})
	}
	if a.Total.Residual.Ns != 0 {
		list = append(list, state{"not accounted", func(r *attribution.AccountRow) int64 { return r.Residual.Ns }})
	}
	return append(list, state{"idle", func(r *attribution.AccountRow) int64 { return r.Idle.Ns }})
}

func blockedState(name string, reasons ...string) state {
	return state{"blocked: " + name, func(r *attribution.AccountRow) int64 {
		var ns int64
		for _, reason := range reasons {
			ns += blockedIn(r, reason)
		}
		return ns
	}}
}

func blockedIn(r *attribution.AccountRow, reason string) int64 {
	var ns int64
	for _, b := range r.Blocked {
		if b.Name() == reason {
			ns += b.Time.Ns
		}
	}
	return ns
}

func accountTable(a *attribution.Account, width int) tableBlock {
	list := states(a)
	groups := groupColumns(a, list, width)
	t := tableBlock{repeat: 1, columns: []column{{head: []string{"state"}, left: true}}}
	for _, g := range groups {
		t.columns = append(t.columns, column{head: []string{g.name, plural(g.threads(), "thread")}})
	}
	mean := func(ns int64) string {
		if a.WindowNs <= 0 {
			return absent
		}
		return number(float64(ns)/float64(a.WindowNs), 3)
	}
	add := func(s state, rule bool) {
		row := tableRow{cells: []string{s.name}, rule: rule}
		for _, g := range groups {
			row.cells = append(row.cells, mean(g.sum(s.of)))
		}
		t.rows = append(t.rows, row)
	}
	for _, s := range list {
		add(s, false)
	}
	add(state{"total = lifetime", func(r *attribution.AccountRow) int64 { return r.Lifetime.Ns }}, true)
	return t
}

// groupColumn is one column: a thread group, several small ones, or all.
type groupColumn struct {
	name string
	rows []*attribution.AccountRow
}

func (g groupColumn) sum(of func(*attribution.AccountRow) int64) int64 {
	var ns int64
	for _, r := range g.rows {
		ns += of(r)
	}
	return ns
}

func (g groupColumn) threads() int {
	n := 0
	for _, r := range g.rows {
		n += r.Threads
	}
	return n
}

// groupColumns gives a column to as many groups as fit the width, the busiest
// first, puts the others together, and ends with all.
func groupColumns(a *attribution.Account, list []state, width int) []groupColumn {
	columns := make([]groupColumn, len(a.Groups))
	used := len("total = lifetime")
	for _, s := range list {
		used = max(used, textWidth(s.name))
	}
	const gap, least = 2, 11 // "999 threads"
	used += gap + least      // all
	fits := 0
	for i := range a.Groups {
		columns[i] = groupColumn{a.Groups[i].Group, []*attribution.AccountRow{&a.Groups[i]}}
		used += gap + max(least, textWidth(columns[i].name))
		room := width
		if i < len(a.Groups)-1 {
			room -= gap + len("99 other groups")
		}
		if width == 0 || used <= room {
			fits = i + 1
		}
	}
	if rest := columns[fits:]; len(rest) > 0 {
		other := groupColumn{name: plural(len(rest), "other group")}
		for _, c := range rest {
			other.rows = append(other.rows, c.rows...)
		}
		columns = append(slices.Clone(columns[:fits]), other)
	}
	return append(columns, groupColumn{"all", []*attribution.AccountRow{&a.Total}})
}

// reasonsText is "futex 1.204, epoll_pwait 0.310".
func reasonsText(rows []attribution.ReasonRow) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, r.Name()+" "+number(r.Time.MeanThreads, 3))
	}
	return strings.Join(parts, ", ")
}

func accountLegend(separated bool) []entry {
	entries := []entry{
		{"mean threads", "thread-seconds per second of the window: 1.000 is one thread in that state all the time"},
		{"on-CPU", "between the scheduler's switch stamps"},
		{"run-queue wait", "runnable and not running, with quota left"},
	}
	if !separated {
		entries[2].meaning = "runnable and not running; where the title says so, with or without quota left"
	}
	if separated {
		entries = append(entries, entry{"throttled", "runnable and not running, with the quota spent"})
	}
	return append(entries,
		entry{"blocked: …", "off the CPU until woken, by the syscall it sleeps in (with the kind of file it waits on, and timed where the wait has a timeout), or page fault, disk, kernel"},
		entry{"woken by", "who ended most of that time, estimated from drawn intervals; interrupts and softirqs count for themselves, whatever thread they ran on"},
		entry{"idle", "blocked time of threads that wait for work, by the idle rules of the rule file; not part of blocked"},
		entry{"thread group", "threads of one name, digits folded to *, or of one --group; goroutines are invisible to the scheduler"})
}
