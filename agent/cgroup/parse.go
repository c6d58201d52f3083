package cgroup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxFile bounds what is read of one cgroup file. The longest, memory.stat,
// has about 2 KiB.
const maxFile = 64 << 10

// CPUStat holds the figures of a cpu.stat file, v1 or v2; absent keys are
// absent figures. Times are microseconds (v1's throttled_time is converted).
type CPUStat struct {
	UsageUsec, UserUsec, SystemUsec       Figure
	NrPeriods, NrThrottled, ThrottledUsec Figure
}

// parseCPUStat reads a cpu.stat file. Both versions are lines "key value":
//
//	usage_usec 1200          (v2)
//	nr_throttled 3           (both, where the cpu controller is on)
//	throttled_time 4500000   (v1, nanoseconds)
//
// Unknown keys are allowed, malformed lines are not.
func parseCPUStat(text []byte) (CPUStat, error) {
	var stat CPUStat
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		key, digits, found := bytes.Cut(line, []byte(" "))
		if !found || len(key) == 0 {
			return CPUStat{}, fmt.Errorf("cpu.stat: line %q is not a key and a number", line)
		}
		value, err := strconv.ParseUint(string(digits), 10, 64)
		if err != nil {
			return CPUStat{}, fmt.Errorf("cpu.stat: line %q is not a key and a number", line)
		}
		switch string(key) {
		case "usage_usec":
			stat.UsageUsec = Known(value)
		case "user_usec":
			stat.UserUsec = Known(value)
		case "system_usec":
			stat.SystemUsec = Known(value)
		case "nr_periods":
			stat.NrPeriods = Known(value)
		case "nr_throttled":
			stat.NrThrottled = Known(value)
		case "throttled_usec":
			stat.ThrottledUsec = Known(value)
		case "throttled_time":
			stat.ThrottledUsec = Known(value / 1000)
		}
	}
	return stat, nil
}

// Quota is a CFS bandwidth limit: LimitUsec of CPU time per PeriodUsec.
type Quota struct {
	LimitUsec, PeriodUsec uint64
}

// CPUs is the limit as a number of CPUs.
func (q Quota) CPUs() float64 { return float64(q.LimitUsec) / float64(q.PeriodUsec) }

// ParseQuota reads v2's cpu.max, "max 100000" or "40000 100000". It answers
// false when the group has no limit.
func ParseQuota(r io.Reader) (Quota, bool, error) {
	text, err := readAll(r)
	if err != nil {
		return Quota{}, false, err
	}
	fields := bytes.Fields(text)
	if len(fields) != 2 {
		return Quota{}, false, fmt.Errorf("cpu.max: %q is not a limit and a period", text)
	}
	return makeQuota(string(fields[0]), string(fields[1]), "max")
}

// makeQuota takes the texts of limit and period; none is the word for no limit.
func makeQuota(limit, period, none string) (Quota, bool, error) {
	periodUsec, err := strconv.ParseUint(period, 10, 64)
	if err != nil || periodUsec == 0 {
		return Quota{}, false, fmt.Errorf("CFS period %q is not a positive number", period)
	}
	if limit == none {
		return Quota{PeriodUsec: periodUsec}, false, nil
	}
	limitUsec, err := strconv.ParseUint(limit, 10, 64)
	if err != nil || limitUsec == 0 {
		return Quota{}, false, fmt.Errorf("CFS quota %q is neither %q nor a positive number", limit, none)
	}
	return Quota{LimitUsec: limitUsec, PeriodUsec: periodUsec}, true, nil
}

// parseUint reads a file that holds one number and a newline.
func parseUint(text []byte) (uint64, error) {
	value, err := strconv.ParseUint(string(bytes.TrimSuffix(text, []byte("\n"))), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return value, nil
}

func readAll(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errors.New("longer than any cgroup file")
	}
	return text, nil
}
