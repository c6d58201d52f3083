package gate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleLog = `=== RUN   TestSplit
    profiler_test.go:222: 2387 samples
--- PASS: TestSplit (4.82s)
=== RUN   TestWaits
=== RUN   TestWaits/pipe
=== RUN   TestWaits/futex
--- FAIL: TestWaits (2.49s)
    --- PASS: TestWaits/pipe (1.00s)
    --- FAIL: TestWaits/futex (1.49s)
=== RUN   TestLoad
    profiler_test.go:20: kernel test: no BTF; --- FAIL: not a result
--- SKIP: TestLoad (0.00s)
FAIL
`

func TestParseTestLog(t *testing.T) {
	got, err := ParseTestLog(strings.NewReader(sampleLog))
	if err != nil {
		t.Fatal(err)
	}
	want := TestLog{
		Passed:  []string{"TestSplit", "TestWaits/pipe"},
		Failed:  []string{"TestWaits", "TestWaits/futex"},
		Skipped: []string{"TestLoad"},
		Ended:   true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestVerdict(t *testing.T) {
	for text, want := range map[string]string{
		"--- PASS: TestA (0.1s)\nPASS\n": "",
		sampleLog:                        "2 tests failed: TestWaits, TestWaits/futex",
		"--- PASS: TestA (0.1s)\n--- SKIP: TestB (0.0s)\nPASS\n": "1 tests were skipped, which counts as failed here: TestB",
		"testing: warning: no tests to run\nPASS\n":              "no test ran",
		"": "the run broke off after 0 passed tests",
		"--- PASS: TestA (0.1s)\n=== RUN   TestB\nfatal error: all go ": "the run broke off after 1 passed tests",
	} {
		log, err := ParseTestLog(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := log.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func FuzzParseTestLog(f *testing.F) {
	f.Add(sampleLog)
	f.Add("--- PASS: \n--- FAIL: x (")
	f.Fuzz(func(t *testing.T, text string) {
		log, err := ParseTestLog(strings.NewReader(text))
		if err == nil && log.Err() == nil && !strings.Contains(text, "--- PASS: ") {
			t.Fatalf("%q counts as passed", text)
		}
	})
}
