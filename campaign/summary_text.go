package campaign

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Text writes a summary for a terminal, in lines of at most Width columns.
func (s Summary) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cut(s.title(), Width))
	for _, t := range s.Tables {
		b.WriteString("\n" + cut(t.title(), Width) + "\n")
		writeTable(&b, t.cells())
		for _, line := range t.notes() {
			writeWrapped(&b, "- "+line, "  ")
		}
	}
	b.WriteByte('\n')
	for _, line := range s.legend() {
		writeWrapped(&b, line, "  ")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Markdown writes the same as Markdown.
func (s Summary) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", escape(s.title()))
	for _, t := range s.Tables {
		fmt.Fprintf(&b, "\n## %s\n\n", escape(t.title()))
		for i, row := range t.cells() {
			for j := range row {
				row[j] = escape(row[j])
			}
			b.WriteString("| " + strings.Join(row, " | ") + " |\n")
			if i == 0 {
				b.WriteString("| --- |" + strings.Repeat(" ---: |", len(row)-1) + "\n")
			}
		}
		if notes := t.notes(); len(notes) > 0 {
			b.WriteByte('\n')
			for _, line := range notes {
				b.WriteString("- " + escape(line) + "\n")
			}
		}
	}
	b.WriteByte('\n')
	for _, line := range s.legend() {
		b.WriteString(escape(line) + "\n\n")
	}
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

var markdownMarks = strings.NewReplacer("|", "\\|", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`")

func escape(text string) string { return markdownMarks.Replace(text) }

func (s Summary) title() string {
	state := "complete"
	if !s.Complete {
		state = fmt.Sprintf("not complete: %d of %d ladders are", s.Finished, s.Ladders)
	}
	return fmt.Sprintf("Campaign %s: %s", s.Name, state)
}

func (t Table) title() string {
	text := t.Protocol
	if len(t.Sweep) > 0 {
		text += " · " + SweepText(t.Sweep)
	}
	if t.MatchedHz != nil {
		text += fmt.Sprintf(" · matched rate %g/s", *t.MatchedHz)
	}
	if t.Noise != nil {
		text += fmt.Sprintf(" · noise floor %.1f %%", 100**t.Noise)
	}
	return text
}

// absentMark stands for a figure that was not had.
const absentMark = "–"

// cells are the table with its heading.
func (t Table) cells() [][]string {
	first := ""
	if len(t.Rows) > 0 {
		first = t.Rows[0].Arm
	}
	overhead, control := false, false
	for _, r := range t.Rows {
		overhead, control = overhead || r.Overhead != nil, control || r.ControlMs != nil
	}
	head := []string{"arm", "n", "knee/s", "cpu ms/req", "÷ " + cut(first, 16), "p99 ms"}
	if control {
		head = append(head, "control ms/req")
	}
	if overhead {
		head = append(head, "profiler")
	}
	rows := [][]string{append(head, "void", "redone", "client-lim")}
	for i, r := range t.Rows {
		cells := []string{cut(r.Arm, 24), fmt.Sprint(r.Repeats), r.kneeText(), r.costText(t.Noise), r.ratioText(i == 0), figure(r.P99Ms, "%.3g")}
		if control {
			cells = append(cells, figure(r.ControlMs, "%.4f"))
		}
		if overhead {
			cells = append(cells, overheadText(r))
		}
		rows = append(rows, append(cells, fmt.Sprint(r.Void), fmt.Sprint(r.Redone), fmt.Sprint(r.ClientLimited)))
	}
	return rows
}

func (r Row) kneeText() string {
	if r.KneeHz == nil {
		return absentMark
	}
	text := fmt.Sprintf("%.4g", *r.KneeHz)
	if r.KneeAtLeast {
		text = "≥ " + text
	}
	if r.KneeMinHz < r.KneeMaxHz {
		text += fmt.Sprintf(" (%.4g–%.4g)", r.KneeMinHz, r.KneeMaxHz)
	}
	return text
}

func (r Row) costText(noise *float64) string {
	if r.CostMs == nil {
		return absentMark
	}
	if noise == nil {
		return fmt.Sprintf("%.4f", *r.CostMs)
	}
	return fmt.Sprintf("%.4f ±%.4f", *r.CostMs, *noise**r.CostMs)
}

func (r Row) ratioText(first bool) string {
	switch {
	case first:
		return "1"
	case r.Ratio == nil:
		return absentMark
	case r.WithinNoise:
		return "~"
	}
	return fmt.Sprintf("%.3f", *r.Ratio)
}

func overheadText(r Row) string {
	if r.Overhead == nil {
		return absentMark
	}
	return fmt.Sprintf("%+.1f %%", 100**r.Overhead)
}

func figure(v *float64, format string) string {
	if v == nil {
		return absentMark
	}
	return fmt.Sprintf(format, *v)
}

// notes say what the cells cannot.
func (t Table) notes() []string {
	var out []string
	if t.NoMatch != "" {
		out = append(out, "no matched rate: "+t.NoMatch)
	}
	switch {
	case t.Noise != nil:
		out = append(out, fmt.Sprintf("noise floor: the largest difference of cost within %d %s", t.NoisePairs, t.NoiseFrom))
	case len(t.Rows) > 1 && t.MatchedHz != nil:
		out = append(out, "no A/A pair was measured: no noise floor, so no difference is called within noise")
	}
	for _, r := range t.Rows {
		if r.NoKnee != "" {
			out = append(out, fmt.Sprintf("%s: a repeat has no knee: %s", r.Arm, r.NoKnee))
		}
		if t.MatchedHz != nil && r.CostMs == nil {
			out = append(out, r.Arm+": no CPU figure at the matched rate")
		}
		if r.FirstStep > 0 {
			out = append(out, fmt.Sprintf("%s: in %d ladders the first measured step is an outlier: %s", r.Arm, r.FirstStep, r.FirstStepWhy))
		}
	}
	return out
}

func (s Summary) legend() []string {
	lines := []string{
		"knee: the highest step that keeps up (" + s.Rule.String() + ") and at which the driver was not the limit; median over repeats, with the range. ≥: not reached.",
		"cpu ms/req: the arm's CPU time over the window ÷ deliveredInWindow at the matched rate, median over repeats ± the noise floor. " +
			"~: a difference within the noise floor. –: not measured.",
	}
	control, overhead := "", ""
	for _, t := range s.Tables {
		for _, r := range t.Rows {
			if r.ControlMs != nil {
				control = "control ms/req: the same of the control steps, without the profiler."
			}
			if r.Overhead != nil {
				overhead = "profiler: cost of profiled steps over that of their controls without profiling, median of all pairs."
			}
		}
	}
	for _, line := range []string{control, overhead} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	return append(lines, s.Notes...)
}

// writeTable aligns cells, the first column left, and rules off the heading.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	gap := "  "
	if total > Width {
		gap, total = " ", total-len(widths)+1
	}
	for i, r := range rows {
		cells := make([]string, len(r))
		for j, c := range r {
			cells[j] = padTo(c, widths[j], j > 0)
		}
		b.WriteString(strings.TrimRight(cut(strings.Join(cells, gap), Width), " ") + "\n")
		if i == 0 {
			b.WriteString(strings.Repeat("─", min(total, Width)) + "\n")
		}
	}
}
