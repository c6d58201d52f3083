//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
	"github.com/rungprof/rung/attribution"
)

// profiledWaker says who ended blocked time of a thread group.
type profiledWaker struct {
	ThreadGroup string `json:"threadGroup"`
	Reason      string `json:"reason"` // as in the account: "futex, timed"
	// Waker is a thread group, or what else woke: "interrupt", "idle", "nobody".
	Waker string `json:"waker"`
	Comm  string `json:"comm,omitempty"`
	// Outside: the waker is no thread of the target.
	Outside bool  `json:"outside,omitempty"`
	Ns      int64 `json:"ns"`
	// Draws are the intervals that the estimate rests on.
	Draws uint64 `json:"draws"`
}

// profiledWakers takes a record's wakers, by descending time.
func profiledWakers(r *rungv1.StepRecord, top int) []profiledWaker {
	var out []profiledWaker
	for _, w := range r.GetWakers() {
		out = append(out, profiledWaker{
			ThreadGroup: w.GetThreadGroup(), Reason: attribution.ReasonName(w.GetReason(), w.GetObject(), w.GetLimited()),
			Waker: w.GetWakerGroup(), Comm: w.GetWakerComm(), Outside: w.GetOutside(), Ns: saturate(w.GetNs()), Draws: w.GetDraws(),
		})
	}
	slices.SortStableFunc(out, func(a, b profiledWaker) int { return cmp.Compare(b.Ns, a.Ns) })
	if top > 0 {
		out = out[:min(top, len(out))]
	}
	return out
}

func (r *profileResult) printWakers(w io.Writer) {
	if len(r.Wakers) == 0 {
		return
	}
	fmt.Fprint(w, "\nWho ended blocked time, in mean threads\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(tw, "blocked\tdraws\twaker\tthread group\treason\n")
	for _, k := range r.Wakers {
		waker := k.Waker
		if k.Outside {
			waker += " (outside)"
		}
		fmt.Fprintf(tw, "%.3f\t%d\t%s\t%s\t%s\n", float64(k.Ns)/float64(r.WindowNs), k.Draws, printable(waker), printable(k.ThreadGroup), printable(k.Reason))
	}
	tw.Flush()
}
