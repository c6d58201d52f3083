//go:build linux

package suite

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/rungprof/rung/bpf"
)

func TestMain(m *testing.M) {
	Workload()
	os.Exit(m.Run())
}

// Two small cases, for real: the suite itself works, as a library.
func TestRun(t *testing.T) {
	var each int
	figures, err := Run(t.Context(), Options{Short: true, Only: regexp.MustCompile("^(threads-10|parked)$"), Each: func(Figure) { each++ }})
	var missing *bpf.MissingError
	if errors.As(err, &missing) {
		t.Skipf("kernel test: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) < 10 || each != len(figures) {
		t.Errorf("%d figures, %d told", len(figures), each)
	}
	for _, f := range figures {
		if !f.OK {
			t.Errorf("%s", f)
		}
	}
}
