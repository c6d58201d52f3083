package campaign

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Width is the widest line that this package prints.
const Width = 100

// Print writes a schedule for people, in lines of at most Width columns.
func (s Schedule) Print(w io.Writer, p *Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cut(fmt.Sprintf("Campaign %s: %d ladders, %d arms, %d repeats, seed %d", p.Name, len(s.Ladders), len(p.Arms), p.Repeats, p.Seed), Width))
	for _, warning := range s.Warnings {
		writeWrapped(&b, "warning: "+warning, "  ")
	}
	var start time.Duration
	rows := [][]string{{"start", "length", "ladder", "steps"}}
	for _, l := range s.Ladders {
		length := clock(time.Duration(l.Length))
		if l.AtMost {
			length = "≤ " + length
		}
		rows = append(rows, []string{clock(start), length, l.ID, stepsText(l.Steps)})
		start += time.Duration(l.Length)
	}
	writeRows(&b, rows)
	about := "about"
	if s.AtMost {
		about = "at most about"
	}
	fmt.Fprintf(&b, "total: %s %s\n", about, clock(time.Duration(s.Length)))
	_, err := io.WriteString(w, b.String())
	return err
}

// stepsText is a ladder's steps in one line: kinds by a letter, rates, what is
// driven without profiling.
func stepsText(steps []Step) string {
	var parts []string
	for i := 0; i < len(steps); {
		n := rangeFrom(steps[i:])
		if n >= 5 {
			first, last := steps[i], steps[i+n-1]
			text := fmt.Sprintf("%s:%s:%s", rateText(first.OfferedHz), rateText(last.OfferedHz), rateText(steps[i+1].OfferedHz-first.OfferedHz))
			if first.Profile {
				text += "*"
			}
			parts = append(parts, text)
			i += n
			continue
		}
		n = 1
		for i+n < len(steps) && alike(steps[i+n], steps[i]) && steps[i+n].OfferedHz == steps[i].OfferedHz {
			n++
		}
		parts = append(parts, stepText(steps[i], n))
		i += n
	}
	return strings.Join(parts, " ")
}

func alike(a, b Step) bool { return a.Kind == b.Kind && a.Profile == b.Profile }

// rangeFrom is how many of the first steps are measured and rise evenly.
func rangeFrom(steps []Step) int {
	if len(steps) < 2 || steps[0].Kind != KindMeasured {
		return 1
	}
	by := steps[1].OfferedHz - steps[0].OfferedHz
	n := 1
	for n < len(steps) && by > 0 && alike(steps[n], steps[0]) && steps[n].OfferedHz-steps[n-1].OfferedHz == by {
		n++
	}
	return n
}

func rateText(hz float64) string { return strconv.FormatFloat(hz, 'f', -1, 64) }

func stepText(s Step, n int) string {
	rate := rateText(s.OfferedHz)
	if s.OfferedHz == 0 {
		rate = "?" // of a search
	}
	text := map[Kind]string{KindWarmup: "warm " + rate, KindProbe: "probe " + rate, KindRewarm: "re-warm",
		KindControl: rate + "(off)", KindMeasured: rate}[s.Kind]
	if s.Profile {
		text += "*"
	}
	if n > 1 {
		text += fmt.Sprintf(" ×%d", n)
	}
	return text
}

// writeRows aligns all columns but the last, which wraps under itself.
func writeRows(b *strings.Builder, rows [][]string) {
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, r := range rows {
		for i := range widths {
			widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
		}
	}
	// A long name takes no more than leaves room for the last column.
	widths[last-1] = min(widths[last-1], 48)
	indent := 0
	for _, w := range widths {
		indent += w + 2
	}
	for _, r := range rows {
		var line strings.Builder
		for i, w := range widths {
			line.WriteString(padTo(cut(r[i], w), w, i < 2) + "  ")
		}
		head := line.String()
		for _, part := range wrap(r[last], Width-indent) {
			b.WriteString(strings.TrimRight(head+part, " ") + "\n")
			head = strings.Repeat(" ", indent)
		}
	}
}

// clock is a length as h:mm:ss or m:ss.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func padTo(text string, width int, right bool) string {
	gap := strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
	if right {
		return gap + text
	}
	return text + gap
}

func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// wrap breaks a text at spaces into lines of at most width columns; a longer
// word is cut.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		word = cut(word, width)
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	return append(lines, line)
}

func writeWrapped(b *strings.Builder, text, indent string) {
	for i, line := range wrap(text, Width-len(indent)) {
		if i > 0 {
			line = indent + line
		}
		b.WriteString(line + "\n")
	}
}
