//go:build linux

package main

import (
	"encoding/csv"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/rungprof/rung/loadgen"
)

// stepTable writes a CSV row for each finished step, at once, so that a run that
// is cut short leaves the rows of what it did. Nil writes nothing.
type stepTable struct {
	file *os.File
	out  *csv.Writer
}

var stepColumns = []string{"step", "warmup", "offered_hz", "delivered_hz", "scheduled", "sent", "delivered", "errors", "unanswered", "overflow", "deferred",
	"late_dropped", "not_connected", "response_p50_ms", "response_p90_ms", "response_p99_ms", "response_p999_ms", "response_max_ms",
	"service_p50_ms", "service_p99_ms", "lateness_p50_ms", "lateness_p99_ms", "lateness_max_ms", "client_cpu_us_per_request", "client_cores", "host_cpu_mean",
	"host_cpu_peak", "host_cpu_samples", "client_limited", "void"}

func newStepTable(path string) (*stepTable, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return nil, fmt.Errorf("--csv: %w (a table is never overwritten)", err)
	}
	return &stepTable{file: f, out: csv.NewWriter(f)}, nil
}

func (t *stepTable) write(r loadgen.StepResult) error {
	if t == nil {
		return nil
	}
	if at, err := t.file.Seek(0, 1); err == nil && at == 0 {
		_ = t.out.Write(stepColumns)
	}
	_ = t.out.Write(stepRow(r))
	t.out.Flush()
	if err := t.out.Error(); err != nil {
		return fmt.Errorf("--csv: %w", err)
	}
	return nil
}

func (t *stepTable) close() error {
	if t == nil {
		return nil
	}
	if err := t.file.Close(); err != nil {
		return fmt.Errorf("--csv: %w", err)
	}
	return nil
}

// stepRow has a cell for each of stepColumns; one that was not measured is empty.
func stepRow(r loadgen.StepResult) []string {
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	share := func(v *float64) string {
		if v == nil {
			return ""
		}
		return number(*v)
	}
	sum := func(m map[string]uint64) string {
		var n uint64
		for _, v := range m {
			n += v
		}
		return count(n)
	}
	row := []string{r.Name, strconv.FormatBool(r.Warmup), number(r.OfferedHz), ""}
	if s := float64(r.WindowEndMonoNs-r.WindowStartMonoNs) / 1e9; s > 0 {
		row[3] = number(float64(r.DeliveredInWindow) / s)
	}
	row = append(row, count(r.Scheduled), count(r.Sent), count(r.Delivered), sum(r.Errors), count(r.Unanswered), count(r.Overflow), sum(r.Deferred),
		count(r.LateDropped), count(r.NotConnected))
	if q := r.ResponseMs; q != nil {
		row = append(row, number(q.P50), number(q.P90), number(q.P99), number(q.P999), number(q.Max))
	} else {
		row = append(row, "", "", "", "", "")
	}
	if q := r.ServiceMs; q != nil {
		row = append(row, number(q.P50), number(q.P99))
	} else {
		row = append(row, "", "")
	}
	if q := r.LatenessMs; q != nil {
		row = append(row, number(q.P50), number(q.P99), number(q.Max))
	} else {
		row = append(row, "", "", "")
	}
	perRequest := ""
	if r.Sent > 0 {
		perRequest = number(float64(r.ClientCPUNs) / float64(r.Sent) / 1e3)
	}
	var limits []string
	for _, l := range r.ClientLimited {
		limits = append(limits, string(l.Kind))
	}
	host := r.Driver.Host
	return append(row, perRequest, number(r.Driver.Cores), share(host.MeanShare), share(host.PeakShare), strconv.Itoa(host.Samples), strings.Join(limits, " "), r.Void)
}
