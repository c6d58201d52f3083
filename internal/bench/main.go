//go:build linux

// Command bench measures what Rung's account costs and how true its estimates
// are, on this host, against goals. It answers "what does it cost, and may its
// intervals be believed", and repeats the figures of package truth: whether times
// are put into the right state.
//
//	bench account [--only REGEXP] [--quick] [--output DIR]
//
// Every comparison is a ratio within one run, of CPU time and not of wall time
// wherever a neighbour could take the CPU: figures of a shared machine are to be
// held against each other, not against another day's. Needs root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rungprof/rung/internal/truth/suite"
)

func main() {
	suite.Workload()
	if task := os.Getenv(workloadEnv); task != "" {
		runWorkload(strings.Fields(task))
		return
	}
	runtime.LockOSThread() // children end with the thread that started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// group is figures that are measured together.
type group struct {
	name, about string
	measure     func(*bench) error
}

// groups in the order of the table. A measurement that fails leaves the figures
// it had, and one that says why the rest is missing.
var groups = []group{
	{"machine", "what the figures were taken on", (*bench).machine},
	{"states", "state times against workloads whose answer is known", (*bench).states},
	{"charged", "time charged to threads against the cgroup's own counter", (*bench).charged},
	{"shares", "95 % intervals of stack shares, resampled from recorded populations", (*bench).resampledShares},
	{"live", "95 % intervals of stack shares, live", (*bench).liveShares},
	{"cost", "throughput of a saturated, pinned closed loop", (*bench).cost},
	{"programs", "time in BPF programs", (*bench).programs},
	{"peers", "cost and error beside other profilers", (*bench).peers},
	{"size", "the agent at 10,000 threads", (*bench).size},
	{"loss", "events lost at 20,000 switches/s", (*bench).loss},
}

// bench is one run.
type bench struct {
	ctx     context.Context
	quick   bool
	log     io.Writer // what is being done, for people
	group   string
	figures []Figure
}

// run answers the exit code: 0 when every figure that was asked for is there,
// met or not; 1 when the run was interrupted; 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{ctx: ctx, log: stderr}
	flags := flag.NewFlagSet("bench account", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("only", "", "measure only the groups whose `name` this regular expression matches: "+strings.Join(groupNames(), ", "))
	output := flags.String("output", "build/bench", "`directory` for account.json")
	flags.BoolVar(&b.quick, "quick", false, "measure briefly, as a smoke test: figures are wide, and may miss their goals for that alone")
	if len(args) == 0 || args[0] != "account" {
		fmt.Fprintln(stderr, "bench: want: account [--only REGEXP] [--quick] [--output DIR]")
		return 2
	}
	if err := flags.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	pattern, err := regexp.Compile(*only)
	if err != nil || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "bench: --only %q: %v; arguments left over: %q\n", *only, err, flags.Args())
		return 2
	}
	began := time.Now()
	for _, g := range groups {
		if !pattern.MatchString(g.name) && g.name != "machine" {
			continue
		}
		b.measure(g)
		if ctx.Err() != nil {
			break
		}
	}
	b.group = "machine"
	b.state("load average at the end", loadAverage(), "", "others ran beside these figures where it is above 1")
	b.state("duration", time.Since(began).Seconds(), "s", "")
	printTable(stdout, b.figures)
	if err := writeJSON(filepath.Join(*output, "account.json"), b.figures); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "bench: interrupted")
		return 1
	}
	return 0
}

func (b *bench) measure(g group) {
	fmt.Fprintf(b.log, "bench: %s: %s\n", g.name, g.about)
	b.group = g.name
	if err := g.measure(b); err != nil {
		b.missing("all figures that are not here", "", "measured", err)
	}
}

func groupNames() []string {
	var names []string
	for _, g := range groups {
		names = append(names, g.name)
	}
	return names
}

// machine states what the figures depend on.
func (b *bench) machine() error {
	b.state("load average at the start", loadAverage(), "", "others run beside these figures where it is above 1")
	b.state("online CPUs", float64(onlineCPUs()), "", "")
	return nil
}

// pick is the first for a full run, the second for a quick one.
func pick[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
