package report

import (
	"bufio"
	"io"
	"strings"
)

// DefaultWidth is the width of terminal output in columns. It is fixed rather
// than the terminal's own, so that output can be compared.
const DefaultWidth = 100

// TerminalOptions of Terminal. The zero value is plain text of DefaultWidth.
type TerminalOptions struct {
	// Width in columns; 0 means DefaultWidth, less than 40 is taken as 40. Lines
	// to be copied (commands with a path) are not broken and may be wider.
	Width int
	// Colour writes ANSI sequences. The caller decides: only to a terminal, and
	// not when NO_COLOR is set.
	Colour bool
}

// Terminal writes the report for people at a terminal.
func Terminal(w io.Writer, r *Report, opt TerminalOptions) error {
	if opt.Width == 0 {
		opt.Width = DefaultWidth
	}
	opt.Width = max(opt.Width, 40)
	t := &terminal{w: bufio.NewWriter(w), opt: opt}
	doc := layout(r, opt.Width)
	for i, b := range doc.blocks {
		t.block(b, i == 0)
	}
	return t.w.Flush()
}

type terminal struct {
	w   *bufio.Writer
	opt TerminalOptions
}

const (
	ansiBold  = "\x1b[1m"
	ansiDim   = "\x1b[2m"
	ansiRed   = "\x1b[31m"
	ansiReset = "\x1b[0m"
)

// line writes one line in a colour; the text carries no sequence of its own.
func (t *terminal) line(s, ansi string) {
	s = strings.TrimRight(s, " ")
	if t.opt.Colour && ansi != "" && s != "" {
		s = ansi + s + ansiReset
	}
	t.w.WriteString(s)
	t.w.WriteByte('\n')
}

func (t *terminal) block(b any, first bool) {
	switch b := b.(type) {
	case heading:
		if !first {
			t.line("", "")
		}
		lines := wrapText(sanitise(b.text), t.opt.Width)
		for _, l := range lines {
			t.line(l, ansiBold)
		}
		if b.level <= 2 {
			mark := map[int]string{1: "═", 2: "─"}[b.level]
			t.line(strings.Repeat(mark, textWidth(lines[len(lines)-1])), ansiDim)
		}
	case para:
		for _, l := range wrapText(sanitise(b.text), t.opt.Width) {
			t.line(l, "")
		}
	case bullets:
		for _, item := range b.items {
			t.hanging("- ", sanitise(item), "")
		}
	case legend:
		for _, e := range b.entries {
			t.hanging("  "+sanitise(e.term)+": ", sanitise(e.meaning), ansiDim)
		}
	case code:
		for _, l := range b.lines {
			t.line("  "+sanitise(l), "")
		}
	case tableBlock:
		t.table(b)
	}
}

// hanging writes text behind a mark; further lines are indented by four.
func (t *terminal) hanging(mark, text, ansi string) {
	mark = cutAt(mark, t.opt.Width/2)
	for i, l := range wrapLines(text, t.opt.Width-textWidth(mark), t.opt.Width-4) {
		if i > 0 {
			mark = "    "
		}
		t.line(mark+l, ansi)
	}
}
