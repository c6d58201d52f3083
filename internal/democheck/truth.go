package main

import (
	"math"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/report"
)

// doubled holds a demo whose arms decode and encode twice against one in which
// they do it once, at the same rate: the codec's cost per request doubles and
// nothing else moves. The interval of a difference is the root of the sum of the
// squares of both; that of a doubled figure is twice as wide.
func doubled(out *results, once, twice *report.Report) {
	for i := range once.Matched.Columns {
		before := &once.Matched.Columns[i]
		after := columnOf(twice, before.Arm)
		if after == nil {
			out.that(false, "%s: in both reports", before.Arm)
			continue
		}
		for _, row := range before.Table.Rows {
			factor := 1.0
			if row.Layer == layerCodec {
				factor = 2
			}
			other := rowOf(&after.Table, row.Layer)
			moved, allowed, ok := difference(row.MsPerRequest, other, factor)
			text := "is the same"
			if factor == 2 {
				text = "doubles"
			}
			out.that(ok && math.Abs(moved) <= allowed, "%s: %s %s: %s, then %s (off by %+.4f, allowed %.4f)",
				before.Arm, row.Layer, text, rowText(&row), rowText(other), moved, allowed)
		}
	}
	out.that(len(once.Matched.Columns) > 0, "%d arms compared", len(once.Matched.Columns))
}

// difference is after − factor × before in ms per request and the half-width of
// its interval; not ok when a figure or an interval is absent.
func difference(before *attribution.Estimate, after *attribution.Row, factor float64) (moved, allowed float64, ok bool) {
	if after == nil || before == nil || after.MsPerRequest == nil ||
		before.Interval == nil || after.MsPerRequest.Interval == nil {
		return 0, 0, false
	}
	moved = after.MsPerRequest.Value - factor*before.Value
	allowed = math.Hypot(factor*before.Interval.HalfWidth(), after.MsPerRequest.Interval.HalfWidth())
	return moved, allowed, true
}

// planted holds a demo whose arms burn ns per request in a function that no rule
// names: it lands in other, with its own name, and is all that other has.
func planted(out *results, r *report.Report, ns float64) {
	for _, column := range r.Matched.Columns {
		row := rowOf(&column.Table, layerOther)
		if row == nil || row.MsPerRequest == nil || row.MsPerRequest.Interval == nil {
			out.that(false, "%s: other has figures per request with an interval", column.Arm)
			continue
		}
		want := ns / 1e6
		allowed := row.MsPerRequest.Interval.HalfWidth() + plantTolerance*want
		out.that(math.Abs(row.MsPerRequest.Value-want) <= allowed, "%s: other holds the planted %.4f ms/req: %s, allowed ± %.4f",
			column.Arm, want, rowText(row), allowed)
		named := len(row.Functions) > 0 && row.Functions[0].Name == plantedFunction
		out.that(named && row.Functions[0].Ns*10 >= row.Ns*9, "%s: other is %s: %+v", column.Arm, plantedFunction, row.Functions)
	}
	out.that(len(r.Matched.Columns) > 0, "%d arms compared", len(r.Matched.Columns))
}

const (
	plantedFunction = "github.com/rungprof/rung/arms/internal/planted.Burn"
	// plantTolerance: the arm sizes its loop once, at start, by the clock
	// frequency and the neighbours of that moment.
	plantTolerance = 0.15
)
