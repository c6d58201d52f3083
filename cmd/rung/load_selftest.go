//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/rungprof/rung/arms"
	"github.com/rungprof/rung/loadgen"
)

// selftestOptions are the flags of rung load --selftest.
type selftestOptions struct {
	run        bool
	runs       int
	slots      int
	perProcess bool
	once       bool // the process-per-request client: one request, then exit
}

// selftestRow is what the driver reached, and cost, with a number of slots against
// a service that does nothing: medians over the runs.
type selftestRow struct {
	Slots           int     `json:"slots"`
	DeliveredHz     float64 `json:"deliveredHz"`
	P95Ms           float64 `json:"p95Ms"`
	CPUUsPerRequest float64 `json:"cpuUsPerRequest"` // the driver's
	Cores           float64 `json:"cores"`           // the driver kept busy
	HostMeanShare   float64 `json:"hostMeanShare"`   // of all CPUs, the null service included
	HostPeakShare   float64 `json:"hostPeakShare"`
	HostSamples     int     `json:"hostSamples"` // of all runs
	// PerProcess is a client that is started anew for each request, on the same
	// host against the same service.
	PerProcess *perProcessRow `json:"perProcess,omitempty"`
}

type perProcessRow struct {
	DeliveredHz     float64 `json:"deliveredHz"`
	P95Ms           float64 `json:"p95Ms"`
	CPUUsPerRequest float64 `json:"cpuUsPerRequest"`
	Cores           float64 `json:"cores"`
	Errors          int     `json:"errors"`
}

type selftestResult struct {
	Protocol string        `json:"protocol"`
	CPUs     int           `json:"cpus"`
	Runs     int           `json:"runs"`
	Seconds  float64       `json:"seconds"` // of each step
	Rows     []selftestRow `json:"rows"`
	// Dip is the lowest share of the best rate with fewer slots that any number of
	// slots delivered: below 0.9 the driver has a knee of its own.
	Dip float64 `json:"dip"`
}

// nullMode is the arm that answers a protocol and does nothing else.
func nullMode(p loadgen.Protocol) arms.Mode {
	switch p {
	case loadgen.RestH1:
		return arms.NullH1
	case loadgen.RestH2C:
		return arms.NullH2C
	}
	return arms.NullGRPC
}

func runSelftest(ctx context.Context, o loadOptions, c loadgen.Config, stdout, stderr io.Writer) error {
	if o.selftest.runs < 1 || o.selftest.runs > 100 || o.selftest.slots < 1 || o.selftest.slots > 1024 {
		return exitError{exitUsage, fmt.Errorf("--selftest-runs %d and --selftest-slots %d: want 1 to 100, and 1 to 1024", o.selftest.runs, o.selftest.slots)}
	}
	address, stop, err := startNull(ctx, nullMode(c.Protocol))
	if err != nil {
		return err
	}
	defer stop()
	c.Address = address
	slots := loadgen.SlotLadder(o.selftest.slots)
	all := make([][]loadgen.ClosedResult, len(slots))
	each := make([][]perProcessRow, len(slots))
	for run := range o.selftest.runs {
		for i, n := range slots {
			step := []loadgen.ClosedStep{{Slots: n, Duration: o.duration}}
			err := loadgen.Closed(ctx, c, step, loadgen.ClosedHooks{StepDone: func(r loadgen.ClosedResult) error {
				if r.Void != "" {
					return errors.New(r.Void)
				}
				all[i] = append(all[i], r)
				return nil
			}})
			if err != nil {
				return exitError{exitFailure, err}
			}
			if o.selftest.perProcess {
				row, err := perProcess(ctx, o, address, n)
				if err != nil {
					return exitError{exitFailure, err}
				}
				each[i] = append(each[i], row)
			}
			fmt.Fprintf(stderr, "run %d of %d: %s\n", run+1, o.selftest.runs, closedLine(all[i][run]))
		}
	}
	result := selftestResult{Protocol: string(c.Protocol), CPUs: runtime.NumCPU(), Runs: o.selftest.runs, Seconds: o.duration.Seconds(), Dip: 1}
	best := 0.0
	for i, n := range slots {
		row := selftestRowOf(n, all[i])
		if o.selftest.perProcess {
			p := perProcessMedian(each[i])
			row.PerProcess = &p
		}
		if best > 0 {
			result.Dip = min(result.Dip, row.DeliveredHz/best)
		}
		best = max(best, row.DeliveredHz)
		result.Rows = append(result.Rows, row)
	}
	if o.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		return out.Encode(result)
	}
	return result.print(stdout)
}

// median of what f gives of each; the slice has an element at least.
func median[T any](of []T, f func(T) float64) float64 {
	values := make([]float64, len(of))
	for i, v := range of {
		values[i] = f(v)
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

func selftestRowOf(slots int, runs []loadgen.ClosedResult) selftestRow {
	share := func(f func(loadgen.HostCPU) *float64) func(loadgen.ClosedResult) float64 {
		return func(r loadgen.ClosedResult) float64 {
			if v := f(r.Driver.Host); v != nil {
				return *v
			}
			return 0
		}
	}
	row := selftestRow{
		Slots:           slots,
		DeliveredHz:     median(runs, func(r loadgen.ClosedResult) float64 { return r.DeliveredHz }),
		P95Ms:           median(runs, func(r loadgen.ClosedResult) float64 { return *r.P95Ms }),
		CPUUsPerRequest: median(runs, func(r loadgen.ClosedResult) float64 { return float64(r.ClientCPUNs) / float64(r.Sent) / 1e3 }),
		Cores:           median(runs, func(r loadgen.ClosedResult) float64 { return r.Driver.Cores }),
		HostMeanShare:   median(runs, share(func(h loadgen.HostCPU) *float64 { return h.MeanShare })),
		HostPeakShare:   median(runs, share(func(h loadgen.HostCPU) *float64 { return h.PeakShare })),
	}
	for _, r := range runs {
		row.HostSamples += r.Driver.Host.Samples
	}
	return row
}

func perProcessMedian(runs []perProcessRow) perProcessRow {
	p := perProcessRow{
		DeliveredHz:     median(runs, func(r perProcessRow) float64 { return r.DeliveredHz }),
		P95Ms:           median(runs, func(r perProcessRow) float64 { return r.P95Ms }),
		CPUUsPerRequest: median(runs, func(r perProcessRow) float64 { return r.CPUUsPerRequest }),
		Cores:           median(runs, func(r perProcessRow) float64 { return r.Cores }),
	}
	for _, r := range runs {
		p.Errors += r.Errors
	}
	return p
}

func (r *selftestResult) print(w io.Writer) error {
	fmt.Fprintf(w, "rung load against a null service: %s, %d CPUs, medians of %d runs of %g s\n", r.Protocol, r.CPUs, r.Runs, r.Seconds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "c\ttput/s\tp95 ms\tclient CPU/req\tcores busy\thost CPU mean\tpeak\tsamples\t")
	if r.Rows[0].PerProcess != nil {
		fmt.Fprint(t, "process per request: tput/s\tp95 ms\tCPU/req\tcores busy\t")
	}
	fmt.Fprintln(t)
	for _, row := range r.Rows {
		fmt.Fprintf(t, "%d\t%.0f\t%.3g\t%.3g µs\t%.2f\t%.3f\t%.3f\t%d\t", row.Slots, row.DeliveredHz, row.P95Ms, row.CPUUsPerRequest, row.Cores,
			row.HostMeanShare, row.HostPeakShare, row.HostSamples)
		if p := row.PerProcess; p != nil {
			fmt.Fprintf(t, "%.1f\t%.3g\t%.3g ms\t%.2f\t", p.DeliveredHz, p.P95Ms, p.CPUUsPerRequest/1e3, p.Cores)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "lowest share of the best rate with fewer slots: %.2f\n", r.Dip)
	return err
}

// startNull serves a null mode by a process of its own, so that the driver's CPU
// is its own.
func startNull(ctx context.Context, mode arms.Mode) (address string, stop func(), err error) {
	self, err := executable()
	if err != nil {
		return "", nil, err
	}
	cmd := exec.CommandContext(ctx, self, "arm", "--mode", string(mode))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start the null service: %w", err)
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "RUNG-ARM ready ")
	if !ok {
		stop()
		return "", nil, fmt.Errorf("start the null service: it said %q, %w", line, err)
	}
	return address, stop, nil
}

// perProcess keeps a number of slots busy, each with one process after another
// that makes one request.
func perProcess(ctx context.Context, o loadOptions, address string, slots int) (perProcessRow, error) {
	self, err := executable()
	if err != nil {
		return perProcessRow{}, err
	}
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		took []float64 // ms
		cpu  time.Duration
		errs atomic.Int64
	)
	began := time.Now()
	for range slots {
		wg.Go(func() {
			for time.Since(began) < o.duration && ctx.Err() == nil {
				start := time.Now()
				cmd := exec.CommandContext(ctx, self, "load", "--once", "--protocol", o.protocol, "--address", address, "--body", o.body, "--timeout", "10s", "--connect-timeout", "10s")
				err := cmd.Run()
				ms := float64(time.Since(start)) / 1e6
				if cmd.ProcessState == nil || err != nil {
					errs.Add(1)
					if cmd.ProcessState == nil {
						return
					}
				}
				mu.Lock()
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				if err == nil {
					took = append(took, ms)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(began)
	if len(took) == 0 {
		return perProcessRow{}, fmt.Errorf("a process per request: all %d failed", errs.Load())
	}
	slices.Sort(took)
	return perProcessRow{
		DeliveredHz: float64(len(took)) / elapsed.Seconds(), P95Ms: took[(len(took)-1)*95/100],
		CPUUsPerRequest: float64(cpu.Microseconds()) / float64(len(took)), Cores: cpu.Seconds() / elapsed.Seconds(), Errors: int(errs.Load()),
	}, nil
}
