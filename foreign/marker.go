package foreign

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Marker reads the lines that part a log into steps.
//
// The zero value reads lines with `#NH-STEP` or `#RUNG-STEP`, followed by a JSON
// object or by words: start or end, and KEY=VALUE with the keys of [MarkerKeys].
// Scripts that write otherwise are read by a regexp of their own.
type Marker struct{ re *regexp.Regexp }

// MarkerKeys are the named groups that a marker's regexp may have.
//
//	edge            start, begin, end or stop; without it each marker is a start
//	offered         planned requests per second
//	step, arm       names
//	warmup          true, yes, 1 or warmup
//	at              RFC 3339, or seconds, milliseconds or nanoseconds since 1970
//	usage_usec      counters of the arm's cgroup at this edge
//	throttled_usec
var MarkerKeys = []string{"edge", "offered", "step", "arm", "warmup", "at", "usage_usec", "throttled_usec"}

// NewMarker compiles a regexp (RE2) that matches marker lines. What it matches is
// a marker; it needs one of the groups of MarkerKeys at least, and no others.
func NewMarker(pattern string) (Marker, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return Marker{}, fmt.Errorf("marker %q: %w", pattern, err)
	}
	named := 0
	for _, name := range re.SubexpNames() {
		if name == "" {
			continue
		}
		if !slices.Contains(MarkerKeys, name) {
			return Marker{}, fmt.Errorf("marker %q: no group is named %q; want some of %s", pattern, name, strings.Join(MarkerKeys, ", "))
		}
		named++
	}
	if named == 0 {
		return Marker{}, fmt.Errorf("marker %q: no named group, so it would say nothing; want some of (?P<NAME>…) with %s", pattern, strings.Join(MarkerKeys, ", "))
	}
	return Marker{re}, nil
}

// mark is one marker line.
type mark struct {
	start     bool // else the end of a step
	name, arm string
	offered   *float64
	warmup    bool
	at        time.Time
	usage     *int64 // microseconds
	throttled *int64
}

var (
	markerPrefix = regexp.MustCompile(`#(?:NH|RUNG)-STEP\b`)
	markerWord   = regexp.MustCompile(`[^\s,;]+`)
)

// read gives the marker of a line. is says that the line means to be one; err
// says why it cannot be understood.
func (m Marker) read(line string) (got mark, is bool, err error) {
	values := map[string]string{}
	if m.re != nil {
		match := m.re.FindStringSubmatch(line)
		if match == nil {
			return mark{}, false, nil
		}
		for i, name := range m.re.SubexpNames() {
			if text := strings.TrimSpace(match[i]); name != "" && text != "" {
				values[name] = text
			}
		}
	} else {
		at := markerPrefix.FindStringIndex(line)
		if at == nil {
			return mark{}, false, nil
		}
		if values, err = words(line[at[1]:]); err != nil {
			return mark{}, true, err
		}
	}
	got, err = newMark(values)
	return got, true, err
}

// keyNames are other spellings of keys, in lower case without _ and -.
var keyNames = map[string]string{
	"edge": "edge", "event": "edge", "offered": "offered", "offeredhz": "offered", "rps": "offered", "rate": "offered",
	"step": "step", "name": "step", "arm": "arm", "warmup": "warmup", "at": "at", "atwall": "at", "time": "at", "ts": "at", "t": "at",
	"usageusec": "usage_usec", "throttledusec": "throttled_usec",
}

// words reads the rest of a marker line: a JSON object, or words and KEY=VALUE.
func words(rest string) (map[string]string, error) {
	values := map[string]string{}
	put := func(k, v string) {
		k = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(k))
		if key := keyNames[k]; key != "" {
			values[key] = v
		}
	}
	if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "{") {
		var object map[string]any
		d := json.NewDecoder(strings.NewReader(rest))
		d.UseNumber()
		if err := d.Decode(&object); err != nil {
			return nil, fmt.Errorf("its JSON: %w", err)
		}
		for k, v := range object {
			switch v.(type) {
			case string, json.Number, bool:
				put(k, fmt.Sprint(v))
			}
		}
		return values, nil
	}
	for _, word := range markerWord.FindAllString(rest, 100) {
		k, v, ok := strings.Cut(word, "=")
		switch lower := strings.ToLower(word); {
		case ok:
			put(k, strings.Trim(v, `"'`))
		case edgeOf(lower) != "":
			values["edge"] = lower
		case lower == "warmup" || lower == "warm-up":
			values["warmup"] = "1"
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("nothing in it is understood; give a regexp for markers")
	}
	return values, nil
}

func edgeOf(text string) string {
	switch strings.TrimPrefix(strings.ToLower(text), "edge_") {
	case "start", "begin":
		return "start"
	case "end", "stop":
		return "end"
	}
	return ""
}

func newMark(values map[string]string) (mark, error) {
	m := mark{start: true, name: values["step"], arm: values["arm"]}
	if text, ok := values["edge"]; ok {
		edge := edgeOf(text)
		if edge == "" {
			return m, fmt.Errorf("its edge %q is neither start, begin, end nor stop", cut(text))
		}
		m.start = edge == "start"
	}
	if text, ok := values["offered"]; ok {
		hz, err := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
		if err != nil || !(hz > 0 && hz <= maxHz) {
			return m, fmt.Errorf("its offered rate %q is no rate above 0 to %g", cut(text), float64(maxHz))
		}
		m.offered = &hz
	}
	switch strings.ToLower(values["warmup"]) {
	case "1", "true", "yes", "warmup", "warm-up":
		m.warmup = true
	}
	if text, ok := values["at"]; ok {
		var err error
		if m.at, err = instant(text); err != nil {
			return m, err
		}
	}
	for key, into := range map[string]**int64{"usage_usec": &m.usage, "throttled_usec": &m.throttled} {
		text, ok := values[key]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/1000 {
			return m, fmt.Errorf("its %s %q is no count of microseconds", key, cut(text))
		}
		*into = &n
	}
	return m, nil
}

// maxHz bounds a rate: one per nanosecond.
const maxHz = 1e9

// instant reads a time: RFC 3339, or a number since 1970 whose size tells its unit.
func instant(text string) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	bad := fmt.Errorf("its time %q is neither RFC 3339 nor a number since 1970", cut(text))
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case n < 1e8:
			return time.Time{}, bad
		case n < 1e11:
			return time.Unix(n, 0).UTC(), nil
		case n < 1e14:
			return time.UnixMilli(n).UTC(), nil
		case n < 1e17:
			return time.UnixMicro(n).UTC(), nil
		}
		return time.Unix(0, n).UTC(), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 1e8 && f < 1e11) { // seconds with a fraction, as of EPOCHREALTIME
		return time.Time{}, bad
	}
	return time.UnixMicro(int64(f * 1e6)).UTC(), nil
}

// cut shortens a text for an error.
func cut(text string) string {
	const shown = 40
	if len(text) > shown {
		return text[:shown] + "…"
	}
	return text
}
