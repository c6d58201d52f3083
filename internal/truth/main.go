//go:build linux

// Command truth holds the account of package bpf against workloads whose answer
// is known, and prints one line per figure. Its cases are those of package suite.
//
//	truth [--short] [--only REGEXP] [--json] [--list]
//
// It exits 1 when a figure is out of its bounds, 2 when it could not measure.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/truth/suite"
)

func main() {
	suite.Workload()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("truth", flag.ContinueOnError)
	flags.SetOutput(stderr)
	short := flags.Bool("short", false, "less work per case, without 10,000 threads: about a minute")
	only := flags.String("only", "", "run only the cases whose name matches this regular expression")
	asJSON := flags.Bool("json", false, "print a JSON list of figures instead of lines")
	list := flags.Bool("list", false, "list the cases and stop")
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "truth: %q is no flag; want [--short] [--only REGEXP] [--json] [--list]\n", flags.Arg(0))
		return 2
	}
	if *list {
		for _, name := range suite.Names() {
			fmt.Fprintln(stdout, name)
		}
		return 0
	}
	options := suite.Options{Short: *short}
	if *only != "" {
		var err error
		if options.Only, err = regexp.Compile(*only); err != nil {
			fmt.Fprintf(stderr, "truth: --only: %v\n", err)
			return 2
		}
	}
	if !*asJSON {
		options.Each = func(f suite.Figure) { fmt.Fprintln(stdout, f) }
	}
	begin := time.Now()
	figures, err := suite.Run(ctx, options)
	if err != nil {
		fmt.Fprintf(stderr, "truth: %v\n", err)
		return 2
	}
	broken := 0
	for _, f := range figures {
		if !f.OK {
			broken++
		}
	}
	if *asJSON {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		if err := out.Encode(figures); err != nil {
			fmt.Fprintf(stderr, "truth: %v\n", err)
			return 2
		}
	} else {
		fmt.Fprintf(stdout, "%d figures, %d out of bounds, %.0f s\n", len(figures), broken, time.Since(begin).Seconds())
	}
	if broken > 0 {
		return 1
	}
	return 0
}
