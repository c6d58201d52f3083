package main

import (
	"fmt"
	"slices"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
)

// The arms of a demo with its default flags. Compared arms decode a body.
var (
	comparedArms = []string{"rest-h1", "rest-h2c", "grpc-unary", "grpc-stream"}
	jsonArms     = []string{"rest-h1", "rest-h2c"}
)

const (
	layerCodec = "codec"
	layerOther = attribution.Other
	// maxOther is the share of a step that no rule may leave unnamed.
	maxOther = 0.05
	minSteps = 4
)

// judged are the checks whose bound must hold on every step.
var judged = []string{
	attribution.CheckClosure, attribution.CheckSchedstatRun, attribution.CheckSchedstatWait, attribution.CheckAccountCloses,
}

// whole is what every demo with default flags must show. The repeats ran the
// gRPC arms alone, at the same rate.
func whole(out *results, r *report.Report, repeats []*report.Report) {
	for _, name := range append(slices.Clone(comparedArms), "loop") {
		i := slices.IndexFunc(r.Arms, func(a report.Arm) bool { return a.Name == name })
		if i < 0 {
			out.that(false, "%s: not in the report", name)
			continue
		}
		arm(out, &r.Arms[i], slices.Contains(comparedArms, name))
	}
	matched(out, r)
	streamCheaper(out, append([]*report.Report{r}, repeats...))
}

// arm asserts what holds for each step, and for the ladder as one.
func arm(out *results, a *report.Arm, compared bool) {
	steps := measured(a)
	for _, s := range steps {
		step(out, a.Name, s)
	}
	if !compared {
		out.that(len(steps) >= 2, "%s: %d steps, at least 2", a.Name, len(steps))
		return
	}
	out.that(len(steps) >= minSteps, "%s: %d steps, at least %d", a.Name, len(steps), minSteps)
	knee := a.Reading.Knee
	out.that(knee != nil && knee.NextHz != nil, "%s: the ladder rises past its knee (%s)", a.Name, kneeText(a.Reading))
}

func kneeText(r ladder.Reading) string {
	switch {
	case r.Knee == nil:
		return r.NoKnee
	case r.Knee.NextHz == nil:
		return fmt.Sprintf("%.6g/s still keeps up", r.Knee.OfferedHz)
	}
	return fmt.Sprintf("%.6g/s; %.6g/s does not keep up: %s", r.Knee.OfferedHz, *r.Knee.NextHz, r.Knee.Why)
}

// measured are an arm's steps after the warm-up.
func measured(a *report.Arm) []*report.Step {
	var steps []*report.Step
	for i := range a.Steps {
		if s := &a.Steps[i]; !s.Warmup {
			steps = append(steps, s)
		}
	}
	return steps
}

func step(out *results, armName string, s *report.Step) {
	where := armName + " " + s.Name
	if s.Has(ladder.FlagVoid) || s.Has(ladder.FlagAgentMissing) {
		out.that(false, "%s: measured (flags %v)", where, s.Flags)
		return
	}
	for _, name := range judged {
		i := slices.IndexFunc(s.Checks, func(c attribution.Check) bool { return c.Name == name })
		if i < 0 {
			out.that(false, "%s: %s: no such check", where, name)
			continue
		}
		c := s.Checks[i]
		out.that(c.OK && c.Absent == "" && c.Bound != nil, "%s: %s: %s", where, name, checkText(c))
	}
	out.that(s.Layers != nil && s.Account != nil, "%s: has layers and an account", where)
	if s.Layers != nil {
		out.that(tableSums(s.Layers) == "", "%s: the layers add up%s", where, tableSums(s.Layers))
		share := shareOf(s.Layers, layerOther)
		out.that(share < maxOther, "%s: other is %.2f %%, below %g %%", where, 100*share, 100*maxOther)
	}
	if s.Account != nil {
		out.that(accountSums(s.Account) == "", "%s: the account adds up%s", where, accountSums(s.Account))
	}
}

func checkText(c attribution.Check) string {
	if c.Absent != "" {
		return c.Absent
	}
	text := fmt.Sprintf("%.6g against %.6g %s", c.Value, c.Want, c.Unit)
	if c.Bound != nil {
		text += fmt.Sprintf(", within %.4g", *c.Bound)
	}
	if c.Detail != "" {
		text += " (" + c.Detail + ")"
	}
	return text
}

// matched asserts the comparison at the matched rate.
func matched(out *results, r *report.Report) {
	if r.Matched.RateHz == nil {
		out.that(false, "a matched rate: %s", r.Matched.Reason)
		return
	}
	rate := *r.Matched.RateHz
	for _, a := range r.Arms {
		if !slices.Contains(comparedArms, a.Name) {
			continue
		}
		out.that(a.Reading.Knee != nil && a.Reading.Knee.OfferedHz >= rate, "%s: the matched rate %.6g/s is not above its knee (%s)", a.Name, rate, kneeText(a.Reading))
		column := columnOf(r, a.Name)
		out.that(column != nil, "%s: is compared at the matched rate %s", a.Name, excludedText(r, a.Name))
	}
	for _, name := range jsonArms {
		if column := columnOf(r, name); column != nil {
			row := rowOf(&column.Table, layerCodec)
			ok := row != nil && row.TooFew == "" && row.Share.Interval != nil &&
				row.Share.Interval.Lo > 0 && row.Share.Value > row.Share.Interval.HalfWidth()
			out.that(ok, "%s: codec stands above its interval: %s", name, rowText(row))
		}
	}
}

// streamCheaper asserts that a message of grpc-stream costs less CPU than a call
// of grpc-unary, on average over the reports. One window does not decide it: at
// rates far below the knee the greater part of either is waking a thread, which
// costs twice as much while the scheduler keeps driver and arm on different CPUs,
// and it keeps them there for seconds.
func streamCheaper(out *results, reports []*report.Report) {
	var unary, stream float64
	for _, r := range reports {
		u, s := columnOf(r, "grpc-unary"), columnOf(r, "grpc-stream")
		if u == nil || s == nil || u.Table.MsPerRequest == nil || s.Table.MsPerRequest == nil {
			out.that(false, "grpc-unary and grpc-stream have figures per request at the matched rate")
			return
		}
		if got, want := r.Matched.RateHz, reports[0].Matched.RateHz; got == nil || want == nil || *got != *want {
			out.that(false, "grpc-unary and grpc-stream: all reports are of one matched rate")
			return
		}
		unary += *u.Table.MsPerRequest / float64(len(reports))
		stream += *s.Table.MsPerRequest / float64(len(reports))
	}
	out.that(stream < unary, "a message of grpc-stream (%.4f ms) costs less CPU than a call of grpc-unary (%.4f ms), mean of %d",
		stream, unary, len(reports))
}

func columnOf(r *report.Report, name string) *report.MatchedArm {
	for i := range r.Matched.Columns {
		if r.Matched.Columns[i].Arm == name {
			return &r.Matched.Columns[i]
		}
	}
	return nil
}

func excludedText(r *report.Report, name string) string {
	for _, e := range r.Matched.Excluded {
		if e.Arm == name {
			return "(excluded: " + e.Reason + ")"
		}
	}
	return ""
}
