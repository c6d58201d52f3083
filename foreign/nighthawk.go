package foreign

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// nighthawk is a result as the tool's text and its JSON both tell it.
type nighthawk struct {
	counters   map[string]uint64
	perSecond  map[string]float64 // of the text
	histograms map[string][]quantile
	offered    *float64
	seconds    *float64
}

// quantile is one row of a histogram; at the share of samples up to it.
type quantile struct {
	at float64
	ms float64
}

func newNighthawk() *nighthawk {
	return &nighthawk{counters: map[string]uint64{}, perSecond: map[string]float64{}, histograms: map[string][]quantile{}}
}

// Limits of what is kept of a result.
const (
	maxCounters  = 10_000
	maxQuantiles = 10_000
)

// result scores the counters. Names are Nighthawk's, those on gRPC of builds that
// score it.
func (n *nighthawk) result(o Options) *Result {
	if len(n.counters) == 0 {
		return nil
	}
	r := &Result{Tool: Nighthawk, OfferedHz: n.offered, Seconds: n.seconds}
	ok := ""
	for _, name := range o.OK {
		if v, has := n.counters[name]; has || grpcScored(name, n.counters) {
			r.Delivered, ok = &v, name
			break
		}
	}
	if ok == "" {
		r.Notes = append(r.Notes, "no counter of success ("+strings.Join(o.OK, ", ")+")")
	}
	r.Errors, r.Deferred = map[string]uint64{}, map[string]uint64{}
	overflow := uint64(0)
	for name, v := range n.counters {
		short := strings.TrimPrefix(name, "benchmark.")
		switch {
		case name == ok || v == 0:
		case short == "pool_overflow":
			overflow = v
		case strings.HasSuffix(short, "deferred"):
			r.Deferred[short] = v
		case short == "stream_resets", short == "pool_connection_failure", short == "http_xxx",
			strings.HasPrefix(short, "grpc_status.") && strings.HasPrefix(ok, "benchmark.grpc_status."),
			strings.HasPrefix(short, "http_") && short != "http_2xx" && strings.HasSuffix(short, "xx") && strings.HasPrefix(ok, "benchmark.http_"):
			r.Errors[short] = v
		}
	}
	r.Overflow = &overflow
	if r.Delivered != nil {
		r.Sent = sum(*r.Delivered, r.Errors)
	}
	if r.Seconds == nil {
		r.Seconds = n.length()
	}
	n.latency(r, o.Latency)
	return r
}

// grpcScored: a step in which no call succeeded has no counter of status 0.
func grpcScored(name string, counters map[string]uint64) bool {
	if name != "benchmark.grpc_status.0" {
		return false
	}
	for other := range counters {
		if strings.HasPrefix(other, "benchmark.grpc_status.") {
			return true
		}
	}
	return false
}

// sum is nil where the counts exceed what a count can hold.
func sum(n uint64, more map[string]uint64) *uint64 {
	for _, v := range more {
		if n > math.MaxUint64-v {
			return nil
		}
		n += v
	}
	return &n
}

// length is what the largest counter took at its rate.
func (n *nighthawk) length() *float64 {
	var most uint64
	var seconds *float64
	for name, v := range n.counters {
		if hz := n.perSecond[name]; v > most && hz > 0 {
			s := float64(v) / hz
			most, seconds = v, &s
		}
	}
	return seconds
}

func (n *nighthawk) latency(r *Result, ids []string) {
	for _, id := range ids {
		h := n.histograms[id]
		if len(h) == 0 {
			continue
		}
		slices.SortStableFunc(h, func(a, b quantile) int { return cmp.Compare(a.at, b.at) })
		for at, into := range map[float64]**float64{0.5: &r.P50Ms, 0.9: &r.P90Ms, 0.99: &r.P99Ms, 0.999: &r.P999Ms, 1: &r.MaxMs} {
			// The first row that holds so many samples at least, unless it holds
			// many more; the last one holds all, of a short histogram soon.
			i := slices.IndexFunc(h, func(q quantile) bool { return q.at >= at-1e-9 })
			if i >= 0 && (h[i].at <= at+0.1*(1-at) || h[i].at == 1) {
				*into = &h[i].ms
			}
		}
		return
	}
}
