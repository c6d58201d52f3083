//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// analyseOptions say how runs are read. The zero value of a field is its default.
type analyseOptions struct {
	Title string // of the report; "" is "Rung report"
	// Rules name the layers and the idle waits; nil is preset go. RulesName
	// names them in the report.
	Rules     *attribution.Rules
	RulesName string
	// Groups of threads; nil: those that a record was made with.
	Groups   *attribution.Grouper
	Charge   attribution.Charge
	KneeRule ladder.KneeRule
}

func (o *analyseOptions) fill() error {
	if o.Title == "" {
		o.Title = "Rung report"
	}
	if o.Rules == nil {
		rules, err := attribution.Preset(defaultPreset)
		if err != nil {
			return err
		}
		o.Rules, o.RulesName = rules, "preset "+defaultPreset
	}
	if o.Charge == "" {
		o.Charge = attribution.Leaf
	}
	if o.KneeRule == (ladder.KneeRule{}) {
		o.KneeRule = ladder.DefaultKneeRule()
	}
	return nil
}

// defaultPreset is the rule file for the bundled arms.
const defaultPreset = "go"

// analyse reads runs and makes one report of them. Each of dirs is a run, or a
// directory of runs. What is missing in a step is absent in the report with its
// reason; a file that cannot be read is an error.
func analyse(dirs []string, opts analyseOptions) (report.Report, error) {
	if err := opts.fill(); err != nil {
		return report.Report{}, err
	}
	r := report.Report{
		SchemaVersion: report.SchemaVersion, Title: opts.Title, Dir: strings.Join(dirs, ", "), Rules: opts.RulesName,
	}
	for _, dir := range dirs {
		runs, err := rundir.OpenAll(dir)
		if err != nil {
			return report.Report{}, err
		}
		for _, run := range runs {
			arm, err := analyseRun(run, opts)
			if err != nil {
				return report.Report{}, err
			}
			r.Arms = append(r.Arms, arm)
		}
	}
	if len(r.Arms) == 0 {
		return report.Report{}, fmt.Errorf("no run was named")
	}
	uniqueNames(r.Arms)
	r.Matched = analyseMatched(r.Arms, opts.KneeRule)
	for i := range r.Arms {
		dropFunctions(r.Arms[i].Steps)
	}
	return r, nil
}

// analyseRun reads one ladder.
func analyseRun(d *rundir.Dir, opts analyseOptions) (report.Arm, error) {
	steps, err := d.Steps()
	if err != nil {
		return report.Arm{}, err
	}
	unfinished, err := d.Unfinished()
	if err != nil {
		return report.Arm{}, err
	}
	run := d.Run()
	a := report.Arm{
		Name: run.Arm, Run: run.ID, Protocol: run.Protocol, Body: run.Plan.Body, Dir: d.Path(), Started: run.Started,
		QuotaCPUs: quotaCPUs(run, steps), Host: hostText(run, steps),
	}
	if len(steps) == 0 {
		a.Warnings = append(a.Warnings, "the run has no finished step")
	}
	for _, name := range unfinished {
		a.Warnings = append(a.Warnings, "step "+name+" was not written to its end and is left out")
	}
	for _, s := range steps {
		step, err := analyseStep(d, s, opts)
		if err != nil {
			return report.Arm{}, err
		}
		a.Steps = append(a.Steps, step)
	}
	rows := ladderSteps(a.Steps)
	if i, why := ladder.FirstStep(rows); why != "" {
		a.Steps[i].Flags = append(a.Steps[i].Flags, ladder.Flag{Kind: ladder.FlagFirstStep, Detail: why})
	}
	a.Overheads = ladder.Overheads(rows)
	a.Overhead = ladder.MedianShare(a.Overheads)
	a.Reading = ladder.Read(ladderSteps(a.Steps), opts.KneeRule)
	return a, nil
}

func ladderSteps(steps []report.Step) []ladder.Step {
	out := make([]ladder.Step, len(steps))
	for i := range steps {
		out[i] = steps[i].Step
	}
	return out
}

// quotaCPUs is the quota that the agent saw in force, else the one the run was
// given; 0 is none.
func quotaCPUs(run rundir.Run, steps []rundir.Step) float64 {
	for _, s := range steps {
		if q := s.Record.GetCounters().GetQuotaCpus(); q > 0 {
			return q
		}
	}
	return run.QuotaCPUs
}

// hostText says where the ladder ran, from the agent's records where there are
// any, since the driver may sit on another host.
func hostText(run rundir.Run, steps []rundir.Step) string {
	kernel, arch, cpus, sampling := run.Host.Kernel, run.Host.Arch, run.Host.CPUs, run.Plan.SampleRateHz
	for _, s := range steps {
		if s.Record == nil {
			continue
		}
		if h := s.Record.GetHost(); h != nil {
			kernel, arch, cpus = h.GetKernel(), h.GetArch(), int(h.GetCpus())
		}
		if hz := s.Record.GetSampling().GetRateHz(); hz > 0 {
			sampling = int(hz)
		}
		break
	}
	var parts []string
	if kernel != "" {
		parts = append(parts, strings.TrimSpace("Linux "+kernel+" "+arch))
	}
	if cpus > 0 {
		parts = append(parts, fmt.Sprintf("%d CPUs", cpus))
	}
	if sampling > 0 {
		parts = append(parts, fmt.Sprintf("%d Hz", sampling))
	}
	return strings.Join(parts, ", ")
}

// uniqueNames adds the directory's name to arms that occur more than once, so
// that repeats of one arm can be told apart.
func uniqueNames(arms []report.Arm) {
	count := map[string]int{}
	for _, a := range arms {
		count[a.Name]++
	}
	for i := range arms {
		if a := &arms[i]; count[a.Name] > 1 {
			a.Name = fmt.Sprintf("%s (%s)", a.Name, filepath.Base(a.Dir))
		}
	}
}

// analyseMatched lines the arms up at one offered rate.
func analyseMatched(arms []report.Arm, rule ladder.KneeRule) report.Matched {
	ladders := make([]ladder.Arm, len(arms))
	for i := range arms {
		ladders[i] = ladder.Arm{Name: arms[i].Name, Steps: ladderSteps(arms[i].Steps)}
	}
	match := ladder.Matched(ladders, rule)
	m := report.Matched{Reason: match.Reason, Excluded: match.Excluded, Warnings: match.Warnings}
	if match.Reason != "" {
		return m
	}
	m.RateHz = &match.RateHz
	for _, at := range match.Steps {
		i := slices.IndexFunc(arms, func(a report.Arm) bool { return a.Name == at.Arm })
		if i < 0 {
			continue
		}
		for _, s := range arms[i].Steps {
			switch {
			case s.Index != at.Step:
			case s.Layers == nil:
				m.Excluded = append(m.Excluded, ladder.ExcludedArm{Arm: at.Arm, Reason: s.Absent["layers"]})
			default:
				m.Columns = append(m.Columns, report.MatchedArm{Arm: at.Arm, Step: s.Name, Table: *s.Layers})
			}
		}
	}
	if len(m.Columns) == 0 {
		m.Reason = "no arm has a profile at it"
	}
	return m
}

// dropFunctions keeps functions for the compared steps only: they are most of a
// report's bytes.
func dropFunctions(steps []report.Step) {
	for i := range steps {
		if steps[i].Layers == nil {
			continue
		}
		t := *steps[i].Layers
		t.Rows, t.Unattributed = slices.Clone(t.Rows), slices.Clone(t.Unattributed)
		for j := range t.Rows {
			t.Rows[j].Functions = nil
		}
		for j := range t.Unattributed {
			t.Unattributed[j].Functions = nil
		}
		steps[i].Layers = &t
	}
}
