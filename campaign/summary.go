package campaign

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rungprof/rung/ladder"
)

// Result is what is finished of one ladder.
type Result struct {
	Ladder Ladder
	Steps  []Done
	// State is nil of a ladder that is not complete.
	State *LadderState
	// Voids are attempts that were void, of a ladder that is not complete too.
	Voids int
}

// Summary is a campaign in figures.
type Summary struct {
	Name     string          `json:"name"`
	Complete bool            `json:"complete"`
	Ladders  int             `json:"ladders"`
	Finished int             `json:"finished"`
	Rule     ladder.KneeRule `json:"kneeRule"`
	Tables   []Table         `json:"tables"`
	Notes    []string        `json:"notes,omitempty"`
}

// Table is one protocol at one point of the sweep.
type Table struct {
	Protocol string    `json:"protocol"`
	Sweep    []Setting `json:"sweep,omitempty"`
	// MatchedHz is the offered rate at which the arms are compared; absent with a reason.
	MatchedHz *float64 `json:"matchedHz,omitempty"`
	NoMatch   string   `json:"noMatch,omitempty"`
	// Noise is the noise floor of cost, in parts: the largest difference within
	// an A/A pair at the matched rate. Absent without a pair.
	Noise      *float64 `json:"noise,omitempty"`
	NoisePairs int      `json:"noisePairs,omitempty"`
	NoiseFrom  string   `json:"noiseFrom,omitempty"`
	Rows       []Row    `json:"rows"`
}

// Row is one arm. Figures are medians over its repeats; absent ones were not had.
type Row struct {
	Arm     string `json:"arm"`
	Repeats int    `json:"repeats"` // complete ladders, twins included
	// KneeHz with the range over repeats; NoKnee says why of a repeat without.
	KneeHz    *float64 `json:"kneeHz,omitempty"`
	KneeMinHz float64  `json:"kneeMinHz,omitempty"`
	KneeMaxHz float64  `json:"kneeMaxHz,omitempty"`
	// KneeAtLeast: the knee was not reached, the rate is the ladder's end.
	KneeAtLeast bool   `json:"kneeAtLeast,omitempty"`
	NoKnee      string `json:"noKnee,omitempty"`
	// CostMs is CPU per request at the matched rate; Ratio that over the first
	// arm's, and WithinNoise that the two are not told apart.
	CostMs      *float64 `json:"costMs,omitempty"`
	CostMinMs   float64  `json:"costMinMs,omitempty"`
	CostMaxMs   float64  `json:"costMaxMs,omitempty"`
	Ratio       *float64 `json:"ratio,omitempty"`
	WithinNoise bool     `json:"withinNoise,omitempty"`
	P99Ms       *float64 `json:"p99Ms,omitempty"` // at the matched rate
	// ControlMs is CPU per request at the matched rate of the control steps, which
	// were driven without the profiler.
	ControlMs *float64 `json:"controlMs,omitempty"`
	// Overhead of the profiler, in parts of the cost without: from steps that
	// have a control, the median of all.
	Overhead      *float64 `json:"overhead,omitempty"`
	OverheadPairs int      `json:"overheadPairs,omitempty"`
	// Void steps stayed void; Redone are attempts that were void and driven again.
	Void          int `json:"void"`
	Redone        int `json:"redone"`
	ClientLimited int `json:"clientLimited"` // measured steps
	// FirstStep are ladders whose first measured step is an outlier, by
	// [ladder.FirstStep]; FirstStepWhy is of the first of them.
	FirstStep    int    `json:"firstStep,omitempty"`
	FirstStepWhy string `json:"firstStepWhy,omitempty"`
}

// Summarise makes the tables of what is finished.
func (p *Plan) Summarise(results []Result) Summary {
	s := Summary{Name: p.Name, Ladders: len(results), Rule: p.KneeRule}
	points := map[int][]Result{}
	var order []int
	for _, r := range results {
		if r.State != nil {
			s.Finished++
		}
		if _, seen := points[r.Ladder.Point]; !seen {
			order = append(order, r.Ladder.Point)
		}
		points[r.Ladder.Point] = append(points[r.Ladder.Point], r)
		for _, note := range r.notes() {
			s.Notes = append(s.Notes, r.Ladder.ID+": "+note)
		}
	}
	s.Complete = s.Finished == s.Ladders
	slices.Sort(order)
	noise := newNoise(results)
	for _, point := range order {
		s.Tables = append(s.Tables, p.tables(points[point], noise)...)
	}
	return s
}

func (r Result) notes() []string {
	if r.State != nil {
		return r.State.Notes
	}
	return nil
}

// tables splits a point by protocol, in the order of the plan's arms.
func (p *Plan) tables(results []Result, n noise) []Table {
	var tables []Table
	for _, a := range p.Arms {
		mine := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Ladder.ArmName != a.Name })
		if len(mine) == 0 {
			continue
		}
		protocol := mine[0].Ladder.Setting.Load.Protocol
		i := slices.IndexFunc(tables, func(t Table) bool { return t.Protocol == protocol })
		if i < 0 {
			i = len(tables)
			tables = append(tables, Table{Protocol: protocol, Sweep: mine[0].Ladder.Sweep})
		}
		tables[i].Rows = append(tables[i].Rows, Row{Arm: a.Name})
	}
	for i := range tables {
		t := &tables[i]
		same := slices.DeleteFunc(slices.Clone(results), func(r Result) bool { return r.Ladder.Setting.Load.Protocol != t.Protocol })
		p.fill(t, same, n)
	}
	return tables
}

func (p *Plan) fill(t *Table, results []Result, n noise) {
	var arms []ladder.Arm
	for _, r := range results {
		arms = append(arms, ladder.Arm{Name: r.Ladder.ID, Steps: r.rows()})
	}
	match := ladder.Matched(arms, p.KneeRule)
	if t.NoMatch = match.Reason; match.Reason == "" {
		t.MatchedHz = &match.RateHz
	}
	if t.MatchedHz != nil {
		t.Noise, t.NoisePairs, t.NoiseFrom = n.floor(results, *t.MatchedHz)
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		for _, r := range results {
			if r.Ladder.ArmName == row.Arm {
				row.count(r)
			}
		}
		row.knee(results, p.KneeRule)
		if t.MatchedHz != nil {
			row.matched(results, *t.MatchedHz)
		}
	}
	t.compare()
}

// compare holds each arm against the table's first.
func (t *Table) compare() {
	for i := range t.Rows {
		first, row := &t.Rows[0], &t.Rows[i]
		if i == 0 || first.CostMs == nil || row.CostMs == nil || *first.CostMs <= 0 {
			continue
		}
		ratio := *row.CostMs / *first.CostMs
		row.Ratio = &ratio
		row.WithinNoise = t.Noise != nil && difference(*row.CostMs, *first.CostMs) <= *t.Noise
	}
}

// rows are the measured steps: with the agent where it was there.
func (r Result) rows() []ladder.Step {
	var rows []ladder.Step
	for _, d := range r.Steps {
		if d.Step.Kind == KindMeasured {
			rows = append(rows, d.Row)
		}
	}
	return rows
}

// all are the steps of every kind.
func (r Result) all() []ladder.Step {
	rows := make([]ladder.Step, len(r.Steps))
	for i, d := range r.Steps {
		rows[i] = d.Row
	}
	return rows
}

func (row *Row) count(r Result) {
	if r.State != nil {
		row.Repeats++
	}
	row.Redone += r.Voids
	for _, d := range r.Steps {
		switch {
		case d.void() && !d.Step.Unmeasured():
			row.Void++
		case !d.void() && d.Step.Kind == KindMeasured && d.ClientLimited != "":
			row.ClientLimited++
		}
	}
	if _, why := ladder.FirstStep(r.rows()); why != "" {
		row.FirstStep++
		row.FirstStepWhy = cmp.Or(row.FirstStepWhy, why)
	}
}

// knee is the median over the arm's complete ladders.
func (row *Row) knee(results []Result, rule ladder.KneeRule) {
	var knees []float64
	for _, r := range results {
		if r.Ladder.ArmName != row.Arm || r.State == nil {
			continue
		}
		hz, atLeast, why := r.knee(rule)
		if why != "" {
			row.NoKnee = cmp.Or(row.NoKnee, why)
			continue
		}
		row.KneeAtLeast = row.KneeAtLeast || atLeast
		knees = append(knees, hz)
	}
	row.KneeHz, row.KneeMinHz, row.KneeMaxHz = median(knees)
}

// knee of one ladder. A step at which the driver was the limit is never one: it
// neither keeps up nor fails.
func (r Result) knee(rule ladder.KneeRule) (hz float64, atLeast bool, why string) {
	if v := r.State.Search; v != nil {
		switch v.End {
		case EndKnee:
			return v.KeepsHz, false, ""
		case EndNotReached:
			return v.KeepsHz, true, ""
		}
		return 0, false, strings.TrimPrefix(v.String(), "no knee: ")
	}
	var rows []ladder.Step
	limited := math.Inf(1)
	for _, d := range r.Steps {
		if d.Step.Kind != KindMeasured {
			continue
		}
		if d.ClientLimited != "" {
			limited = math.Min(limited, d.Step.OfferedHz)
			continue
		}
		rows = append(rows, d.Row)
	}
	reading := ladder.Read(rows, rule)
	switch {
	case reading.Knee == nil && !math.IsInf(limited, 1):
		return 0, false, fmt.Sprintf("from %g/s on the driver is the limit; %s", limited, reading.NoKnee)
	case reading.Knee == nil:
		return 0, false, reading.NoKnee
	case reading.Knee.NextHz == nil && limited > reading.Knee.OfferedHz && !math.IsInf(limited, 1),
		reading.Knee.NextHz != nil && limited > reading.Knee.OfferedHz && limited < *reading.Knee.NextHz:
		return 0, false, fmt.Sprintf("%g/s keeps up, and from %g/s on the driver is the limit", reading.Knee.OfferedHz, limited)
	}
	return reading.Knee.OfferedHz, reading.Knee.NextHz == nil, ""
}

// matched are the figures at one rate.
func (row *Row) matched(results []Result, hz float64) {
	var costs, control, p99 []float64
	var pairs []ladder.Overhead
	for _, r := range results {
		if r.Ladder.ArmName != row.Arm {
			continue
		}
		if d, ok := r.at(hz, KindMeasured); ok {
			if c := d.Row.CPUMsPerRequest; c != nil {
				costs = append(costs, *c)
			}
			if l := d.Row.P99Ms; l != nil {
				p99 = append(p99, *l)
			}
		}
		if d, ok := r.at(hz, KindControl); ok && d.Row.CPUMsPerRequest != nil {
			control = append(control, *d.Row.CPUMsPerRequest)
		}
		pairs = append(pairs, ladder.Overheads(r.all())...)
	}
	row.CostMs, row.CostMinMs, row.CostMaxMs = median(costs)
	row.P99Ms, _, _ = median(p99)
	row.ControlMs, _, _ = median(control)
	row.Overhead, row.OverheadPairs = ladder.MedianShare(pairs), len(pairs)
}

// at is the ladder's sound step of a kind at a rate; of several the profiled one.
func (r Result) at(hz float64, kind Kind) (Done, bool) {
	var found Done
	ok := false
	for _, d := range r.Steps {
		if d.Step.Kind == kind && !d.void() && math.Abs(d.Step.OfferedHz-hz) <= 1e-3*hz && (!ok || d.Step.Profile) {
			found, ok = d, true
		}
	}
	return found, ok
}

// median with the range; nil of nothing.
func median(values []float64) (mid *float64, low, high float64) {
	if len(values) == 0 {
		return nil, 0, 0
	}
	v := slices.Clone(values)
	slices.Sort(v)
	m := (v[(len(v)-1)/2] + v[len(v)/2]) / 2
	return &m, v[0], v[len(v)-1]
}

// difference of two figures in parts of their mean.
func difference(a, b float64) float64 {
	if a+b <= 0 {
		return 0
	}
	return math.Abs(a-b) / ((a + b) / 2)
}
