package main

import (
	"fmt"

	"github.com/rungprof/rung/attribution"
)

// tableSums says how a table does not add up, "" when it does, in whole
// nanoseconds and samples.
func tableSums(t *attribution.Table) string {
	var ns, sampled, samples int64
	var share float64
	for _, rows := range [][]attribution.Row{t.Rows, t.Unattributed} {
		for _, r := range rows {
			ns += r.Ns
			sampled += r.SampledNs
			samples += r.Samples
			share += r.Share.Value
		}
	}
	switch {
	case ns != t.TotalNs:
		return fmt.Sprintf(": Σ rows is %d ns, the total %d ns", ns, t.TotalNs)
	case sampled != t.SampledNs:
		return fmt.Sprintf(": Σ sampled is %d ns, the total %d ns", sampled, t.SampledNs)
	case samples != t.Samples:
		return fmt.Sprintf(": Σ rows is %d samples, the total %d", samples, t.Samples)
	case t.Samples > 0 && (share < 1-1e-9 || share > 1+1e-9):
		return fmt.Sprintf(": the shares add up to %v", share)
	case t.Residual != nil && t.Residual.Ns != t.Residual.UsageNs-t.Residual.ChargedNs:
		return fmt.Sprintf(": the residual is %d ns, usage %d − charged %d", t.Residual.Ns, t.Residual.UsageNs, t.Residual.ChargedNs)
	}
	return ""
}

// accountSums says how an account does not add up, "" when it does.
func accountSums(a *attribution.Account) string {
	var sum attribution.AccountRow
	for _, g := range append(a.Groups, a.Total) {
		if left := g.Lifetime.Ns - states(g); left != g.Residual.Ns {
			return fmt.Sprintf(": %s: lifetime − Σ states is %d ns, the residual says %d ns", g.Group, left, g.Residual.Ns)
		}
		var blocked int64
		for _, b := range g.Blocked {
			blocked += b.Time.Ns
		}
		if blocked != g.BlockedTotal.Ns {
			return fmt.Sprintf(": %s: Σ blocked is %d ns, the total %d ns", g.Group, blocked, g.BlockedTotal.Ns)
		}
	}
	for _, g := range a.Groups {
		sum.Threads += g.Threads
		sum.Lifetime.Ns += g.Lifetime.Ns
		sum.OnCPU.Ns += g.OnCPU.Ns
		sum.RunQueue.Ns += g.RunQueue.Ns
		sum.BlockedTotal.Ns += g.BlockedTotal.Ns
		sum.Idle.Ns += g.Idle.Ns
	}
	t := a.Total
	if sum.Threads != t.Threads || sum.Lifetime.Ns != t.Lifetime.Ns || sum.OnCPU.Ns != t.OnCPU.Ns ||
		sum.RunQueue.Ns != t.RunQueue.Ns || sum.BlockedTotal.Ns != t.BlockedTotal.Ns || sum.Idle.Ns != t.Idle.Ns {
		return ": the groups do not add up to the total"
	}
	return ""
}

// states is what an account row's lifetime is made of.
func states(r attribution.AccountRow) int64 {
	ns := r.OnCPU.Ns + r.RunQueue.Ns + r.BlockedTotal.Ns + r.Idle.Ns + r.Stopped.Ns
	if r.Throttled != nil {
		ns += r.Throttled.Lo.Ns
	}
	return ns
}

func rowOf(t *attribution.Table, layer string) *attribution.Row {
	for i := range t.Rows {
		if t.Rows[i].Layer == layer {
			return &t.Rows[i]
		}
	}
	return nil
}

func shareOf(t *attribution.Table, layer string) float64 {
	if r := rowOf(t, layer); r != nil {
		return r.Share.Value
	}
	return 0
}

func rowText(r *attribution.Row) string {
	if r == nil {
		return "no such row"
	}
	text := fmt.Sprintf("%.2f %%", 100*r.Share.Value)
	if r.Share.Interval != nil {
		text += fmt.Sprintf(" ± %.2f", 100*r.Share.Interval.HalfWidth())
	}
	if r.MsPerRequest != nil {
		text += " · " + estimateText(r.MsPerRequest)
	}
	if r.TooFew != "" {
		text += " (too few: " + r.TooFew + ")"
	}
	return text
}

func estimateText(e *attribution.Estimate) string {
	if e == nil {
		return "absent"
	}
	if e.Interval == nil {
		return fmt.Sprintf("%.4f ms/req", e.Value)
	}
	return fmt.Sprintf("%.4f ± %.4f ms/req", e.Value, e.Interval.HalfWidth())
}
