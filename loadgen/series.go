package loadgen

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Point is one interval of a step, a second for all but very long steps. Counts
// are of the interval; a request counts as started where it was handed to a
// client that holds a free slot, and as delivered where its answer came.
type Point struct {
	EndSeconds float64 // since the first send
	Seconds    float64 // its length

	Scheduled, Started, Overflow, LateDropped uint64
	Delivered, Errors, Deferred, NotConnected uint64
	InFlight                                  int64 // at its end

	Response *LatencyMs  // of the answers in it; nil without any
	Lateness *LatenessMs // of the sends in it; nil without any
	Cores    float64     // that this process kept busy
}

// maxPoints bounds the intervals of a step: above an hour they are longer than a
// second.
const maxPoints = 3600

func pointLength(step time.Duration) time.Duration {
	return max(time.Second, (step/maxPoints + time.Second - 1).Truncate(time.Second))
}

// recorder ends the intervals of a step, and writes its HdrHistogram log.
type recorder struct {
	d     *driver
	t     *tally
	p     plan
	hlog  bytes.Buffer
	log   *hdrhistogram.HistogramLogWriter
	err   error
	last  sums
	begun int64
	cpu   time.Duration

	points []Point
	latest atomic.Pointer[Point]
}

func (d *driver) newRecorder(p plan, t *tally) *recorder {
	r := &recorder{d: d, t: t, p: p, begun: p.first, cpu: ownCPU()}
	r.head(p.step.Name(), p.first)
	return r
}

// head begins the log.
func (r *recorder) head(step string, firstMonoNs int64) {
	r.log = hdrhistogram.NewHistogramLogWriter(&r.hlog)
	r.err = r.log.OutputComment(fmt.Sprintf("[Rung step %s: response from the intended instant, service from started, lateness of the sends; ns]", step))
	for _, f := range []func() error{
		r.log.OutputLogFormatVersion,
		func() error { return r.log.OutputStartTime(wallOf(firstMonoNs).UnixMilli()) },
		r.log.OutputLegend,
	} {
		if r.err == nil {
			r.err = f()
		}
	}
}

// run ends an interval every second until ctx is done.
func (r *recorder) run(ctx context.Context) {
	length := int64(pointLength(r.p.step.Duration))
	for next := r.p.first + length; sleepUntil(ctx, next); next += length {
		r.end()
	}
}

// end ends the present interval.
func (r *recorder) end() {
	now, cpu := monoNow(), ownCPU()
	n, h := r.t.take()
	p := Point{
		EndSeconds: float64(now-r.p.first) / 1e9, Seconds: float64(now-r.begun) / 1e9,
		Scheduled: n.scheduled - r.last.scheduled, Started: n.started - r.last.started,
		Overflow: n.overflow - r.last.overflow, LateDropped: n.lateDropped - r.last.lateDropped,
		Delivered: n.delivered - r.last.delivered, Errors: n.errors - r.last.errors,
		Deferred: n.deferred - r.last.deferred, NotConnected: n.notConnected - r.last.notConnected,
		InFlight: r.d.inFlight.Load(), Response: latency(h.response), Lateness: lateness(h.lateness),
	}
	if p.Seconds > 0 {
		p.Cores = (cpu - r.cpu).Seconds() / p.Seconds
	}
	r.points = append(r.points, p)
	r.intervals(h, wallOf(r.begun), wallOf(now))
	r.last, r.begun, r.cpu = n, now, cpu
	r.latest.Store(&p)
}

func (r *recorder) intervals(h histograms, from, to time.Time) {
	r.interval("response", h.response, from, to)
	r.interval("service", h.service, from, to)
	r.interval("lateness", h.lateness, from, to)
}

// interval writes one in the log format 1.3. Values are nanoseconds; the log's
// maximum column is in milliseconds, as that format has it.
func (r *recorder) interval(tag string, h *hdrhistogram.Histogram, from, to time.Time) {
	h.SetTag(tag)
	h.SetStartTimeMs(from.UnixMilli())
	h.SetEndTimeMs(to.UnixMilli())
	if r.err == nil {
		r.err = r.log.OutputIntervalHistogram(h)
	}
}

// hgrm is a histogram's distribution of percentiles in milliseconds, as
// HdrHistogram's plotter reads it.
func hgrm(h *hdrhistogram.Histogram) ([]byte, error) {
	var b bytes.Buffer
	_, err := h.PercentilesPrint(&b, 5, 1e6)
	return b.Bytes(), err
}

// SeriesCSV is a step's points as CSV with a head line. A cell without a value is
// empty.
func SeriesCSV(points []Point) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write([]string{"end_s", "seconds", "scheduled", "started", "delivered", "errors", "overflow", "deferred", "late_dropped", "not_connected",
		"in_flight", "p50_ms", "p99_ms", "max_ms", "lateness_p99_ms", "client_cores"})
	for _, p := range points {
		row := []string{number(p.EndSeconds), number(p.Seconds)}
		for _, n := range []uint64{p.Scheduled, p.Started, p.Delivered, p.Errors, p.Overflow, p.Deferred, p.LateDropped, p.NotConnected} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		row = append(row, strconv.FormatInt(p.InFlight, 10))
		if l := p.Response; l != nil {
			row = append(row, number(l.P50), number(l.P99), number(l.Max))
		} else {
			row = append(row, "", "", "")
		}
		late := ""
		if p.Lateness != nil {
			late = number(p.Lateness.P99)
		}
		_ = w.Write(append(row, late, number(p.Cores)))
	}
	w.Flush()
	return b.Bytes(), w.Error()
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
