//go:build linux

// Command benchload measures what the load generator is worth, on this host,
// against goals: whether it keeps its schedule, says so when it cannot, counts a
// stall as its schedule predicts, and what a request costs it beside other
// generators. It drives build/rung as its users do.
//
//	benchload [--rung PATH] [--only REGEXP] [--quick] [--output DIR]
//
// Every comparison is within one run. A machine with neighbours spoils lateness;
// the bare loop beside it says by how much.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"time"
)

func main() {
	runtime.LockOSThread() // children end with the thread that started them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// bench is one run.
type bench struct {
	ctx     context.Context
	rung    string
	quick   bool
	log     io.Writer
	group   string
	figures []Figure
}

type group struct {
	name, about string
	measure     func(*bench) error
}

var groups = []group{
	{"pacing", "lateness at 4,000/s beside a bare timer loop, and what was sent", (*bench).pacing},
	{"headroom", "steps flagged as client-limited", (*bench).headroom},
	{"stall", "a second in which the service, or the driver, stands still", (*bench).stall},
	{"null", "a closed loop of up to 64 slots against a service that does nothing", (*bench).null},
	{"peers", "CPU per request beside other load generators", (*bench).peers},
}

// run answers the exit code: 0 when every figure that was asked for is there, met
// or not; 1 when the run was interrupted; 2 for a wrong command line.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{ctx: ctx, log: stderr}
	flags := flag.NewFlagSet("benchload", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&b.rung, "rung", "build/rung", "`path` of the binary")
	only := flags.String("only", "", "measure only the groups whose `name` this regular expression matches: pacing, headroom, stall, null, peers")
	output := flags.String("output", "build/bench", "`directory` for load.json")
	flags.BoolVar(&b.quick, "quick", false, "measure briefly, as a smoke test: figures may miss their goals for that alone")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	pattern, err := regexp.Compile(*only)
	if err != nil || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "benchload: --only %q: %v; arguments left over: %q\n", *only, err, flags.Args())
		return 2
	}
	if _, err := os.Stat(b.rung); err != nil {
		fmt.Fprintf(stderr, "benchload: --rung: %v; build it first: make build\n", err)
		return 2
	}
	began := time.Now()
	for _, g := range groups {
		if !pattern.MatchString(g.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(stderr, "benchload: %s: %s\n", g.name, g.about)
		b.group = g.name
		if err := g.measure(b); err != nil {
			b.missing("all figures that are not here", "", "measured", err)
		}
	}
	b.group = "machine"
	b.state("online CPUs", float64(runtime.NumCPU()), "", "")
	b.state("duration", time.Since(began).Seconds(), "s", "")
	printTable(stdout, b.figures)
	if err := writeJSON(filepath.Join(*output, "load.json"), b.figures); err != nil {
		fmt.Fprintln(stderr, "benchload:", err)
		return 1
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "benchload: interrupted")
		return 1
	}
	return 0
}

// pick is the first for a full run, the second for a quick one.
func pick[T any](b *bench, full, quick T) T {
	if b.quick {
		return quick
	}
	return full
}
