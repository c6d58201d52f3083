//go:build linux

package suite

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rungprof/rung/bpf"
)

func TestParseSchedstat(t *testing.T) {
	if r, err := parseSchedstat([]byte("105893427 2105411 351\n")); err != nil || r.runNs != 105893427 || r.waitNs != 2105411 || r.runs != 351 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, bad := range []string{"", "1 2", "1 2 3 4", "1 -2 3", "a b c", "99999999999999999999 1 1"} {
		if _, err := parseSchedstat([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestStateOf(t *testing.T) {
	for text, want := range map[string]byte{"71 (name) S 1 2": 'S', "71 (a) R (b)) T 1": 'T', "71 (x": 0, "": 0, "71 (x) ": 0} {
		if got := stateOf([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestParseHz(t *testing.T) {
	for text, want := range map[string]int{
		"# CONFIG_HZ_100 is not set\nCONFIG_HZ_250=y\nCONFIG_HZ=250\n": 250,
		"CONFIG_HZ_1000=y\n": 0, "CONFIG_HZ=x\n": 0, "CONFIG_HZ=0\n": 0, "": 0,
	} {
		if got := parseHz(strings.NewReader(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestParseStolen(t *testing.T) {
	if ns, err := parseStolen([]byte("cpu  1 2 3 4 5 6 7 463 0 0\ncpu0 1 1 1 1 1 1 1 9\n")); err != nil || ns != 463e7 {
		t.Errorf("%v, %v", ns, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "intr 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7 x 0 0"} {
		if _, err := parseStolen([]byte(bad)); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestParseCPUStat(t *testing.T) {
	for text, want := range map[string][2]uint64{
		"nr_periods 9\nnr_throttled 7\nthrottled_time 123\nnr_bursts 0\n":             {7, 123},
		"usage_usec 5\nuser_usec 5\nnr_periods 9\nnr_throttled 7\nthrottled_usec 5\n": {7, 5000},
	} {
		if times, ns, err := parseCPUStat(text); err != nil || times != want[0] || ns != want[1] {
			t.Errorf("%q: %d, %d, %v", text, times, ns, err)
		}
	}
	for _, bad := range []string{"", "nr_throttled 7\n", "nr_throttled x\nthrottled_usec 1\n", "usage_usec 5\n"} {
		if _, _, err := parseCPUStat(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// The CPU clock at an instant between two stamps lies within what both allow.
func TestCPUBetween(t *testing.T) {
	log := []stamp{{1000, 100}, {1100, 200}, {1300, 210}, {1400, 310}}
	for _, c := range []struct {
		at        bpf.MonoNs
		low, high float64
		ok        bool
	}{
		{1050, 150, 150, true}, // it ran all the time
		{1200, 200, 210, true}, // it ran for 10 of 200, before or after
		{1295, 205, 210, true},
		{999, 0, 0, false},
		{1401, 0, 0, false},
	} {
		if low, high, ok := cpuAt(log, c.at); low != c.low || high != c.high || ok != c.ok {
			t.Errorf("at %d: %v to %v, %v; want %v to %v, %v", c.at, low, high, ok, c.low, c.high, c.ok)
		}
	}
	if low, high, ok := cpuBetween(log, 1050, 1200); !ok || low != 50 || high != 60 {
		t.Errorf("from 1050 to 1200: %v to %v, %v", low, high, ok)
	}
	if _, _, ok := cpuBetween(log, 1050, 1500); ok {
		t.Error("an edge after the end of the log was accepted")
	}
}

func TestPardon(t *testing.T) {
	for _, c := range []struct {
		in, out uint64
		want    float64
	}{{0, 0, 0}, {1, 0, 25e6}, {175, 0, 100e6}, {0, 1, 3e9}, {1, 9, 25e6 + 12e9}} {
		if got := pardon(c.in, c.out, 3e9); got != c.want {
			t.Errorf("%d in and %d out: %v, want %v", c.in, c.out, got, c.want)
		}
	}
}

func TestSelectCases(t *testing.T) {
	all := cases()
	seen := map[string]bool{}
	for _, c := range all {
		if seen[c.name] {
			t.Errorf("two cases are called %s", c.name)
		}
		seen[c.name] = true
	}
	short, err := selectCases(all, Options{Short: true})
	if err != nil || len(short) >= len(all) {
		t.Errorf("the short form has %d of %d cases, %v", len(short), len(all), err)
	}
	if got, err := selectCases(all, Options{Only: regexp.MustCompile("^quota")}); err != nil || len(got) != 3 {
		t.Errorf("%d quota cases, %v", len(got), err)
	}
	if _, err := selectCases(all, Options{Only: regexp.MustCompile("nothing")}); err == nil || !strings.Contains(err.Error(), "spinners-2") {
		t.Errorf("no case selected: %v", err)
	}
}

// A case out of bounds runs twice, and its figures say so; one that is late
// begins anew; one without a figure is an error.
func TestTryCase(t *testing.T) {
	figure := func(account float64, note string) Figure { return newFigure("x", "ms", 1, account, -1, 1, note) }
	runs := 0
	got, err := tryCase(t.Context(), testCase{"c", false, func(a *attempt) error {
		if runs++; runs == 1 {
			return errLate
		}
		a.later(func() error { return nil })
		a.add(figure(map[bool]float64{false: 5, true: 2}[a.second], "seen"))
		return nil
	}}, attempt{})
	if err != nil || runs != 3 || len(got) != 1 || !got[0].OK || got[0].Name != "c: x" || got[0].Case != "c" ||
		got[0].Detail != "seen; second try; first: error +4 ms, bound -1…+1, seen" {
		t.Errorf("%d runs: %+v, %v", runs, got, err)
	}
	if _, err := tryCase(t.Context(), testCase{"c", false, func(*attempt) error { return nil }}, attempt{}); err == nil {
		t.Error("a case without a figure was accepted")
	}
	if _, err := tryCase(t.Context(), testCase{"c", false, func(*attempt) error { return errLate }}, attempt{}); err == nil {
		t.Error("a case that is always late was accepted")
	}
}
