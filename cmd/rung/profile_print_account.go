//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rungprof/rung/attribution"
)

// reasonsShown is how many reasons a thread group lists.
const reasonsShown = 4

// shownMeanThreads is the least time of a reason that is listed: less prints as 0.000.
const shownMeanThreads = 0.0005

// printAccount prints a row per thread group, the most active first, and the
// reasons of its blocked and idle time below it. A state that no thread was in
// has no column.
func (r *profileResult) printAccount(w io.Writer) {
	a := r.Account
	fmt.Fprint(w, "\nThreads, in mean threads: 1.000 is one thread in that state all the time\n\n")
	columns := accountColumns(a)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, c := range columns {
		fmt.Fprintf(tw, "%s\t", c.head)
	}
	fmt.Fprint(tw, "threads\t  thread group\n")
	groups := slices.Clone(a.Groups)
	slices.SortStableFunc(groups, func(x, y attribution.AccountRow) int {
		return cmp.Or(cmp.Compare(activeNs(&y), activeNs(&x)), cmp.Compare(y.Lifetime.Ns, x.Lifetime.Ns), cmp.Compare(x.Group, y.Group))
	})
	shown := len(groups)
	if r.top > 0 && shown > r.top+1 { // one more takes no more room than "1 other"
		shown = r.top
	}
	for i := range groups[:shown] {
		printAccountRow(tw, columns, groups[i:i+1], groups[i].Group)
		printReasons(tw, columns, groups[i].Blocked, groups[i].IdleReasons)
	}
	if rest := groups[shown:]; len(rest) > 0 {
		printAccountRow(tw, columns, rest, fmt.Sprintf("%d other groups (--top 0 shows them)", len(rest)))
	}
	printAccountRow(tw, columns, []attribution.AccountRow{a.Total}, "total")
	tw.Flush()
	for _, note := range r.accountNotes() {
		fmt.Fprintf(w, "\n%s", printable(note))
	}
	fmt.Fprintln(w)
}

func activeNs(row *attribution.AccountRow) int64 {
	ns := row.OnCPU.Ns + row.RunQueue.Ns
	if row.Throttled != nil {
		ns += row.Throttled.Lo.Ns
	}
	return ns
}

// accountColumn is one state.
type accountColumn struct {
	head string
	of   func(*attribution.AccountRow) attribution.ThreadTime
}

func accountColumns(a *attribution.Account) []accountColumn {
	columns := []accountColumn{
		{"on-CPU", func(r *attribution.AccountRow) attribution.ThreadTime { return r.OnCPU }},
		{"run queue", func(r *attribution.AccountRow) attribution.ThreadTime { return r.RunQueue }},
	}
	if a.Total.Throttled != nil {
		columns = append(columns, accountColumn{"throttled", func(r *attribution.AccountRow) attribution.ThreadTime {
			if r.Throttled == nil {
				return attribution.ThreadTime{}
			}
			return r.Throttled.Lo
		}})
	}
	columns = append(columns, accountColumn{"blocked", func(r *attribution.AccountRow) attribution.ThreadTime { return r.BlockedTotal }})
	for _, c := range []accountColumn{
		{"idle", func(r *attribution.AccountRow) attribution.ThreadTime { return r.Idle }},
		{"stopped", func(r *attribution.AccountRow) attribution.ThreadTime { return r.Stopped }},
		{"not accounted", func(r *attribution.AccountRow) attribution.ThreadTime { return r.Residual }},
	} {
		if c.of(&a.Total).Ns != 0 {
			columns = append(columns, c)
		}
	}
	return append(columns, accountColumn{"lifetime", func(r *attribution.AccountRow) attribution.ThreadTime { return r.Lifetime }})
}

// printAccountRow prints the sum of some rows.
func printAccountRow(w io.Writer, columns []accountColumn, rows []attribution.AccountRow, name string) {
	threads := 0
	for i := range rows {
		threads += rows[i].Threads
	}
	for _, c := range columns {
		mean := 0.0
		for i := range rows {
			mean += c.of(&rows[i]).MeanThreads
		}
		fmt.Fprintf(w, "%.3f\t", mean)
	}
	fmt.Fprintf(w, "%d\t  %s\n", threads, printable(name))
}

// printReasons lists why a group slept, each figure below its state.
func printReasons(w io.Writer, columns []accountColumn, blocked, idle []attribution.ReasonRow) {
	list := func(head string, reasons []attribution.ReasonRow) {
		at := slices.IndexFunc(columns, func(c accountColumn) bool { return c.head == head })
		if at < 0 {
			return
		}
		line := func(mean float64, name string) {
			fmt.Fprintf(w, "%s%.3f\t%s      %s\n", strings.Repeat("\t", at), mean, strings.Repeat("\t", len(columns)-at), printable(name))
		}
		shown := 0 // by descending time
		for shown < len(reasons) && reasons[shown].Time.MeanThreads >= shownMeanThreads {
			shown++
		}
		if shown > reasonsShown+1 {
			shown = reasonsShown
		}
		for i := range reasons[:shown] {
			line(reasons[i].Time.MeanThreads, reasons[i].Name())
		}
		rest := 0.0
		for _, reason := range reasons[shown:] {
			rest += reason.Time.MeanThreads
		}
		if n := len(reasons) - shown; rest >= shownMeanThreads {
			line(rest, fmt.Sprintf("%d more", n))
		}
	}
	list("blocked", blocked)
	list("idle", idle)
}

// accountNotes say what the rows cannot tell apart.
func (r *profileResult) accountNotes() []string {
	a := r.Account
	var notes []string
	switch t := a.Total.Throttled; {
	case !a.ThrottledSeparated:
		notes = append(notes, "throttled is not told apart for every thread: it is inside run queue")
	case t != nil && t.Hi.Ns != t.Lo.Ns:
		notes = append(notes, fmt.Sprintf("throttled lies between %.3f and %.3f; what is above the lower bound is inside run queue", t.Lo.MeanThreads, t.Hi.MeanThreads))
	}
	if !r.hasIdleRules {
		notes = append(notes, "no idle rules (--preset, --rules): threads that wait for work are among blocked")
	}
	return append(append(notes, a.Notes...), a.Warnings...)
}
