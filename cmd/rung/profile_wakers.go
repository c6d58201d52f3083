//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/rungprof/rung/attribution"
)

// wokenRow is blocked time that one waker ended.
type wokenRow struct {
	group, reason string
	attribution.WakerRow
}

// woken lists who ended blocked time, by descending time, and what of it nobody
// had ended when the window closed. Where the record has wakers of whole groups
// only, rows of single threads have none: then it is those of all.
func (r *profileResult) woken() (rows []wokenRow, openNs int64) {
	groups := r.Account.Groups
	if r.Threads == threadsSingle && !hasWakers(groups) {
		groups = []attribution.AccountRow{r.Account.Total}
	}
	for _, g := range groups {
		for _, reason := range slices.Concat(g.Blocked, g.IdleReasons) {
			for _, w := range reason.Wakers {
				switch {
				case !w.Thread && w.Waker == "nobody":
					openNs += w.Time.Ns
				case w.Time.MeanThreads >= shownMeanThreads:
					rows = append(rows, wokenRow{g.Group, reason.Name(), w})
				}
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b wokenRow) int { return cmp.Compare(b.Time.Ns, a.Time.Ns) })
	return cut(rows, r.top), openNs
}

func hasWakers(groups []attribution.AccountRow) bool {
	return slices.ContainsFunc(groups, func(g attribution.AccountRow) bool {
		return slices.ContainsFunc(slices.Concat(g.Blocked, g.IdleReasons), func(r attribution.ReasonRow) bool { return len(r.Wakers) > 0 })
	})
}

func (r *profileResult) printWakers(w io.Writer) {
	rows, openNs := r.woken()
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(w, "\nWoken by whom, in mean threads of the time that a wake ended\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "blocked\tdraws\twaker\tthread group\treason\n")
	for _, row := range rows {
		waker := row.Waker
		if row.Outside {
			waker += " (outside the target)"
		}
		fmt.Fprintf(tw, "%.3f\t%d\t%s\t%s\t%s\n", row.Time.MeanThreads, row.Draws, printable(waker), printable(row.group), printable(row.reason))
	}
	tw.Flush()
	fmt.Fprintf(w, "\n%.3f mean threads were blocked at the end of the window, woken by nobody yet\n", float64(openNs)/float64(r.WindowNs))
}
