// Package gate judges what the gate's payloads print: whether kernel tests
// really ran, and whether two demos saw the same layers. It runs nothing.
package gate

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// TestLog is what a verbose test run says, subtests included.
type TestLog struct {
	Passed, Failed, Skipped []string
	// Ended: the last line of a complete run, PASS or FAIL, was there.
	Ended bool
}

// ParseTestLog reads the output of a test binary run with -test.v:
//
//	=== RUN   TestLoad
//	    load_test.go:12: kernel test: no BTF
//	--- SKIP: TestLoad (0.01s)
//	    --- PASS: TestTable/row (0.00s)
//	PASS
func ParseTestLog(r io.Reader) (TestLog, error) {
	var log TestLog
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "PASS" || line == "FAIL" {
			log.Ended = true
			continue
		}
		result, ok := strings.CutPrefix(strings.TrimLeft(line, " "), "--- ")
		if !ok {
			continue
		}
		verdict, rest, ok := strings.Cut(result, ": ")
		name, _, hasTime := strings.Cut(rest, " (")
		if !ok || !hasTime {
			continue
		}
		switch verdict {
		case "PASS":
			log.Passed = append(log.Passed, name)
		case "FAIL":
			log.Failed = append(log.Failed, name)
		case "SKIP":
			log.Skipped = append(log.Skipped, name)
		}
	}
	if err := lines.Err(); err != nil {
		return TestLog{}, fmt.Errorf("read test output: %w", err)
	}
	return log, nil
}

// Err says why the run does not count: a test failed, one was skipped, none
// ran, or the run did not end. Where support must exist, a skip is a failure.
func (l TestLog) Err() error {
	switch {
	case len(l.Failed) > 0:
		return fmt.Errorf("%d tests failed: %s", len(l.Failed), strings.Join(l.Failed, ", "))
	case len(l.Skipped) > 0:
		return fmt.Errorf("%d tests were skipped, which counts as failed here: %s", len(l.Skipped), strings.Join(l.Skipped, ", "))
	case !l.Ended:
		return fmt.Errorf("the run broke off after %d passed tests", len(l.Passed))
	case len(l.Passed) == 0:
		return fmt.Errorf("no test ran")
	}
	return nil
}
