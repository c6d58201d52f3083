package gate

import (
	"fmt"
	"slices"
	"strings"
)

// Row is what came of one boot of one kernel. Empty fields are not known.
type Row struct {
	Kernel   string // uname -r
	Lockdown string
	Refused  string // why `rung check` refuses the kernel, which it must
	Check    string // of a supported kernel
	Programs []Program
	Features []Feature
	Tests    string // how many passed, or which did not
	Failed   string // why the row does not count; the rest may be incomplete
}

// Table renders rows as Markdown: a summary, and beneath it what each program
// costs each kernel.
func Table(rows []Row) string {
	var b strings.Builder
	var features []string
	for _, r := range rows {
		for _, f := range r.Features {
			if !slices.Contains(features, f.Name) {
				features = append(features, f.Name)
			}
		}
	}
	head := append([]string{"kernel", "lockdown", "`rung check`", "programs attached", "verified, most", "load, all", "kernel tests"}, features...)
	writeLine(&b, head)
	writeLine(&b, slices.Repeat([]string{"---"}, len(head)))
	for _, r := range rows {
		writeLine(&b, r.cells(features))
	}
	if programs := programTable(rows); programs != "" {
		b.WriteString("\nInstructions / verified / ms to load, by program:\n\n" + programs)
	}
	return b.String()
}

func (r Row) cells(features []string) []string {
	cells := []string{r.Kernel, r.Lockdown, r.Check, "", "", "", r.Tests}
	if r.Refused != "" {
		cells[2] = "refused: " + r.Refused
	}
	if r.Failed != "" {
		cells[6] = "**" + strings.TrimPrefix(r.Tests+"; "+r.Failed, "; ") + "**"
	}
	if len(r.Programs) > 0 {
		most := slices.MaxFunc(r.Programs, func(a, b Program) int { return a.Verified - b.Verified })
		var ms float64
		for _, p := range r.Programs {
			ms += p.LoadMs
		}
		cells[3] = fmt.Sprint(len(r.Programs))
		cells[4] = fmt.Sprintf("%d (%s)", most.Verified, most.Name)
		cells[5] = fmt.Sprintf("%.0f ms", ms)
	}
	for _, name := range features {
		answer := ""
		for _, f := range r.Features {
			if f.Name == name {
				answer = f.Answer
			}
		}
		cells = append(cells, answer)
	}
	return cells
}

// programTable has a column for each kernel, from its first row with programs.
func programTable(rows []Row) string {
	var kernels []Row
	var names []string
	for _, r := range rows {
		if len(r.Programs) == 0 || slices.ContainsFunc(kernels, func(k Row) bool { return k.Kernel == r.Kernel }) {
			continue
		}
		kernels = append(kernels, r)
		for _, p := range r.Programs {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	if kernels == nil {
		return ""
	}
	var b strings.Builder
	head := []string{"program"}
	for _, k := range kernels {
		head = append(head, k.Kernel)
	}
	writeLine(&b, head)
	writeLine(&b, slices.Repeat([]string{"---"}, len(head)))
	for _, name := range names {
		cells := []string{name}
		for _, k := range kernels {
			cell := ""
			for _, p := range k.Programs {
				if p.Name == name {
					cell = fmt.Sprintf("%d / %d / %.0f", p.Instructions, p.Verified, p.LoadMs)
				}
			}
			cells = append(cells, cell)
		}
		writeLine(&b, cells)
	}
	return b.String()
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
