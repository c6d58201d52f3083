package loadgen

import (
	"bytes"
	"fmt"
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

// encodeHlog writes a step's two histograms in the HdrHistogram log format 1.3,
// one interval each from the first send to the end of the drain, tagged
// `response` and `service`. Values are nanoseconds; the log's maximum column is
// in milliseconds, as that format has it.
func encodeHlog(step string, from, to time.Time, response, service *hdrhistogram.Histogram) ([]byte, error) {
	var b bytes.Buffer
	w := hdrhistogram.NewHistogramLogWriter(&b)
	response.SetTag("response")
	service.SetTag("service")
	err := w.OutputComment(fmt.Sprintf("[Rung step %s: response from the intended instant, service from started; ns]", step))
	for _, f := range []func() error{
		w.OutputLogFormatVersion,
		func() error { return w.OutputStartTime(from.UnixMilli()) },
		w.OutputLegend,
		func() error { return writeInterval(w, response, from, to) },
		func() error { return writeInterval(w, service, from, to) },
	} {
		if err == nil {
			err = f()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("encode histogram log of step %s: %w", step, err)
	}
	return b.Bytes(), nil
}

func writeInterval(w *hdrhistogram.HistogramLogWriter, h *hdrhistogram.Histogram, from, to time.Time) error {
	h.SetStartTimeMs(from.UnixMilli())
	h.SetEndTimeMs(to.UnixMilli())
	return w.OutputIntervalHistogram(h)
}
