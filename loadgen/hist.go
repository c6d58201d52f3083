package loadgen

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histograms count nanoseconds with three significant digits from 1 µs up.
const (
	histLowest  = int64(time.Microsecond)
	histHighest = int64(10 * time.Minute)
)

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(histLowest, histHighest, 3)
}

// recordNs counts a value; what lies outside the range counts at its end.
func recordNs(h *hdrhistogram.Histogram, ns int64) {
	// The value is in range, so there is no error to meet.
	_ = h.RecordValue(min(max(ns, 0), histHighest))
}

// LatencyMs holds quantiles in milliseconds.
type LatencyMs struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
}

// LatenessMs holds quantiles in milliseconds.
type LatenessMs struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func quantiles(h *hdrhistogram.Histogram, q ...float64) []float64 {
	var ms []float64
	for _, v := range h.ValueAtPercentilesSlice(q) {
		ms = append(ms, float64(v)/1e6)
	}
	return append(ms, float64(h.Max())/1e6)
}

// latency is nil where nothing was counted.
func latency(h *hdrhistogram.Histogram) *LatencyMs {
	if h.TotalCount() == 0 {
		return nil
	}
	q := quantiles(h, 50, 90, 99, 99.9)
	return &LatencyMs{q[0], q[1], q[2], q[3], q[4]}
}

func lateness(h *hdrhistogram.Histogram) *LatenessMs {
	if h.TotalCount() == 0 {
		return nil
	}
	q := quantiles(h, 50, 99)
	return &LatenessMs{q[0], q[1], q[2]}
}
