package report

import (
	"strings"

	"github.com/mattn/go-runewidth"
)

// cells counts columns of a terminal. Characters of ambiguous width (Σ, ·, ±)
// are one column, whatever the locale: the same report, the same bytes.
var cells = &runewidth.Condition{EastAsianWidth: false, StrictEmojiNeutral: true}

func textWidth(s string) int { return cells.StringWidth(s) }

// wrapText breaks s at spaces so that no line is wider than width. A word that
// is too wide by itself is cut.
func wrapText(s string, width int) []string { return wrapLines(s, width, width) }

// wrapLines is wrapText with a width of its own for the first line.
func wrapLines(s string, first, rest int) []string {
	first, rest = max(first, 1), max(rest, 1)
	var lines []string
	line, used, width := "", 0, first
	flush := func() {
		lines = append(lines, line)
		line, used, width = "", 0, rest
	}
	for _, word := range strings.Fields(s) {
		w := textWidth(word)
		if used > 0 && used+1+w > width {
			flush()
		}
		if used == 0 && w > width && w <= rest && len(lines) == 0 {
			flush() // a narrow first line stays empty rather than cut a word
		}
		for w > width {
			line = cutAt(word, width)
			word = word[len(line):]
			w = textWidth(word)
			flush()
		}
		if word == "" {
			continue
		}
		if used > 0 {
			line += " "
			used++
		}
		line += word
		used += w
	}
	if used > 0 || len(lines) == 0 {
		flush()
	}
	return lines
}

// cutAt is the longest head of s that is at most width columns, and at least
// one character.
func cutAt(s string, width int) string {
	used := 0
	for i, r := range s {
		w := cells.RuneWidth(r)
		if i > 0 && used+w > width {
			return s[:i]
		}
		used += w
	}
	return s
}

// pad fills s up to width, on the left for right-aligned text.
func pad(s string, width int, left bool) string {
	n := width - textWidth(s)
	if n <= 0 {
		return s
	}
	if left {
		return s + strings.Repeat(" ", n)
	}
	return strings.Repeat(" ", n) + s
}
