package foreign

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// wrkText reads what wrk and wrk2 print: a closed loop has no offered rate.
type wrkText struct {
	requests  *uint64
	seconds   *float64
	quantiles map[string]float64 // by the text of the percentage
	errors    map[string]uint64
	hz        *float64
	done      bool
}

var (
	wrkTitle    = regexp.MustCompile(`^Running \S+ test @ \S+`)
	wrkQuantile = regexp.MustCompile(`^\s*(\d+(?:\.\d+)?)%\s+(\d+(?:\.\d+)?(?:us|ms|s|m|h))$`)
	wrkRequests = regexp.MustCompile(`^\s+(\d+) requests in (\d+(?:\.\d+)?(?:us|ms|s|m|h)), `)
	wrkSockets  = regexp.MustCompile(`^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)`)
	wrkStatus   = regexp.MustCompile(`^\s+Non-2xx or 3xx responses: (\d+)`)
	wrkRate     = regexp.MustCompile(`^Requests/sec:\s+(\d+(?:\.\d+)?)$`)
)

func beginWrk(line string) block {
	if !wrkTitle.MatchString(line) {
		return nil
	}
	return &wrkText{quantiles: map[string]float64{}, errors: map[string]uint64{}}
}

func (b *wrkText) line(line string) bool {
	if b.done || wrkTitle.MatchString(line) {
		return false
	}
	if m := wrkQuantile.FindStringSubmatch(line); m != nil {
		if d, err := time.ParseDuration(m[2]); err == nil {
			at := m[1]
			if strings.Contains(at, ".") {
				at = strings.TrimRight(strings.TrimRight(at, "0"), ".")
			}
			if _, twice := b.quantiles[at]; !twice { // wrk2 prints the uncorrected ones after
				b.quantiles[at] = float64(d) / 1e6
			}
		}
		return true
	}
	if m := wrkRequests.FindStringSubmatch(line); m != nil {
		n, err := strconv.ParseUint(m[1], 10, 64)
		d, derr := time.ParseDuration(m[2])
		if err == nil && derr == nil && d > 0 {
			seconds := d.Seconds()
			b.requests, b.seconds = &n, &seconds
		}
		return true
	}
	if m := wrkSockets.FindStringSubmatch(line); m != nil {
		for i, kind := range []string{"connect", "read", "write", "timeout"} {
			b.error(kind, m[i+1])
		}
		return true
	}
	if m := wrkStatus.FindStringSubmatch(line); m != nil {
		b.error("status", m[1])
		return true
	}
	if m := wrkRate.FindStringSubmatch(line); m != nil {
		if hz, err := strconv.ParseFloat(m[1], 64); err == nil && hz > 0 && !math.IsInf(hz, 0) {
			b.hz = &hz
		}
		b.done = true
		return true
	}
	return beginNighthawk(line) == nil && beginK6(line) == nil
}

func (b *wrkText) error(kind, text string) {
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n > 0 {
		b.errors[kind] = n
	}
}

func (b *wrkText) result(Options) *Result {
	if b.requests == nil {
		return nil
	}
	r := &Result{Tool: Wrk, Seconds: b.seconds, Errors: b.errors}
	// Its requests are answers, those of other statuses among them; what failed at
	// the socket is beside them.
	delivered := *b.requests
	if status := b.errors["status"]; status <= delivered {
		delivered -= status
	}
	r.Delivered = &delivered
	r.Sent = sum(delivered, b.errors)
	for at, into := range map[string]**float64{"50": &r.P50Ms, "90": &r.P90Ms, "99": &r.P99Ms, "99.9": &r.P999Ms, "100": &r.MaxMs} {
		if v, ok := b.quantiles[at]; ok {
			*into = &v
		}
	}
	if len(b.quantiles) == 0 {
		r.Notes = append(r.Notes, "wrk was not asked for latencies (--latency)")
	}
	if b.hz != nil {
		// The tool's rate is of the time that it sent, which it prints rounded.
		seconds := float64(*b.requests) / *b.hz
		r.Seconds = &seconds
	}
	return r
}
