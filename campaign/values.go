package campaign

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration that is text in JSON: "1.5s".
type Duration time.Duration

// MarshalText writes what time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// String is time.Duration's.
func (d Duration) String() string { return time.Duration(d).String() }

// Limits of what a plan may ask for.
const (
	maxRateHz = 1e7
	maxSteps  = 200
	// maxIterations is also the driver's limit.
	maxIterations = 1_000_000
	maxRepeats    = 1000
	maxLadders    = 10_000
)

func parseDuration(low, high time.Duration, into *Duration) func(string) error {
	return func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < low || d > high {
			return fmt.Errorf("%q: want a duration from %s to %s, as in 500ms, 10s or 2m", text, low, high)
		}
		*into = Duration(d)
		return nil
	}
}

func parseInt(low, high int, into *int) func(string) error {
	return func(text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q: want a whole number from %d to %d", text, low, high)
		}
		*into = n
		return nil
	}
}

func parseFloat(low, high float64, what string, into *float64) func(string) error {
	return func(text string) error {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= low && f <= high) {
			return fmt.Errorf("%q: want %s from %g to %g", text, what, low, high)
		}
		*into = f
		return nil
	}
}

// parseShare reads "5 %", "5%" or 0.05.
func parseShare(low, high float64, into *float64) func(string) error {
	return func(text string) error {
		number, percent := strings.CutSuffix(text, "%")
		f, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			f /= 100
		}
		if err != nil || !(f >= low && f <= high) {
			return fmt.Errorf("%q: want a share from %g%% to %g%%, as in 5%% or 0.05", text, 100*low, 100*high)
		}
		*into = f
		return nil
	}
}

func parseOneOf[T ~string](into *T, allowed ...T) func(string) error {
	return func(text string) error {
		for _, a := range allowed {
			if text == string(a) {
				*into = a
				return nil
			}
		}
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		return fmt.Errorf("%q: want %s", text, orList(words)+didYouMean(text, words))
	}
}

func parseText(into *string) func(string) error {
	return func(text string) error {
		if text == "" || strings.ContainsAny(text, "\n\x00") {
			return fmt.Errorf("%q: want one line of text that is not empty", text)
		}
		*into = text
		return nil
	}
}

// parseRates reads one rate, or a range FROM:TO:BY with both ends in it.
func parseRates(text string) ([]float64, error) {
	parts := strings.Split(text, ":")
	values := make([]float64, len(parts))
	for i, part := range parts {
		f, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !(f > 0 && f <= maxRateHz) {
			return nil, fmt.Errorf("%q: want requests per second above 0 to %g, or a range FROM:TO:BY as in 400:4800:400", text, float64(maxRateHz))
		}
		values[i] = f
	}
	switch len(values) {
	case 1:
		return values, nil
	case 3:
	default:
		return nil, fmt.Errorf("%q: a range is FROM:TO:BY, as in 400:4800:400", text)
	}
	from, to, by := values[0], values[1], values[2]
	if to < from {
		return nil, fmt.Errorf("%q: the range must rise; a ladder that falls is a list of rates", text)
	}
	steps := math.Floor((to-from)/by+1e-9) + 1
	if steps > maxSteps {
		return nil, fmt.Errorf("%q: more than %d steps; use a larger BY", text, maxSteps)
	}
	rates := make([]float64, int(steps))
	for i := range rates {
		// Rounded to a millionth, so that 0.1:0.5:0.1 has the rates one would write.
		rates[i] = math.Round((from+float64(i)*by)*1e6) / 1e6
	}
	return rates, nil
}

// parseChoice reads all, none or top:N.
func parseChoice(into *Choice) func(string) error {
	return func(text string) error {
		switch top, found := strings.CutPrefix(text, "top:"); {
		case text == "all":
			*into = Choice{All: true}
		case text == "none":
			*into = Choice{}
		case found:
			n, err := strconv.Atoi(strings.TrimSpace(top))
			if err != nil || n < 1 || n > maxSteps {
				return fmt.Errorf("%q: want top:N with N from 1 to %d", text, maxSteps)
			}
			*into = Choice{Top: n}
		default:
			return fmt.Errorf("%q: want all, none, or top:N as in top:3", text)
		}
		return nil
	}
}

// ParseChoice reads all, none or top:N.
func ParseChoice(text string) (Choice, error) {
	var c Choice
	err := parseChoice(&c)(text)
	return c, err
}

// String is what ParseChoice reads.
func (c Choice) String() string {
	switch {
	case c.All:
		return "all"
	case c.Top > 0:
		return fmt.Sprintf("top:%d", c.Top)
	}
	return "none"
}

// shellMarks in a command that is one text would be meant for a shell.
const shellMarks = "\"'`$&|;<>*?(){}[]~#\\\n"

// splitCommand cuts a command that is one text at its spaces.
func splitCommand(text string) ([]string, error) {
	if i := strings.IndexAny(text, shellMarks); i >= 0 {
		return nil, fmt.Errorf("%q holds %q, and no shell reads it; write a list, as in [sh, -c, \"…\"]", text, text[i])
	}
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, fmt.Errorf("an empty command")
	}
	return words, nil
}

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// didYouMean is "; did you mean X?" for the nearest word within two edits.
func didYouMean(text string, words []string) string {
	best, near := 3, ""
	for _, w := range words {
		if d := distance(text, w); d < best && d < len(w) {
			best, near = d, w
		}
	}
	if near == "" {
		return ""
	}
	return "; did you mean " + near + "?"
}

// distance is the number of insertions, deletions, replacements and swaps of
// neighbours that make b of a. Long texts are not compared.
func distance(a, b string) int {
	const far = 100
	if len(a) > 40 || len(b) > 40 {
		return far
	}
	var rows [3][42]int
	before, last, row := &rows[0], &rows[1], &rows[2]
	for j := 0; j <= len(b); j++ {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Std is the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }
