package gate

import (
	"fmt"
	"slices"
	"strings"
)

// Row is what came of one boot of one kernel. Empty fields are not known.
type Row struct {
	Kernel   string // uname -r
	Lockdown string // off or on
	Refused  string // why Rung refuses the kernel, which it must
	Checked  bool   // `rung check` found nothing missing
	Passed   int    // kernel tests
	Failed   string // why the row does not count; the rest may be incomplete
	Boots    int    // more than 1: the guest panicked or hung before
	Findings
}

// truths are the columns of the account held against the truth, by the names
// that the tests print.
var truths = []struct{ name, head string }{
	{"waits", "waits"},
	{"quota", "quota"},
	{"throttled", "throttled"},
	{"on-CPU shares", "on-CPU"},
	{"off-CPU shares", "off-CPU"},
}

// Legend explains the columns of Table.
const Legend = `Each boot runs ` + "`rung check`" + ` (*ok*, and how many programs loaded and attached one by one)
and holds the account against workloads that know the truth. The worst distances of a
boot, in percent: *waits* and *quota* lie outside what the workload's own clocks allow, of
its wall time; *throttled* outside what ` + "`cpu.stat`" + ` says; *on-CPU* and *off-CPU* are points by
which the sampled shares of two places are off. *Verified* are the verifier's instructions in
the worst program (the kernel's limit is 1,000,000), *load* the seconds to load all programs
one by one.
`

// Table renders rows as Markdown: a line for each, beneath them the kernels'
// answers and what failed. No line has more than 100 columns.
func Table(rows []Row) string {
	var b strings.Builder
	head := []string{"kernel", "lock", "check", "tests"}
	for _, t := range truths {
		head = append(head, t.head)
	}
	head = append(head, "verified", "load")
	writeLine(&b, head)
	writeLine(&b, append([]string{"---", "---", "---"}, slices.Repeat([]string{"--:"}, len(head)-3)...))
	for _, r := range rows {
		writeLine(&b, r.cells())
	}
	notes := append(featureNotes(rows), boots(rows)...)
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range notes {
		b.WriteString(wrap("- "+note, 100))
	}
	return b.String()
}

func (r Row) cells() []string {
	cells := slices.Repeat([]string{""}, 4+len(truths)+2)
	cells[0], cells[1] = short(r.Kernel), r.Lockdown
	switch {
	case r.Refused != "" && r.Failed == "":
		cells[2] = "refused"
	case r.Checked:
		cells[2] = "ok"
	}
	if r.Failed != "" {
		cells[3] = "**failed**"
	} else if r.Passed > 0 {
		cells[3] = fmt.Sprint(r.Passed)
	}
	for i, column := range truths {
		worst, known := 0.0, false
		for _, t := range r.Truths {
			if t.Name == column.name {
				worst, known = max(worst, t.Percent), true
			}
		}
		if known {
			cells[4+i] = fmt.Sprintf("%.2f", worst)
		}
	}
	if len(r.Programs) > 0 {
		most, ms := 0, 0.0
		for _, p := range r.Programs {
			most = max(most, p.Verified)
			ms += p.LoadMs
		}
		cells[2] = strings.TrimPrefix(fmt.Sprintf("%s, %d", cells[2], len(r.Programs)), ", ")
		cells[len(cells)-2], cells[len(cells)-1] = thousands(most), fmt.Sprintf("%.1f", ms/1000)
	}
	return cells
}

// short leaves out of a release the flavour and architecture, which all have alike.
func short(release string) string {
	release, _, _ = strings.Cut(release, "-cloud")
	return release
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// featureNotes say for each question how the kernels answer it.
func featureNotes(rows []Row) []string {
	var names []string
	answers := map[string][]string{}    // by question, in order
	kernels := map[[2]string][]string{} // by question and answer
	for _, r := range rows {
		for _, f := range r.Features {
			if !slices.Contains(names, f.Name) {
				names = append(names, f.Name)
			}
			if !slices.Contains(answers[f.Name], f.Answer) {
				answers[f.Name] = append(answers[f.Name], f.Answer)
			}
			key, boot := [2]string{f.Name, f.Answer}, short(r.Kernel)
			if !slices.Contains(kernels[key], boot) {
				kernels[key] = append(kernels[key], boot)
			}
		}
	}
	var notes []string
	for _, name := range names {
		var parts []string
		for _, answer := range answers[name] {
			parts = append(parts, answer+" on "+strings.Join(kernels[[2]string{name, answer}], ", "))
		}
		notes = append(notes, fmt.Sprintf("*%s*: %s.", name, strings.Join(parts, "; ")))
	}
	return notes
}

// boots say what is not in the table of those that were refused, failed or
// needed a second try.
func boots(rows []Row) []string {
	var notes []string
	for _, r := range rows {
		name := fmt.Sprintf("%s, lockdown %s", short(r.Kernel), r.Lockdown)
		switch {
		case r.Failed != "":
			notes = append(notes, name+": **"+r.Failed+"**")
		case r.Refused != "":
			notes = append(notes, name+": "+r.Refused+".")
		}
		if r.Boots > 1 {
			notes = append(notes, fmt.Sprintf("%s: the guest panicked or hung; this is boot %d.", name, r.Boots))
		}
	}
	return notes
}

// wrap breaks a list item between words, where there are any.
func wrap(text string, columns int) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > columns:
			b.WriteString(line + "\n")
			line = "  " + word
		default:
			line += " " + word
		}
	}
	return b.String() + line + "\n"
}

func writeLine(b *strings.Builder, cells []string) {
	for _, c := range cells {
		if c == "" {
			c = "–"
		}
		b.WriteString("| " + strings.ReplaceAll(c, "|", `\|`) + " ")
	}
	b.WriteString("|\n")
}
