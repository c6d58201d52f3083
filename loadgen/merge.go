package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Merge makes one outcome of those of the drivers of one load, driver 0's first:
// counts add up, histograms are merged, and a step is as void and as
// client-limited as any part of it. The agents' records are driver 0's. The
// series is not merged.
func Merge(parts []Outcome) (Outcome, error) {
	if len(parts) == 0 {
		return Outcome{}, errors.New("merge: no driver's outcome")
	}
	out := Outcome{Step: parts[0].Step, Agent: parts[0].Agent, Also: parts[0].Also}
	r := parts[0].Result
	r.Errors, r.Deferred, r.StreamsEnded = add(nil, r.Errors), add(nil, r.Deferred), add(nil, r.StreamsEnded)
	r.Warnings, r.ClientLimited, r.PerConnection, r.Void = nil, nil, nil, ""
	for i, p := range parts {
		if p.Result.Name != r.Name {
			return out, fmt.Errorf("merge: driver %d gives step %s, driver 0 step %s", i, p.Result.Name, r.Name)
		}
		r.absorb(i, p.Result)
	}
	merged, err := mergeLogs(parts)
	if err != nil {
		return out, fmt.Errorf("merge step %s: %w", r.Name, err)
	}
	if got := uint64(merged.service.TotalCount()); got != r.Delivered {
		return out, fmt.Errorf("merge step %s: the histogram logs hold %d answers, the counts say %d", r.Name, got, r.Delivered)
	}
	r.ResponseMs, r.ServiceMs, r.LatenessMs = latency(merged.response), latency(merged.service), lateness(merged.lateness)
	if out.ResponseHgrm, err = hgrm(merged.response); err == nil {
		out.ServiceHgrm, err = hgrm(merged.service)
	}
	if err != nil {
		return out, fmt.Errorf("merge step %s: %w", r.Name, err)
	}
	r.CapLimited = exceeds(r.Overflow, r.Scheduled, 0.01)
	if err := r.Check(); err != nil && r.Void == "" {
		r.Void = err.Error()
	}
	if out.Hlog, err = wholeLog(r, merged); err != nil {
		return out, err
	}
	out.Result = r
	return out, nil
}

// absorb adds driver i's part; r begins as driver 0's.
func (r *StepResult) absorb(i int, p StepResult) {
	for _, l := range p.ClientLimited {
		l.Why = fmt.Sprintf("driver %d: %s", i, l.Why)
		r.ClientLimited = append(r.ClientLimited, l)
	}
	for _, w := range p.Warnings {
		// What begins so is read by its beginning.
		if kind, rest, ok := strings.Cut(w, ": "); ok && (kind == "missing" || kind == "client-limited") {
			r.warn("%s: driver %d: %s", kind, i, rest)
			continue
		}
		r.warn("driver %d: %s", i, w)
	}
	if p.Void != "" && r.Void == "" {
		r.Void = fmt.Sprintf("driver %d: %s", i, p.Void)
	}
	for _, c := range p.PerConnection {
		c.Connection = len(r.PerConnection)
		r.PerConnection = append(r.PerConnection, c)
	}
	if i == 0 {
		return
	}
	r.Scheduled, r.Sent, r.Completed, r.Delivered = r.Scheduled+p.Scheduled, r.Sent+p.Sent, r.Completed+p.Completed, r.Delivered+p.Delivered
	r.DeliveredInWindow, r.Unanswered = r.DeliveredInWindow+p.DeliveredInWindow, r.Unanswered+p.Unanswered
	r.Overflow, r.LateDropped, r.NotConnected = r.Overflow+p.Overflow, r.LateDropped+p.LateDropped, r.NotConnected+p.NotConnected
	r.Errors, r.Deferred, r.StreamsEnded = add(r.Errors, p.Errors), add(r.Deferred, p.Deferred), add(r.StreamsEnded, p.StreamsEnded)
	r.ConnectionsWanted, r.ConnectionsOpen = r.ConnectionsWanted+p.ConnectionsWanted, r.ConnectionsOpen+p.ConnectionsOpen
	r.InFlightAtStart, r.InFlightAtEnd = r.InFlightAtStart+p.InFlightAtStart, r.InFlightAtEnd+p.InFlightAtEnd
	r.ClientCPUNs, r.Messages = r.ClientCPUNs+p.ClientCPUNs, r.Messages+p.Messages
	r.DrainEndMonoNs = max(r.DrainEndMonoNs, p.DrainEndMonoNs)
	r.Driver.Cores += p.Driver.Cores
	r.Driver.GCs += p.Driver.GCs
	r.Driver.GCPauseMsMax = max(r.Driver.GCPauseMsMax, p.Driver.GCPauseMsMax)
	r.Driver.GCShare = max(r.Driver.GCShare, p.Driver.GCShare)
	r.Driver.UnsentAbove, r.Driver.UnsentSamples = r.Driver.UnsentAbove+p.Driver.UnsentAbove, r.Driver.UnsentSamples+p.Driver.UnsentSamples
	r.Driver.UnsentBytesMax = max(r.Driver.UnsentBytesMax, p.Driver.UnsentBytesMax)
	r.mergeStreams(p)
}

func (r *StepResult) mergeStreams(p StepResult) {
	if p.StreamEnds != nil {
		ends := StreamEnds{}
		if r.StreamEnds != nil {
			ends = *r.StreamEnds
		}
		ends.Closed, ends.StillOpen, ends.By = ends.Closed+p.StreamEnds.Closed, ends.StillOpen+p.StreamEnds.StillOpen, add(add(nil, ends.By), p.StreamEnds.By)
		r.StreamEnds = &ends
	}
	if r.HTTP2 == nil || p.HTTP2 == nil {
		if r.HTTP2 != nil {
			r.HTTP2, r.HTTP2Absent = nil, "of one driver: "+p.HTTP2Absent
		}
		return
	}
	f, g := *r.HTTP2, *p.HTTP2
	if g.MaxConcurrentStreams != nil && (f.MaxConcurrentStreams == nil || *g.MaxConcurrentStreams < *f.MaxConcurrentStreams) {
		f.MaxConcurrentStreams = g.MaxConcurrentStreams
	}
	f.InitialWindowBytes = min(f.InitialWindowBytes, g.InitialWindowBytes)
	f.ConnectionStalls, f.ConnectionStallNs = f.ConnectionStalls+g.ConnectionStalls, f.ConnectionStallNs+g.ConnectionStallNs
	f.StreamStalls, f.StreamStallNs = f.StreamStalls+g.StreamStalls, f.StreamStallNs+g.StreamStallNs
	f.GoAways, f.Resets = f.GoAways+g.GoAways, add(add(nil, f.Resets), g.Resets)
	r.HTTP2 = &f
}

// mergeLogs reads the drivers' histograms back from their logs.
func mergeLogs(parts []Outcome) (histograms, error) {
	sum := newHistograms()
	by := map[string]*hdrhistogram.Histogram{"response": sum.response, "service": sum.service, "lateness": sum.lateness}
	for i, p := range parts {
		reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(p.Hlog))
		for len(p.Hlog) > 0 {
			h, err := reader.NextIntervalHistogram()
			if err != nil {
				return sum, fmt.Errorf("histogram log of driver %d: %w", i, err)
			}
			if h == nil {
				break
			}
			if to := by[h.Tag()]; to != nil {
				to.Merge(h)
			}
		}
	}
	return sum, nil
}

// wholeLog is a log with one interval of the whole step for each tag.
func wholeLog(r StepResult, h histograms) ([]byte, error) {
	rec := recorder{}
	rec.head(r.Name, int64(r.FirstSendMonoNs))
	from, to := wallOf(int64(r.FirstSendMonoNs)), wallOf(int64(r.DrainEndMonoNs))
	rec.intervals(h, from, to)
	return rec.hlog.Bytes(), rec.err
}
