// Command democheck holds the JSON of `rung demo` against what must be true of
// it: the account closes, tables add up, and the layers are where the arms' own
// work puts them. CI runs it; it measures nothing itself.
//
//	democheck rate REPORT.json
//	democheck whole REPORT.json [REPEAT.json ...]
//	democheck doubled BASE.json ONCE.json TWICE.json
//	democheck planted NS REPORT.json
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/rungprof/rung/report"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run answers the exit code: 0, 1 when an assertion failed, 2 for a wrong
// command line or a report that cannot be read.
func run(args []string, stdout, stderr io.Writer) int {
	if len(args) == 2 && args[0] == "rate" {
		return printRate(args[1], stdout, stderr)
	}
	results, err := check(args)
	if err != nil {
		fmt.Fprintln(stderr, "democheck:", err)
		return 2
	}
	if results.print(stdout) > 0 {
		return 1
	}
	return 0
}

func check(args []string) (*results, error) {
	const usage = "want: rate REPORT.json, whole REPORT.json [REPEAT.json ...], doubled BASE.json ONCE.json TWICE.json, or planted NS REPORT.json"
	if len(args) == 0 {
		return nil, fmt.Errorf("no check named; %s", usage)
	}
	files := args[1:]
	var plantedNs float64
	switch {
	case args[0] == "planted" && len(files) == 2:
		var err error
		if plantedNs, err = strconv.ParseFloat(files[0], 64); err != nil || !(plantedNs > 0) {
			return nil, fmt.Errorf("planted %q: give the planted nanoseconds per request, above 0", files[0])
		}
		files = files[1:]
	case args[0] == "whole" && len(files) >= 1, args[0] == "doubled" && len(files) == 3:
	default:
		return nil, fmt.Errorf("%v; %s", args, usage)
	}
	var reports []*report.Report
	for _, path := range files {
		r, err := read(path)
		if err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	out := &results{}
	switch args[0] {
	case "whole":
		whole(out, reports[0], reports[1:])
	case "doubled":
		doubled(out, reports[0], reports[1], reports[2])
	case "planted":
		planted(out, reports[0], plantedNs)
	}
	return out, nil
}

// printRate prints a report's matched rate, for a script that repeats it.
func printRate(path string, stdout, stderr io.Writer) int {
	r, err := read(path)
	if err == nil && r.Matched.RateHz == nil {
		err = fmt.Errorf("%s has no matched rate: %s", path, r.Matched.Reason)
	}
	if err != nil {
		fmt.Fprintln(stderr, "democheck:", err)
		return 2
	}
	fmt.Fprintf(stdout, "%.10g\n", *r.Matched.RateHz)
	return 0
}

func read(path string) (*report.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return r, nil
}

// parse reads what `rung demo --json` prints.
func parse(from io.Reader) (*report.Report, error) {
	var r report.Report
	dec := json.NewDecoder(from)
	if err := dec.Decode(&r); err != nil {
		return nil, err
	}
	if r.SchemaVersion != report.SchemaVersion {
		return nil, fmt.Errorf("schemaVersion is %d, this program reads %d", r.SchemaVersion, report.SchemaVersion)
	}
	return &r, nil
}

// results collects assertions, in the order in which they were made.
type results struct {
	lines  []string
	failed int
}

// that records one assertion about a figure.
func (r *results) that(ok bool, format string, args ...any) {
	word := "ok  "
	if !ok {
		word = "FAIL"
		r.failed++
	}
	r.lines = append(r.lines, word+" "+fmt.Sprintf(format, args...))
}

// print answers how many failed.
func (r *results) print(w io.Writer) int {
	for _, line := range r.lines {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", len(r.lines)-r.failed, r.failed)
	return r.failed
}
