package report

import (
	"bufio"
	"io"
	"strings"
)

// Markdown writes the report in the dialect of GitHub (tables with pipes).
func Markdown(w io.Writer, r *Report) error {
	m := &markdown{w: bufio.NewWriter(w)}
	for i, b := range layout(r, 0).blocks {
		if i > 0 {
			m.w.WriteByte('\n')
		}
		m.block(b)
	}
	return m.w.Flush()
}

type markdown struct{ w *bufio.Writer }

// markdownEscaper leaves plain punctuation alone, and takes the meaning from
// what would open markup, a cell or HTML: names come from the processes under test.
var markdownEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "|", `\|`, "<", "&lt;", ">", "&gt;", "[", `\[`, "]", `\]`, "&", "&amp;", "~", `\~`,
)

func escapeMarkdown(s string) string {
	return markdownEscaper.Replace(strings.Join(strings.Fields(sanitise(s)), " "))
}

func (m *markdown) line(parts ...string) {
	for _, p := range parts {
		m.w.WriteString(p)
	}
	m.w.WriteByte('\n')
}

func (m *markdown) block(b any) {
	switch b := b.(type) {
	case heading:
		m.line(strings.Repeat("#", b.level), " ", escapeMarkdown(b.text))
	case para:
		m.line(escapeMarkdown(b.text))
	case bullets:
		for _, item := range b.items {
			m.line("- ", escapeMarkdown(item))
		}
	case legend:
		for _, e := range b.entries {
			m.line("- **", escapeMarkdown(e.term), "**: ", escapeMarkdown(e.meaning))
		}
	case code:
		m.line("```sh")
		for _, l := range b.lines {
			m.line(strings.ReplaceAll(sanitise(l), "```", "'''"))
		}
		m.line("```")
	case tableBlock:
		m.table(b)
	}
}

func (m *markdown) table(b tableBlock) {
	heads, marks := make([]string, len(b.columns)), make([]string, len(b.columns))
	for i, c := range b.columns {
		heads[i] = escapeMarkdown(strings.Join(c.head, " "))
		if marks[i] = "---:"; c.left {
			marks[i] = "---"
		}
	}
	m.line("| ", strings.Join(heads, " | "), " |")
	m.line("| ", strings.Join(marks, " | "), " |")
	for _, r := range b.rows {
		row := make([]string, len(r.cells))
		for i, c := range r.cells {
			row[i] = escapeMarkdown(c)
			if r.rule && row[i] != "" {
				row[i] = "**" + row[i] + "**"
			}
		}
		m.line("| ", strings.Join(row, " | "), " |")
	}
}
