package foreign

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The tool's JSON, as far as it is read: protobuf's, whose 64-bit numbers are text.
// Field names are in either of its two spellings.
type nighthawkOutput struct {
	Options nighthawkOptions  `json:"options"`
	Results []nighthawkWorker `json:"results"`
}

type nighthawkOptions struct {
	RPS         count  `json:"requests_per_second"`
	RPSCamel    count  `json:"requestsPerSecond"`
	Concurrency string `json:"concurrency"`
}

type nighthawkWorker struct {
	Name          string               `json:"name"` // worker_0, …; global is all of them
	Statistics    []nighthawkStatistic `json:"statistics"`
	Counters      []nighthawkCounter   `json:"counters"`
	Duration      string               `json:"execution_duration"`
	DurationCamel string               `json:"executionDuration"`
}

type nighthawkStatistic struct {
	ID          string                `json:"id"`
	Percentiles []nighthawkPercentile `json:"percentiles"`
}

type nighthawkPercentile struct {
	Percentile float64 `json:"percentile"`
	Duration   string  `json:"duration"` // "0.001084s"; sizes have another field
}

type nighthawkCounter struct {
	Name  string `json:"name"`
	Value count  `json:"value"`
}

// count reads 12 and "12". What is neither is not known.
type count struct {
	n     uint64
	known bool
}

func (c *count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseUint(strings.Trim(string(data), `"`), 10, 64)
	c.n, c.known = n, err == nil
	return nil
}

// nighthawkFromJSON takes the result over all workers, nil where there is none.
func nighthawkFromJSON(raw []byte, o Options) *Result {
	var j nighthawkOutput
	if err := json.Unmarshal(raw, &j); err != nil || len(j.Results) == 0 {
		return nil
	}
	i := slices.IndexFunc(j.Results, func(w nighthawkWorker) bool { return w.Name == "global" })
	if i < 0 && len(j.Results) > 1 {
		return nil
	}
	w := j.Results[max(i, 0)]
	n := newNighthawk()
	for _, c := range w.Counters[:min(len(w.Counters), maxCounters)] {
		if c.Value.known {
			n.counters[c.Name] = c.Value.n
		}
	}
	for _, s := range w.Statistics {
		for _, q := range s.Percentiles[:min(len(s.Percentiles), maxQuantiles)] {
			if ms, ok := protoMs(q.Duration); ok {
				n.histograms[s.ID] = append(n.histograms[s.ID], quantile{q.Percentile, ms})
			}
		}
	}
	if ms, ok := protoMs(w.Duration + w.DurationCamel); ok && ms > 0 {
		seconds := ms / 1000
		n.seconds = &seconds
	}
	result := n.result(o)
	if result != nil {
		result.offered(j.Options)
	}
	return result
}

// offered is the rate of all workers: the tool takes it for each.
func (r *Result) offered(o nighthawkOptions) {
	rps := o.RPS
	if !rps.known {
		rps = o.RPSCamel
	}
	if !rps.known || rps.n == 0 || rps.n > maxHz {
		return
	}
	workers := uint64(1)
	if o.Concurrency != "" {
		var err error
		if workers, err = strconv.ParseUint(o.Concurrency, 10, 16); err != nil || workers == 0 {
			r.Notes = append(r.Notes, "the rate is "+strconv.FormatUint(rps.n, 10)+"/s for each of its workers, whose number (concurrency "+cut(o.Concurrency)+") it does not say")
			return
		}
	}
	hz := float64(rps.n) * float64(workers)
	r.OfferedHz = &hz
}

// protoMs reads protobuf's text of a duration, in milliseconds.
func protoMs(text string) (float64, bool) {
	if !strings.HasSuffix(text, "s") {
		return 0, false
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, false
	}
	return float64(d) / 1e6, true
}

// fromJSON tells whose an object is; nil of nobody's that is known.
func fromJSON(raw []byte, o Options) *Result {
	var keys struct {
		Results json.RawMessage `json:"results"`
		Metrics json.RawMessage `json:"metrics"`
	}
	if err := json.Unmarshal(raw, &keys); err != nil {
		return nil
	}
	switch {
	case keys.Results != nil:
		return nighthawkFromJSON(raw, o)
	case keys.Metrics != nil:
		return k6FromJSON(raw)
	}
	return nil
}
