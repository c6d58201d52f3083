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
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// Drivers of one load talk by lines: a driver prints `#RUNG-DRIVER ready STEP` and
// reads `STEP NS` from its input, the instant of the first send, or 0 to driver 0
// when all are ready, which then prints `#RUNG-DRIVER first STEP NS`.
const driverPrefix = "#RUNG-DRIVER "

// driversOptions are the flags of a load by several processes.
type driversOptions struct {
	drivers int
	share   string // of a child: INDEX/OF
}

// parseShare makes a child's share of the load.
func (o *driversOptions) apply(c *loadgen.Config, stdin io.Reader, stdout io.Writer) error {
	if o.share == "" {
		return nil
	}
	index, of, ok := strings.Cut(o.share, "/")
	i, err := strconv.Atoi(index)
	n, errOf := strconv.Atoi(of)
	if !ok || err != nil || errOf != nil {
		return fmt.Errorf("--share %q: want INDEX/OF", o.share)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(stdin)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	c.Share = &loadgen.Share{Index: i, Of: n,
		Begin: func(ctx context.Context, step string) (int64, error) {
			if _, err := fmt.Fprintf(stdout, "%sready %s\n", driverPrefix, step); err != nil {
				return 0, err
			}
			select {
			case line, ok := <-lines:
				name, at, two := strings.Cut(line, " ")
				first, err := strconv.ParseInt(at, 10, 64)
				if !ok || !two || err != nil || name != step {
					return 0, fmt.Errorf("the drivers' parent said %q", line)
				}
				return first, nil
			case <-ctx.Done():
				return 0, context.Cause(ctx)
			}
		},
		Announce: func(step string, first int64) error {
			_, err := fmt.Fprintf(stdout, "%sfirst %s %d\n", driverPrefix, step, first)
			return err
		},
	}
	return nil
}

// shareOf divides a total among drivers; the first ones get what is left over.
func shareOf(total, i, of int) int {
	n := total / of
	if i < total%of {
		n++
	}
	return n
}

// driveTogether drives a ladder by several processes and merges what they got.
func driveTogether(ctx context.Context, o loadOptions, c loadgen.Config, flags *pflag.FlagSet, stdout, stderr io.Writer) error {
	n := o.drivers.drivers
	if n < 2 || n > 64 || c.Connections < n || c.MaxInFlight < n || c.Protocol == loadgen.GRPCStream && c.Streams < n {
		return exitError{exitUsage, fmt.Errorf("--drivers %d: want 1 to 64, and at least a connection, a slot and a stream for each", n)}
	}
	if o.extend != 0 || c.OnVoid != loadgen.OnVoidContinue {
		return exitError{exitUsage, fmt.Errorf("--drivers %d: --extend and --on-void stop need one driver", n)}
	}
	w := &runWriter{path: o.out, run: describeRun(o, c)}
	if err := w.check(); err != nil {
		return exitError{exitUsage, err}
	}
	table, err := newStepTable(o.csv)
	if err != nil {
		return exitError{exitUsage, err}
	}
	parent := os.TempDir()
	if o.out != "" {
		parent = filepath.Dir(o.out)
		if err := os.MkdirAll(parent, 0o755); err != nil {
			return exitError{exitFailure, err}
		}
	}
	parts, err := os.MkdirTemp(parent, ".rung-drivers-")
	if err != nil {
		return exitError{exitFailure, fmt.Errorf("make a directory for the drivers' parts: %w", err)}
	}
	defer os.RemoveAll(parts)
	runErr := runDrivers(ctx, o, c, flags, parts, stdout, stderr)

	result := loadResult{Run: c.Run, Arm: c.Arm, Out: o.out}
	progress := newLoadProgress(stderr, loadgen.Config{})
	sum := loadgen.Summary{}
	merged, err := readParts(parts, n)
	for _, m := range merged {
		result.Steps = append(result.Steps, m.Result)
		sum.Add(m)
		progress.done(m.Result)
		err = errors.Join(err, w.write(m), table.write(m.Result))
	}
	progress.finish()
	err = errors.Join(runErr, err, table.close())
	if w.dir != nil {
		// Each driver's own run stays beside the whole.
		err = errors.Join(err, os.Rename(parts, filepath.Join(o.out, "drivers")))
	}
	return o.conclude(result, sum, len(c.Steps), err, stdout)
}

// runDrivers runs the processes to their end. Their exit codes say no more than
// their results do, but for one that did not come to its end.
func runDrivers(ctx context.Context, o loadOptions, c loadgen.Config, flags *pflag.FlagSet, parts string, stdout, stderr io.Writer) error {
	self, err := executable()
	if err != nil {
		return err
	}
	n := o.drivers.drivers
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	join := &driversJoin{inputs: make([]io.WriteCloser, n), ready: map[string]int{}, stdout: stdout}
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		cmd := exec.CommandContext(ctx, self, driverArgs(o, c, flags, i, filepath.Join(parts, strconv.Itoa(i)))...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
		cmd.WaitDelay = c.Drain + 10*time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		var said strings.Builder
		cmd.Stderr = &said
		in, err := cmd.StdinPipe()
		if err != nil {
			return err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return err
		}
		join.mu.Lock()
		join.inputs[i] = in
		join.mu.Unlock()
		if err := cmd.Start(); err != nil {
			cancel(err)
			errs[i] = fmt.Errorf("start driver %d: %w", i, err)
			break
		}
		wg.Go(func() {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				join.line(i, lines.Text())
			}
			if err := cmd.Wait(); err == nil || droveAll(filepath.Join(parts, strconv.Itoa(i)), len(c.Steps)) {
				return // what is void is for its results to say
			}
			errs[i] = fmt.Errorf("driver %d: %s", i, lastWords(said.String()))
			// The others would wait for it.
			cancel(errs[i])
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// droveAll says whether a driver wrote all of its steps.
func droveAll(dir string, steps int) bool {
	run, err := rundir.Open(dir)
	if err != nil {
		return false
	}
	all, err := run.Steps()
	return err == nil && len(all) == steps
}

// lastWords are what follows the last "rung: " of what a process said.
func lastWords(said string) string {
	if i := strings.LastIndex("\n"+said, "\nrung: "); i >= 0 {
		said = said[i+len("rung: "):]
	}
	return strings.TrimSpace(said)
}

// driversJoin hands the drivers' lines to each other.
type driversJoin struct {
	mu     sync.Mutex
	inputs []io.WriteCloser
	ready  map[string]int
	stdout io.Writer
}

// line takes a line of driver i. Markers are driver 0's: all have the same edges.
func (j *driversJoin) line(i int, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	rest, ours := strings.CutPrefix(text, driverPrefix)
	if !ours {
		if i == 0 {
			fmt.Fprintln(j.stdout, text)
		}
		return
	}
	word, rest, _ := strings.Cut(rest, " ")
	step, at, _ := strings.Cut(rest, " ")
	switch word {
	case "ready":
		if j.ready[step]++; j.ready[step] == len(j.inputs) {
			fmt.Fprintf(j.inputs[0], "%s 0\n", step)
		}
	case "first":
		for _, in := range j.inputs[1:] {
			fmt.Fprintf(in, "%s %s\n", step, at)
		}
	}
}

// driverArgs are those of the command line, with the driver's share of the totals.
func driverArgs(o loadOptions, c loadgen.Config, flags *pflag.FlagSet, i int, out string) []string {
	n := o.drivers.drivers
	args := []string{"load"}
	flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "drivers", "out", "csv", "json", "run", "connections", "streams", "max-in-flight", "id-first", "client-limited", "on-void":
			return
		case "agent", "agent-target", "also":
			if i > 0 {
				return
			}
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, v := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+v)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+f.Value.String())
	})
	connections, inFlight := shareOf(c.Connections, i, n), max(1, shareOf(c.MaxInFlight, i, n))
	args = append(args, "--run="+c.Run, "--out="+out, "--share="+fmt.Sprintf("%d/%d", i, n), "--client-limited="+limitedWarn,
		"--connections="+strconv.Itoa(connections), "--max-in-flight="+strconv.Itoa(inFlight))
	if c.Protocol == loadgen.GRPCStream {
		args = append(args, "--streams="+strconv.Itoa(shareOf(c.Streams, i, n)))
	}
	if c.IDs != nil {
		// The first driver has the most slots.
		slots := uint64(shareOf(c.MaxInFlight, 0, n) + max(shareOf(c.Connections, 0, n), shareOf(c.Streams, 0, n)) + 1)
		args = append(args, "--id-first="+strconv.FormatUint(c.IDs.First+uint64(i)*slots*c.IDs.Span, 10))
	}
	return args
}

// readParts merges the steps that all drivers finished.
func readParts(parts string, n int) ([]loadgen.Outcome, error) {
	each := make([][]loadgen.Outcome, n)
	steps := -1
	for i := range n {
		dir := filepath.Join(parts, strconv.Itoa(i))
		run, err := rundir.Open(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil, nil // it says itself why it did not begin
		}
		if err != nil {
			return nil, err
		}
		all, err := run.Steps()
		if err != nil {
			return nil, err
		}
		for _, s := range all {
			o, err := partOf(s)
			if err != nil {
				return nil, err
			}
			each[i] = append(each[i], o)
		}
		if steps < 0 || len(all) < steps {
			steps = len(all)
		}
	}
	var merged []loadgen.Outcome
	for s := range steps {
		var of []loadgen.Outcome
		for i := range n {
			of = append(of, each[i][s])
		}
		m, err := loadgen.Merge(of)
		if err != nil {
			return merged, err
		}
		merged = append(merged, m)
	}
	return merged, nil
}

// partOf reads a driver's step back, by way of JSON as clientStep writes it.
func partOf(s rundir.Step) (loadgen.Outcome, error) {
	data, err := json.Marshal(s.Client)
	if err != nil {
		return loadgen.Outcome{}, err
	}
	o := loadgen.Outcome{Step: loadgen.Step{Index: s.Index, OfferedHz: s.OfferedHz, Warmup: s.Warmup}, Hlog: s.Hlog}
	if err := json.Unmarshal(data, &o.Result); err != nil {
		return o, fmt.Errorf("step %s: %w", s.Name, err)
	}
	if s.Record != nil {
		o.Agent = append(o.Agent, loadgen.AgentRecord{Record: s.Record, ProfileGz: s.ProfileGz})
	}
	for _, other := range s.Others {
		o.Also = append(o.Also, loadgen.AgentRecord{Record: other.Record, ProfileGz: other.ProfileGz})
	}
	return o, nil
}
