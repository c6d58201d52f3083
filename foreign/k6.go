package foreign

import (
	"encoding/json"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// k6Metrics are a run's end-of-test metrics by name, each by figure: count, rate,
// passes, med, p(99), … Times are in milliseconds.
type k6Metrics map[string]map[string]float64

// k6FromJSON reads --summary-export's file and what handleSummary is given, whose
// figures lie below values.
func k6FromJSON(raw []byte) *Result {
	var j struct {
		State struct {
			DurationMs float64 `json:"testRunDurationMs"`
		} `json:"state"`
		Metrics map[string]map[string]json.RawMessage `json:"metrics"`
	}
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil
	}
	metrics := k6Metrics{}
	for name, figures := range j.Metrics {
		if values, ok := figures["values"]; ok {
			figures = map[string]json.RawMessage{}
			if json.Unmarshal(values, &figures) != nil {
				continue
			}
		}
		metrics[name] = map[string]float64{}
		for figure, value := range figures {
			var v float64
			if json.Unmarshal(value, &v) == nil {
				metrics[name][figure] = v
			}
		}
	}
	r := metrics.result()
	if r != nil && j.State.DurationMs > 0 {
		seconds := j.State.DurationMs / 1000
		r.Seconds = &seconds
	}
	return r
}

// result scores the metrics. Requests are HTTP's where there are any, else gRPC's
// calls, which k6 counts only as iterations.
func (m k6Metrics) result() *Result {
	requests, duration := "http_reqs", "http_req_duration"
	if _, ok := m[requests]; !ok {
		requests, duration = "iterations", "grpc_req_duration"
	}
	n, ok := whole(m[requests]["count"])
	if !ok {
		return nil
	}
	r := &Result{Tool: K6, Sent: &n, Delivered: &n, Errors: map[string]uint64{}}
	if requests == "iterations" {
		r.Notes = append(r.Notes, "k6 counts no gRPC calls: iterations are taken for them, failed ones included")
	}
	if hz := m[requests]["rate"]; hz > 0 {
		seconds := float64(n) / hz
		r.Seconds = &seconds
	}
	// Of a rate metric, passes are the cases that it counts: here the failures.
	if failed, ok := k6Failed(m["http_req_failed"], n); ok && requests == "http_reqs" {
		left := n - failed
		r.Delivered = &left
		if failed > 0 {
			r.Errors["http_req_failed"] = failed
		}
	}
	dropped, _ := whole(m["dropped_iterations"]["count"])
	r.Overflow = &dropped // the metric is there when there are some
	d := m[duration]
	if ok := m[duration+"{expected_response:true}"]; len(ok) > 0 {
		d = ok
	}
	for figure, into := range map[string]**float64{"med": &r.P50Ms, "p(50)": &r.P50Ms, "p(90)": &r.P90Ms, "p(99)": &r.P99Ms, "p(99.9)": &r.P999Ms, "max": &r.MaxMs} {
		if v, has := d[figure]; has && v >= 0 && !math.IsInf(v, 0) {
			*into = &v
		}
	}
	if r.P99Ms == nil {
		r.Notes = append(r.Notes, "k6 was not asked for p(99) (summaryTrendStats)")
	}
	return r
}

// k6Failed is how many requests failed: by count, else by the share of them.
func k6Failed(rate map[string]float64, n uint64) (uint64, bool) {
	if passes, ok := whole(rate["passes"]); ok && passes <= n {
		if _, has := rate["passes"]; has {
			return passes, true
		}
	}
	for _, figure := range []string{"rate", "value"} {
		if share, has := rate[figure]; has && share >= 0 && share <= 1 {
			return uint64(math.Round(share * float64(n))), true
		}
	}
	return 0, false
}

// whole makes a count of a figure that is one.
func whole(v float64) (uint64, bool) {
	if !(v >= 0 && v <= 1<<53) || v != math.Trunc(v) {
		return 0, false
	}
	return uint64(v), true
}

// k6Text reads the summary that k6 prints.
type k6Text struct{ metrics k6Metrics }

var (
	// A name with its dots, then figures.
	k6Row    = regexp.MustCompile(`^\s*(?:[✓✗]\s)?\s*([a-z][a-z0-9_]*|\{ ?expected_response:true ?\})\.*: +(\S.*)$`)
	k6Trend  = regexp.MustCompile(`(avg|min|med|max|count|p\(\d+(?:\.\d+)?\))=([^\s]+)`)
	k6Count  = regexp.MustCompile(`^(\d+)\s+(\d+(?:\.\d+)?)/s`)
	k6Share  = regexp.MustCompile(`^(\d+(?:\.\d+)?)%\s+(?:✓ )?(\d+)?`)
	k6Starts = map[string]bool{"http_reqs": true, "http_req_duration": true, "http_req_failed": true, "grpc_req_duration": true, "iterations": true,
		"dropped_iterations": true, "iteration_duration": true, "data_received": true, "data_sent": true, "http_req_blocked": true}
)

func beginK6(line string) block {
	m := k6Row.FindStringSubmatch(line)
	if m == nil || !k6Starts[m[1]] || !strings.Contains(line, "..") {
		return nil
	}
	b := &k6Text{metrics: k6Metrics{}}
	b.line(line)
	return b
}

func (b *k6Text) line(line string) bool {
	m := k6Row.FindStringSubmatch(line)
	if m == nil {
		return beginNighthawk(line) == nil && beginWrk(line) == nil
	}
	name, text := m[1], m[2]
	if strings.HasPrefix(name, "{") {
		name = "http_req_duration{expected_response:true}"
	}
	if b.metrics[name] != nil {
		return strings.HasPrefix(name, "http_req_duration{") // else of the next run
	}
	figures := map[string]float64{}
	for _, pair := range k6Trend.FindAllStringSubmatch(text, 20) {
		if d, err := time.ParseDuration(pair[2]); err == nil {
			figures[pair[1]] = float64(d) / 1e6
		}
	}
	if c := k6Count.FindStringSubmatch(text); c != nil {
		figures["count"], _ = strconv.ParseFloat(c[1], 64)
		figures["rate"], _ = strconv.ParseFloat(c[2], 64)
	}
	if c := k6Share.FindStringSubmatch(text); c != nil && name == "http_req_failed" {
		share, _ := strconv.ParseFloat(c[1], 64)
		figures["value"] = share / 100
		if passes, err := strconv.ParseFloat(c[2], 64); err == nil {
			figures["passes"] = passes
		}
	}
	b.metrics[name] = figures
	return true
}

func (b *k6Text) result(Options) *Result { return b.metrics.result() }
