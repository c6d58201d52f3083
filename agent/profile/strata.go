package profile

import (
	"cmp"
	"math"
	"slices"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
)

// stratum is off-CPU time of one thread in one state for one reason: its exact
// total from the account, and the intervals of it whose stacks were drawn.
type stratum struct {
	stratumKey
	totalNs uint64
	rows    []bpf.OffCPU // sorted; may be empty
	// ns is each row's part of totalNs, in whole nanoseconds that add up to it:
	// the total × the row's weight over that of all rows (Hájek's ratio estimator),
	// with Beale's correction. Empty when nothing was drawn.
	ns []int64
	// weight and squares are sums over rows, of WeightNs and SquaresNs2.
	weight, squares float64
}

type stratumKey struct {
	tid    uint32
	state  bpf.State
	reason bpf.Reason // bpf.ReasonNone unless blocked
}

func (k stratumKey) compare(o stratumKey) int {
	return cmp.Or(cmp.Compare(k.tid, o.tid), cmp.Compare(k.state, o.state), cmp.Compare(k.reason, o.reason))
}

// strata gives the strata that have time, in a fixed order, and the number of
// draws that fall into none. A thread's number that was used again within the
// window counts as one thread, since draws are kept by it.
func strata(threads []bpf.Thread, rows []bpf.OffCPU) (all []stratum, unaccounted uint64) {
	totals := map[stratumKey]uint64{}
	for i := range threads {
		t := &threads[i]
		totals[stratumKey{t.Tid, bpf.StateRunQueue, bpf.ReasonNone}] += t.RunQueueNs
		totals[stratumKey{t.Tid, bpf.StateThrottled, bpf.ReasonNone}] += t.ThrottledNs
		for _, b := range t.Blocked {
			totals[stratumKey{t.Tid, bpf.StateBlocked, b.Reason}] += b.Ns
		}
	}
	drawn := map[stratumKey][]bpf.OffCPU{}
	for _, row := range rows {
		key := stratumKey{row.Tid, row.State, row.Reason}
		if totals[key] == 0 {
			unaccounted += row.Samples
			continue
		}
		drawn[key] = append(drawn[key], row)
	}
	for key, total := range totals {
		if total > 0 {
			all = append(all, newStratum(key, total, drawn[key]))
		}
	}
	slices.SortFunc(all, func(a, b stratum) int { return a.compare(b.stratumKey) })
	return all, unaccounted
}

func newStratum(key stratumKey, totalNs uint64, rows []bpf.OffCPU) stratum {
	slices.SortFunc(rows, compareOffCPU)
	s := stratum{stratumKey: key, totalNs: min(totalNs, math.MaxInt64), rows: rows}
	weights := make([]int64, len(rows))
	for i, row := range rows {
		weights[i] = int64(min(row.WeightNs, math.MaxInt64/(2*uint64(len(rows))))) // their sum must not overflow, nor with the correction
		s.weight += float64(weights[i])
		s.squares += row.SquaresNs2
	}
	if s.weight > 0 {
		// The ratio alone favours rows of many short intervals: a long one that is
		// drawn makes the sum it is divided by larger too. Beale's estimator adds to
		// each weight its covariance with the sum over the sum, which takes the bias
		// out to the first order and keeps the parts adding up.
		for i, row := range rows {
			weights[i] += int64(math.Min(row.SquaresNs2/s.weight, float64(math.MaxInt64/(2*uint64(len(rows))))))
		}
		s.ns = attribution.Apportion(int64(s.totalNs), weights)
	}
	return s
}

// scale is how many nanoseconds of the total a nanosecond of weight stands for.
func (s *stratum) scale() float64 { return float64(s.totalNs) / s.weight }

// standardError is that of a part of the total: of ns that the rows were given,
// with the squares given. It is the linearised variance of the ratio R = ns ÷
// total under draws that are independent of each other:
// (1−R)²·squares + R²·(s.squares − squares).
func (s *stratum) standardError(ns int64, squares float64) float64 {
	r := float64(ns) / float64(s.totalNs)
	return s.spread((1-r)*(1-r)*squares + r*r*max(0, s.squares-squares))
}

// spread is the standard error, in ns of the total, of a weight with the
// variance given. A total above what the draws stand for says that long intervals
// were missed, whose variance was missed with them.
func (s *stratum) spread(variance float64) float64 {
	return math.Max(1, s.scale()) * s.scale() * math.Sqrt(variance)
}

func compareOffCPU(a, b bpf.OffCPU) int {
	return cmp.Or(
		cmp.Compare(a.StackHash, b.StackHash),
		cmp.Compare(a.WakerTid, b.WakerTid),
		cmp.Compare(a.WakerStackHash, b.WakerStackHash),
		cmp.Compare(a.Tgid, b.Tgid),
		cmp.Compare(a.WakerTgid, b.WakerTgid),
		cmp.Compare(a.WeightNs, b.WeightNs),
		cmp.Compare(a.Samples, b.Samples),
	)
}
