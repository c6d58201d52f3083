package foreign

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// nighthawkText reads what the tool prints by default, and its counters alone as
// scripts keep them.
type nighthawkText struct {
	*nighthawk
	histogram string // of the percentiles that follow
	table     bool   // counters follow, whatever their names
}

var (
	nighthawkTitle   = regexp.MustCompile(`^(?:.*\s)?Nighthawk - A layer 7 protocol benchmarking tool`)
	nighthawkTargets = regexp.MustCompile(`Global targets: \d+ connections and (\d+) calls per second`)
	statisticTitle   = regexp.MustCompile(`^\s*(.+?) \(\d+ samples\)$`)
	percentileRow    = regexp.MustCompile(`^\s*(0(?:\.\d+)?|1(?:\.0*)?)\s+\d+\s+(\d+)s (\d+)ms (\d+)us$`)
	counterTitle     = regexp.MustCompile(`^\s*Counter\s+Value(?:\s+Per second)?$`)
	counterRow       = regexp.MustCompile(`^\s*([A-Za-z_][\w./-]*)\s*[:=\s]\s*(\d+)(?:\s+(\d+(?:\.\d+)?))?$`)
)

// histograms that the text names otherwise than the JSON.
var histogramNames = map[string]string{
	"Initiation to completion":                                                 "sequencer.callback",
	"Queueing and connection setup latency":                                    "benchmark_http_client.queue_to_connect",
	"Request start to response end":                                            "benchmark_http_client.request_to_response",
	"Response header size in bytes":                                            "benchmark_http_client.response_header_size",
	"Response body size in bytes":                                              "benchmark_http_client.response_body_size",
	"Blocking. Results are skewed when significant numbers are reported here.": "sequencer.blocking",
}

func beginNighthawk(line string) block {
	b := &nighthawkText{nighthawk: newNighthawk()}
	switch {
	case nighthawkTitle.MatchString(line):
		return b
	case nighthawkTargets.MatchString(line), counterTitle.MatchString(line), benchmarkCounter(line):
		b.line(line)
		return b
	}
	return nil
}

// benchmarkCounter: outside of the tool's table only its own counters are taken
// for such.
func benchmarkCounter(line string) bool {
	m := counterRow.FindStringSubmatch(line)
	return m != nil && strings.HasPrefix(m[1], "benchmark.")
}

func (b *nighthawkText) line(line string) bool {
	if m := nighthawkTargets.FindStringSubmatch(line); m != nil {
		if len(b.counters) > 0 {
			return false // of the next run
		}
		if hz, err := strconv.ParseFloat(m[1], 64); err == nil && hz > 0 && hz <= maxHz {
			b.offered = &hz
		}
		return true
	}
	if nighthawkTitle.MatchString(line) {
		return len(b.counters) == 0 && len(b.histograms) == 0
	}
	if m := statisticTitle.FindStringSubmatch(line); m != nil {
		b.histogram, b.table = m[1], false
		if id := histogramNames[m[1]]; id != "" {
			b.histogram = id
		}
		return true
	}
	if m := percentileRow.FindStringSubmatch(line); m != nil {
		at, err := strconv.ParseFloat(m[1], 64)
		ms, ok := textMs(m[2], m[3], m[4])
		if h := b.histograms[b.histogram]; err == nil && ok && len(h) < maxQuantiles {
			b.histograms[b.histogram] = append(h, quantile{at, ms})
		}
		return true
	}
	if counterTitle.MatchString(line) {
		if b.table && len(b.counters) > 0 {
			return false // of the next run
		}
		b.table, b.histogram = true, ""
		return true
	}
	if m := counterRow.FindStringSubmatch(line); m != nil && (b.table || strings.HasPrefix(m[1], "benchmark.")) {
		return b.counter(m[1], m[2], m[3])
	}
	// Anything else is part of the block as long as no tool begins with it.
	return beginWrk(line) == nil && beginK6(line) == nil
}

// counter takes a counter. One that is there already is of the next run.
func (b *nighthawkText) counter(name, value, perSecond string) bool {
	if _, twice := b.counters[name]; twice {
		return false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || len(b.counters) == maxCounters {
		return true
	}
	b.counters[name] = n
	if hz, err := strconv.ParseFloat(perSecond, 64); err == nil && hz > 0 && !math.IsInf(hz, 0) {
		b.perSecond[name] = hz
	}
	return true
}

func textMs(s, ms, us string) (float64, bool) {
	total := 0.0
	for _, part := range []struct {
		text string
		unit float64
	}{{s, 1000}, {ms, 1}, {us, 1e-3}} {
		v, err := strconv.ParseFloat(part.text, 64)
		if err != nil || math.IsInf(v, 0) {
			return 0, false
		}
		total += v * part.unit
	}
	return total, true
}
