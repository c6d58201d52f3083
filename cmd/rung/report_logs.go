//go:build linux

package main

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rungprof/rung/foreign"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
	"github.com/rungprof/rung/rundir"
)

// logOptions are the flags that say how logs of other tools are read.
type logOptions struct {
	marker  string
	ok      []string
	latency []string
}

func addLogFlags(f *pflag.FlagSet, o *logOptions) {
	f.StringVar(&o.marker, "marker", "", "`REGEXP` of the lines that part a log into steps, with some of the named groups "+strings.Join(foreign.MarkerKeys, ", ")+
		", as in '^== (?P<edge>start|end) at (?P<offered>\\d+)' (default: #NH-STEP or #RUNG-STEP with start or end and KEY=VALUE, or JSON)")
	f.StringSliceVar(&o.ok, "ok-counter", nil, "Nighthawk's counters of success; the first that a result has counts (default "+strings.Join(foreign.DefaultOK, ", ")+")")
	f.StringSliceVar(&o.latency, "latency", nil, "the same of its histograms (default "+strings.Join(foreign.DefaultLatency, ", ")+")")
}

func (o logOptions) given() bool { return o.marker != "" || len(o.ok) > 0 || len(o.latency) > 0 }

func (o logOptions) options() (foreign.Options, error) {
	out := foreign.Options{OK: o.ok, Latency: o.latency}
	if o.marker == "" {
		return out, nil
	}
	var err error
	if out.Marker, err = foreign.NewMarker(o.marker); err != nil {
		return out, exitError{exitUsage, fmt.Errorf("--%w", err)}
	}
	return out, nil
}

// maxLogFiles bounds a directory of logs.
const maxLogFiles = 10_000

// logLadder is what logs say of one arm's ladder.
type logLadder struct {
	arm, file string
	steps     []foreign.Step
	notes     []string
	lone      bool // one result without a marker
}

// analyseLogs makes a report of a log, or of all logs below a directory: each is a
// ladder, or one for each arm that its markers name. Files with one result each and
// no marker, whose names differ in numbers alone, are the steps of one ladder.
func analyseLogs(path string, o logOptions, rule ladder.KneeRule) (report.Report, error) {
	options, err := o.options()
	if err != nil {
		return report.Report{}, err
	}
	files, err := logFiles(path)
	if err != nil {
		return report.Report{}, err
	}
	var ladders []logLadder
	for _, file := range files {
		log, err := readLog(file, options)
		if err != nil {
			return report.Report{}, err
		}
		ladders = append(ladders, laddersOf(file, log)...)
	}
	if len(ladders) == 0 {
		return report.Report{}, fmt.Errorf("%s: no run, and none of its %d files holds a result of Nighthawk, k6 or wrk, or a marker of a step (--marker)", path, len(files))
	}
	r := report.Report{SchemaVersion: report.SchemaVersion, Title: "Rung report", Dir: path, Rules: "none: logs have no profile"}
	for _, l := range joined(ladders) {
		r.Arms = append(r.Arms, l.arms(rule))
	}
	uniqueNames(r.Arms)
	r.Matched = analyseMatched(r.Arms, rule)
	return r, nil
}

// logFiles are the regular files below a path, hidden ones left out.
func logFiles(path string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(path, func(file string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case file != path && strings.HasPrefix(e.Name(), "."):
			if e.IsDir() {
				return fs.SkipDir
			}
		case e.Type().IsRegular() && len(files) == maxLogFiles:
			return fmt.Errorf("%s: more than %d files; name a directory of fewer", path, maxLogFiles)
		case e.Type().IsRegular():
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

func readLog(file string, o foreign.Options) (foreign.Log, error) {
	f, err := os.Open(file)
	if err != nil {
		return foreign.Log{}, err
	}
	defer f.Close()
	log, err := foreign.Parse(f, o)
	if err != nil {
		return foreign.Log{}, fmt.Errorf("%s: %w", file, err)
	}
	return log, nil
}

var logExtension = regexp.MustCompile(`(?:\.(?:log|txt|json|out|gz))+$`)

// laddersOf parts a log by the arms that its markers name; a file without a step is
// none.
func laddersOf(file string, log foreign.Log) []logLadder {
	base := cmp.Or(logExtension.ReplaceAllString(filepath.Base(file), ""), filepath.Base(file))
	var named []string
	for _, s := range log.Steps {
		if s.Arm != "" && !slices.Contains(named, s.Arm) {
			named = append(named, s.Arm)
		}
	}
	if len(named) == 1 {
		base = named[0] // some of its markers leave the name out
	}
	var out []logLadder
	for _, s := range log.Steps {
		name := cmp.Or(s.Arm, base)
		i := slices.IndexFunc(out, func(l logLadder) bool { return l.arm == name })
		if i < 0 {
			i = len(out)
			out = append(out, logLadder{arm: name, file: file})
		}
		out[i].steps = append(out[i].steps, s)
	}
	if len(out) > 0 {
		out[0].notes = log.Notes
		out[0].lone = len(log.Steps) == 1 && log.Steps[0].Result != nil && log.Steps[0].OfferedHz == nil && log.Steps[0].Start.IsZero() && log.Steps[0].Arm == ""
	}
	return out
}

var digits = regexp.MustCompile(`\d+`)

// joined puts lone results of one directory whose names differ in numbers alone into
// one ladder, by rising rate.
func joined(all []logLadder) []logLadder {
	var out []logLadder
	at := map[string]int{}
	for _, l := range all {
		key := digits.ReplaceAllString(strings.TrimSuffix(l.file, ".gz"), "*")
		i, seen := at[key]
		if !l.lone || !seen {
			if l.lone {
				at[key] = len(out)
			}
			out = append(out, l)
			continue
		}
		out[i].arm = digits.ReplaceAllString(l.arm, "*")
		out[i].steps = append(out[i].steps, l.steps...)
		out[i].notes = append(out[i].notes, l.notes...)
	}
	for i := range out {
		if out[i].lone {
			slices.SortStableFunc(out[i].steps, func(a, b foreign.Step) int { return cmp.Compare(valueOf(a.Offered()), valueOf(b.Offered())) })
		}
	}
	return out
}

func valueOf(v *float64) float64 {
	if v == nil {
		return math.Inf(1)
	}
	return *v
}

// arms is the ladder as the report has it.
func (l logLadder) arms(rule ladder.KneeRule) report.Arm {
	a := report.Arm{Name: l.arm, Dir: l.file, Warnings: l.notes}
	var tools []string
	for i, s := range l.steps {
		a.Steps = append(a.Steps, logStep(i, s))
		if s.Result != nil && !slices.Contains(tools, string(s.Result.Tool)) {
			tools = append(tools, string(s.Result.Tool))
		}
		if a.Started.IsZero() {
			a.Started = s.Start
		}
	}
	a.Imported = "a log of " + cmp.Or(strings.Join(tools, " and "), "no known tool")
	a.Warnings = append(a.Warnings, "latency is as its tool means it: mostly from sending a request, of those that succeeded")
	rows := ladderSteps(a.Steps)
	if i, why := ladder.FirstStep(rows); why != "" {
		a.Steps[i].Flags = append(a.Steps[i].Flags, ladder.Flag{Kind: ladder.FlagFirstStep, Detail: why})
	}
	a.Reading = ladder.Read(ladderSteps(a.Steps), rule)
	return a
}

// logStep is a step of a log, with a reason for each figure that it does not have.
func logStep(index int, s foreign.Step) report.Step {
	o := observeLog(index, s)
	out := report.Step{Step: ladder.New(o), Absent: map[string]string{}}
	absent := func(missing bool, reason string, figures ...string) {
		for _, f := range figures {
			if missing && out.Absent[f] == "" {
				out.Absent[f] = reason
			}
		}
	}
	absent(s.Offered() == nil, "neither a marker nor the tool says what was offered", "offeredHz")
	absent(o.ClientVoid != "", o.ClientVoid, "deliveredHz", "overflowHz")
	absent(s.Result == nil || s.Result.Overflow == nil || s.Offered() == nil, "the tool does not say it, or of no rate", "overflowHz")
	absent(out.P50Ms == nil, "the tool printed no such quantile", "p50Ms")
	absent(out.P99Ms == nil, "the tool printed no such quantile", "p99Ms")
	absent(out.P999Ms == nil, "the tool printed no such quantile", "p999Ms")
	const none = "the log's markers carry no counters of the arm (usage_usec, throttled_usec)"
	absent(o.UsageNs == nil, none, "cpuMsPerRequest", "cores")
	absent(out.CPUMsPerRequest == nil, "nothing was delivered", "cpuMsPerRequest", "cores")
	absent(o.ThrottledNs == nil, none, "throttledCpuSeconds")
	absent(true, "a log has none", "periodsThrottled", "rssBytes", "account", "layers")
	if s.Result != nil {
		out.Warnings = s.Result.Notes
	}
	return out
}

// observeLog takes from a step of a log what package ladder reads. Such a step is
// whole: what was delivered is divided by the time that its tool sent.
func observeLog(index int, s foreign.Step) ladder.Observed {
	o := ladder.Observed{Index: index, Name: fmt.Sprintf("%02d", index), Warmup: s.Warmup, UsageNs: s.UsageNs, ThrottledNs: s.ThrottledNs}
	if hz := s.Offered(); hz != nil && *hz <= rundir.MaxOfferedHz {
		o.OfferedHz, o.Name = *hz, rundir.StepName(index, *hz)
	}
	r := s.Result
	if r == nil {
		o.ClientVoid = "the log has no result of the step"
		return o
	}
	if r.Delivered == nil {
		o.ClientVoid = "the result has no counter of success (--ok-counter)"
		return o
	}
	seconds := s.Seconds()
	if seconds == nil || !(*seconds > 0 && *seconds < 1e9) {
		o.ClientVoid = "the log does not say how long the step took"
		return o
	}
	o.WindowNs = int64(*seconds * 1e9)
	o.Delivered, o.DeliveredInWindow = *r.Delivered, *r.Delivered
	for _, n := range r.Errors {
		o.Errors += n
	}
	o.Sent, o.Completed = o.Delivered+o.Errors, o.Delivered+o.Errors
	o.Scheduled = o.Sent
	if r.Overflow != nil {
		o.Overflow = *r.Overflow
		o.Scheduled += o.Overflow
	}
	for _, n := range r.Deferred {
		o.Scheduled += n
	}
	if o.Delivered > 0 {
		o.P50Ms, o.P99Ms, o.P999Ms = r.P50Ms, r.P99Ms, r.P999Ms
	}
	return o
}
