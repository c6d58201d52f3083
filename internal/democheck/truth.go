package main

import (
	"math"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/report"
)

// doubled holds three demos at one rate against each other, under owner charge:
// base makes one codec pass per request, once adds n passes, twice adds 2n. The
// codec's added cost doubles and no other layer takes part.
//
// It is the added work that is doubled, not the first pass: after a wakeup that
// one finds cold caches and costs up to twice as much as those behind it. Owner
// charge, because a pass allocates and copies, which leaf charge rightly gives
// to the runtime.
func doubled(out *results, base, once, twice *report.Report) {
	for i := range base.Matched.Columns {
		arm := base.Matched.Columns[i].Arm
		var columns [3]*attribution.Table
		for j, r := range []*report.Report{base, once, twice} {
			if c := columnOf(r, arm); c != nil {
				columns[j] = &c.Table
			}
		}
		if columns[1] == nil || columns[2] == nil {
			out.that(false, "%s: in all three reports", arm)
			continue
		}
		doubledArm(out, arm, columns)
	}
	out.that(len(base.Matched.Columns) > 0, "%d arms compared", len(base.Matched.Columns))
}

const (
	// runDrift is by how much one run's speed may differ from another's: they
	// are minutes apart on a machine that is not alone on its host.
	runDrift = 0.10
	// leak is the part of the added codec time that may show in another layer:
	// a longer request also changes when threads go to sleep.
	leak = 0.10
)

func doubledArm(out *results, arm string, columns [3]*attribution.Table) {
	codec, half, ok := perRequest(columns, layerCodec)
	if !ok {
		out.that(false, "%s: codec has figures per request with intervals", arm)
		return
	}
	first, second := codec[1]-codec[0], codec[2]-codec[0]
	allowed := math.Hypot(math.Hypot(half[2], 2*half[1]), half[0]) + runDrift*math.Abs(second)
	out.that(first > math.Hypot(half[0], half[1]) && math.Abs(second-2*first) <= allowed,
		"%s: twice the added passes cost twice as much codec: %+.4f, then %+.4f ms/req (off by %+.4f, allowed %.4f)",
		arm, first, second, second-2*first, allowed)
	for _, row := range columns[0].Rows {
		if row.Layer == layerCodec {
			continue
		}
		ms, half, ok := perRequest(columns, row.Layer)
		moved := ms[2] - ms[0]
		allowed := math.Hypot(half[0], half[2]) + runDrift*ms[0] + leak*second
		out.that(ok && math.Abs(moved) <= allowed, "%s: %s is not moved by it: %.4f, then %.4f ms/req (allowed %.4f)",
			arm, row.Layer, ms[0], ms[2], allowed)
	}
}

// perRequest is a layer's ms per request and the half-width of its interval, in
// each table; not ok when one is absent.
func perRequest(tables [3]*attribution.Table, layer string) (ms, half [3]float64, ok bool) {
	for i, t := range tables {
		row := rowOf(t, layer)
		if row == nil || row.MsPerRequest == nil || row.MsPerRequest.Interval == nil {
			return ms, half, false
		}
		ms[i], half[i] = row.MsPerRequest.Value, row.MsPerRequest.Interval.HalfWidth()
	}
	return ms, half, true
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
