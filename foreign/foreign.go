// Package foreign reads what other load generators and their scripts left behind:
// Nighthawk's JSON and text, the summaries of k6 and wrk (and wrk2), in logs of
// whole ladders whose steps are told apart by marker lines. It answers what was
// offered and got in each step, as far as the log says; what a tool does not say
// is absent, never 0. It does not judge the figures: latencies are what the tool
// means by them, most often the time from sending a request.
//
// The package is pure: no files, no clock, no log; same input, same bytes. Its
// input is not trusted: sizes and counts have limits.
package foreign

import (
	"time"
)

// Tool names who wrote a result.
type Tool string

// The tools.
const (
	Nighthawk Tool = "nighthawk"
	K6        Tool = "k6"
	Wrk       Tool = "wrk"
)

// Result is what a tool says of one run of its own.
type Result struct {
	Tool Tool
	// Line is where it begins in the log, from 1.
	Line int
	// OfferedHz is the planned rate, requests per second, over all of the tool's
	// workers.
	OfferedHz *float64
	// Seconds is how long it sent.
	Seconds *float64
	// Counts are of requests, or of messages on streams. Delivered succeeded.
	Sent, Delivered *uint64
	// Overflow was never sent, because a cap was reached.
	Overflow *uint64
	// Errors and Deferred by the tool's own name; nil: it says nothing of any.
	Errors, Deferred map[string]uint64
	// Latency in milliseconds, of successes where the tool tells them apart.
	P50Ms, P90Ms, P99Ms, P999Ms, MaxMs *float64
	// Notes weaken the figures.
	Notes []string
}

// Step is one step of a log.
type Step struct {
	// Result is nil of a step whose markers are there without one.
	Result *Result
	// Name, Arm and what follows are of the markers, "" and nil where they say
	// nothing.
	Name, Arm string
	OfferedHz *float64
	Warmup    bool
	Start     time.Time
	End       time.Time
	// UsageNs and ThrottledNs are the arm's CPU time and throttled time between
	// the edges, of markers that carry its counters.
	UsageNs, ThrottledNs *int64
}

// Log is what was found in one log, in its order.
type Log struct {
	Steps []Step
	Notes []string
}

// Options say how a log is read.
type Options struct {
	// Marker reads marker lines; the zero value reads `#NH-STEP` and `#RUNG-STEP`.
	Marker Marker
	// OK are the names of Nighthawk's counters of success; the first that a result
	// has counts. Latency are the same of its histograms. Empty: the defaults.
	OK, Latency []string
}

// Defaults of the options: a result scored on gRPC's status has both counters.
var (
	DefaultOK      = []string{"benchmark.grpc_status.0", "benchmark.http_2xx"}
	DefaultLatency = []string{"benchmark_http_client.latency_grpc_ok", "benchmark_http_client.latency_2xx", "benchmark_http_client.request_to_response"}
)

// Limits of a log: bytes, unpacked, and how many steps are read of it.
const (
	MaxBytes = 64 << 20
	MaxSteps = 10_000
	maxNotes = 100
)

// Offered is the step's planned rate: the marker's, else the tool's.
func (s *Step) Offered() *float64 {
	if s.OfferedHz != nil || s.Result == nil {
		return s.OfferedHz
	}
	return s.Result.OfferedHz
}

// Seconds is the step's length: the tool's, else from marker to marker; nil where
// neither is known.
func (s *Step) Seconds() *float64 {
	if s.Result != nil && s.Result.Seconds != nil {
		return s.Result.Seconds
	}
	if s.Start.IsZero() || !s.End.After(s.Start) {
		return nil
	}
	v := s.End.Sub(s.Start).Seconds()
	return &v
}
