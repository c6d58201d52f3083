package report

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/rungprof/rung/ladder"
)

// figure is one column of the step table.
type figure struct {
	head []string
	// json is the field's name in the JSON form, under which Step.Absent has
	// the reason for its absence.
	json    string
	print   func(Step) string
	meaning string
}

// cell prints the figure, or that it is absent.
func (f figure) cell(s Step) string {
	if s.Absent[f.json] != "" {
		return absent
	}
	return f.print(s)
}

// stepFigures are the columns of the step table, in order.
var stepFigures = []figure{
	{[]string{"offered", "/s"}, "offeredHz", func(s Step) string { return offered(s.OfferedHz) },
		"planned requests per second"},
	{[]string{"delivered", "/s"}, "deliveredHz", func(s Step) string { return rate(s.DeliveredHz) },
		"successes received inside the window, whichever step sent them (deliveredInWindow), ÷ window"},
	{[]string{"p50", "ms"}, "p50Ms", func(s Step) string { return pointer(s.P50Ms, millis) },
		"response time, from the intended instant, of the requests the step scheduled"},
	{[]string{"p99", "ms"}, "p99Ms", func(s Step) string { return pointer(s.P99Ms, millis) }, ""},
	{[]string{"p99.9", "ms"}, "p999Ms", func(s Step) string { return pointer(s.P999Ms, millis) }, ""},
	{[]string{"overflow", "/s"}, "overflowHz", func(s Step) string { return rate(s.OverflowHz) },
		"requests never sent, because the client's cap of requests in flight was reached"},
	{[]string{"cpu", "ms/req"}, "cpuMsPerRequest", func(s Step) string { return pointer(s.CPUMsPerRequest, perRequest) },
		"usage_usec of the arm's cgroup ÷ deliveredInWindow"},
	{[]string{"throttled", "cpu-s"}, "throttledCpuSeconds", func(s Step) string { return pointer(s.ThrottledCPUSeconds, fixed(2)) },
		"throttled_usec of the cgroup over the window, a sum over CPUs"},
	{[]string{"periods", "throttled", "%"}, "periodsThrottled", func(s Step) string { return pointer(s.PeriodsThrottled, percent) },
		"nr_throttled ÷ nr_periods"},
	{[]string{"cores"}, "cores", func(s Step) string { return pointer(s.Cores, fixed(3)) },
		"usage_usec ÷ window"},
	{[]string{"JIT", "%"}, "jitShare", func(s Step) string { return pointer(s.JITShare, percent) },
		"part of the arm's CPU that the compiler threads of its JVM took"},
	{[]string{"RSS", "MB"}, "rssBytes", func(s Step) string { return pointer(s.RSSBytes, megabytes) },
		"resident memory of the arm's processes at the window's end (1 MB = 10⁶ bytes)"},
	{[]string{"heap", "MB"}, "heapBytes", func(s Step) string { return pointer(s.HeapBytes, megabytes) },
		"heap of the arm's managed runtime, read from outside"},
}

func percent(share float64) string { return number(100*share, 1) }

func layoutLadders(d *document, r *Report) {
	d.add(heading{2, "Ladders"})
	if len(r.Arms) == 0 {
		d.add(para{"No run."})
		return
	}
	shown := map[string]bool{}
	for i := range r.Arms {
		layoutSteps(d, &r.Arms[i], shown)
	}
	d.add(heading{3, "Columns and flags of these tables"})
	d.explain(stepLegend(r))
	d.explain(readingLegend(r))
	d.explain(flagLegend(shown))
}

// layoutSteps adds an arm's step table. It collects into shown the flags used.
func layoutSteps(d *document, a *Arm, shown map[string]bool) {
	d.add(heading{3, armTitle(a)})
	figures := figuresOf(a.Steps)
	t := tableBlock{repeat: 1}
	for _, f := range figures {
		t.columns = append(t.columns, column{head: f.head})
	}
	t.columns = append(t.columns, column{head: []string{"flags"}, left: true, wrap: true})
	for _, s := range a.Steps {
		row := tableRow{}
		for _, f := range figures {
			row.cells = append(row.cells, f.cell(s))
		}
		row.cells = append(row.cells, stepFlags(s, shown))
		if s.Has(ladder.FlagVoid) {
			row.tone = toneBad
		} else if s.Warmup {
			row.tone = toneDim
		}
		t.rows = append(t.rows, row)
	}
	d.add(t)
	d.add(para{readingText(a)})
	notes := slices.Clone(a.Reading.Warnings)
	notes = append(notes, absentNotes(a.Steps, figures)...)
	notes = append(notes, stepNotes(a.Steps)...)
	notes = append(notes, a.Warnings...)
	d.note(notes)
}

// figuresOf leaves out what no step has and only managed runtimes do: heap and
// JIT share.
func figuresOf(steps []Step) []figure {
	heap := slices.ContainsFunc(steps, func(s Step) bool { return s.HeapBytes != nil })
	jit := slices.ContainsFunc(steps, func(s Step) bool { return s.JITShare != nil })
	return slices.DeleteFunc(slices.Clone(stepFigures), func(f figure) bool {
		return f.json == "heapBytes" && !heap || f.json == "jitShare" && !jit
	})
}

func armTitle(a *Arm) string {
	parts := []string{a.Name}
	if a.Protocol != "" && a.Protocol != a.Name {
		parts = append(parts, "protocol "+a.Protocol)
	}
	if a.Body != "" {
		parts = append(parts, a.Body+" body")
	}
	switch {
	case a.Imported != "":
		parts = append(parts, "from "+a.Imported)
	case a.QuotaCPUs > 0:
		parts = append(parts, "quota "+number(a.QuotaCPUs, digitsFor(a.QuotaCPUs, 3))+" CPU")
	default:
		parts = append(parts, "no quota")
	}
	if a.Host != "" {
		parts = append(parts, a.Host)
	}
	return strings.Join(parts, " · ")
}

// stepFlags are the short marks of a step in the table.
func stepFlags(s Step, shown map[string]bool) string {
	var marks []string
	if s.Warmup {
		marks = append(marks, "warm-up")
	}
	for _, f := range s.Flags {
		marks = append(marks, string(f.Kind))
	}
	for _, m := range marks {
		shown[m] = true
	}
	return strings.Join(marks, ", ")
}

// absentNotes gives for each reason the figures and steps it concerns.
func absentNotes(steps []Step, figures []figure) []string {
	type where struct{ figures, steps []string }
	byReason := map[string]*where{}
	var order []string
	for _, f := range figures {
		for _, s := range steps {
			reason := s.Absent[f.json]
			if f.cell(s) != absent {
				continue
			}
			if reason == "" {
				reason = "not measured"
			}
			w := byReason[reason]
			if w == nil {
				w = &where{}
				byReason[reason] = w
				order = append(order, reason)
			}
			if name := strings.Join(f.head, " "); !slices.Contains(w.figures, name) {
				w.figures = append(w.figures, name)
			}
			if !slices.Contains(w.steps, s.Name) {
				w.steps = append(w.steps, s.Name)
			}
		}
	}
	var notes []string
	for _, reason := range order {
		w := byReason[reason]
		sort.Strings(w.steps)
		notes = append(notes, fmt.Sprintf("%s in %s (%s): %s", absent, strings.Join(w.figures, ", "), stepList(w.steps), reason))
	}
	return notes
}

// stepNotes gives the figures behind the flags, and the warnings.
func stepNotes(steps []Step) []string {
	return gatherNotes(steps, func(s Step) []string {
		var out []string
		for _, f := range s.Flags {
			out = append(out, f.Detail)
		}
		if v := s.CPUMsPerAttempt; v != nil {
			out = append(out, "cpu per attempt, failed ones included: "+perRequest(*v)+" ms")
		}
		return append(out, unsaid(s)...)
	})
}

// warningFlags are the beginnings of warnings that say what a flag of the same
// step says too.
var warningFlags = []struct {
	prefix string
	kind   ladder.FlagKind
}{
	{"errors: ", ladder.FlagErrors}, {"in flight: ", ladder.FlagInFlight}, {"cap-limited: ", ladder.FlagCapLimited},
	{"missing: record: ", ladder.FlagAgentMissing}, {"the counters were read ", ladder.FlagBracket},
	{"the window closed by itself", ladder.FlagExpired}, {"client-limited: sends were late ", ladder.FlagClientLate},
}

// unsaid are a step's warnings, less those that a flag or the reason of an
// absent figure has said.
func unsaid(s Step) []string {
	return slices.DeleteFunc(slices.Clone(s.Warnings), func(w string) bool {
		for _, reason := range s.Absent {
			if reason == w {
				return true
			}
		}
		for _, f := range warningFlags {
			if strings.HasPrefix(w, f.prefix) && s.Has(f.kind) {
				return true
			}
		}
		return false
	})
}

// gatherNotes makes one note of all that is said of the same steps.
func gatherNotes(steps []Step, say func(Step) []string) []string {
	var texts []string
	where := map[string][]string{} // steps by text
	for _, s := range steps {
		for _, text := range say(s) {
			if where[text] == nil {
				texts = append(texts, text)
			}
			if w := where[text]; len(w) == 0 || w[len(w)-1] != s.Name {
				where[text] = append(w, s.Name)
			}
		}
	}
	var places []string
	said := map[string][]string{} // texts by steps
	for _, text := range texts {
		place := stepList(where[text])
		if said[place] == nil {
			places = append(places, place)
		}
		said[place] = append(said[place], text)
	}
	var notes []string
	for _, place := range places {
		notes = append(notes, place+": "+strings.Join(said[place], "; "))
	}
	return notes
}

// stepLegend explains the columns that the report's tables have.
func stepLegend(r *Report) []entry {
	var all []Step
	for _, a := range r.Arms {
		all = append(all, a.Steps...)
	}
	var entries []entry
	for _, f := range figuresOf(all) {
		term := strings.ReplaceAll(strings.Join(f.head, " "), " /s", "/s")
		switch {
		case f.json == "p50Ms":
			term = "p50, p99, p99.9 ms"
		case f.meaning == "":
			continue
		}
		entries = append(entries, entry{term, f.meaning})
	}
	return append(entries, entry{absent, "not measured; the reason stands below the table"})
}

// flagMeanings explains each flag, in the order of the legend.
var flagMeanings = []entry{
	{"warm-up", "the step before the ladder; in no comparison"},
	{string(ladder.FlagVoid), "no figure of the step may be used; it is in no comparison"},
	{string(ladder.FlagAgentMissing), "the agent left no record of the step"},
	{string(ladder.FlagBracket), "reading the cgroup's counters took more than 20 ms: usage_usec is uncertain by that time on every CPU"},
	{string(ladder.FlagEdgeLate), "the agent armed an edge of the window after its time"},
	{string(ladder.FlagExpired), "the window closed by itself: its driver never ended it"},
	{string(ladder.FlagInFlight), "requests in flight changed over the window by more than 1 % of completions"},
	{string(ladder.FlagErrors), "more than 1 % of requests failed"},
	{string(ladder.FlagCapLimited), "overflow above 1 %: p50 and p99 are those of the client's cap"},
	{string(ladder.FlagClientLate), "the client sent behind its schedule: the ladder is limited by the client here"},
	{string(ladder.FlagFirstStep), "the first measured step is off those after it: the arm was not warm"},
	{string(ladder.FlagControl), "driven without the profiler, to be held against the same step with it; in no comparison"},
	{string(ladder.FlagTooFew), "too few requests or samples for the figures behind them"},
}

func flagLegend(shown map[string]bool) []entry {
	var entries []entry
	for _, e := range flagMeanings {
		if shown[e.term] {
			entries = append(entries, e)
		}
	}
	return entries
}
