//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rungprof/rung/bpf"
)

func TestFigures(t *testing.T) {
	b := &bench{ctx: context.Background(), group: "g"}
	b.atMost("under", 1.5, "%", 2, "")
	b.atMost("over", 2.5, "%", 2, strings.Repeat("words of a note that is long ", 9))
	b.judge("none", math.NaN(), "×", "1", true, "0 of 0")
	b.missing("absent", "ms", "≤ 1", errors.New("no such thing"))
	b.state(strings.Repeat("a name longer than its column ", 2), 0, "", "")
	b.absent("a peer", "%", errors.New("absent: no perf"))
	path := filepath.Join(t.TempDir(), "new", "account.json")
	if err := writeJSON(path, b.figures); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(text, &list); err != nil || len(list) != 6 {
		t.Fatalf("%v: %s", err, text)
	}
	for i, want := range []struct {
		ok, valued bool
	}{{true, true}, {false, true}, {false, false}, {false, false}, {true, true}, {true, false}} {
		_, valued := list[i]["value"]
		if list[i]["ok"] != want.ok || valued != want.valued || list[i]["name"] == nil || list[i]["unit"] == nil || list[i]["goal"] == nil {
			t.Errorf("figure %d: %v, want %+v", i, list[i], want)
		}
	}
	var out strings.Builder
	printTable(&out, b.figures)
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > tableWidth {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if got := out.String(); strings.Count(got, "MISS") != 3 || strings.Count(got, "\nok ") != 1 || !strings.Contains(got, "no such thing") {
		t.Errorf("%s", got)
	}
}

func TestReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 12345: "12345", 0.12345: "0.1235", 1234.5: "1234", -0.012345: "-0.01235", 1e-12: "0.000000000"} {
		if got := readable(v); got != want {
			t.Errorf("%g: %q, want %q", v, got, want)
		}
	}
}

func TestBinomialP(t *testing.T) {
	for _, c := range []struct {
		k, n int
		want float64
	}{{200, 200, 7.0e-5}, {190, 200, 1}, {180, 200, 0.0053}, {0, 1, 0.1}} {
		if got := binomialP(c.k, c.n, 0.95); math.Abs(got-c.want) > 0.03*c.want+1e-6 {
			t.Errorf("%d of %d: p = %.5f, want %.5f", c.k, c.n, got, c.want)
		}
	}
}

func TestMedianInterval(t *testing.T) {
	sorted := make([]float64, 40)
	for i := range sorted {
		sorted[i] = float64(i)
	}
	// The ranks that a table of the sign test gives for 40: 14th and 27th.
	if lo, hi := medianInterval(sorted); lo != 13 || hi != 26 {
		t.Errorf("%v to %v", lo, hi)
	}
	if lo, hi := medianInterval(sorted[:3]); lo != 0 || hi != 2 {
		t.Errorf("of three: %v to %v", lo, hi)
	}
}

func TestLoss(t *testing.T) {
	c := comparison{names: []string{"off", "on"}, rounds: [][]float64{{98, 100}, {99, 100}, {97, 100}}}
	if median, lo, hi := c.loss(1); math.Abs(median-2) > 1e-9 || math.Abs(lo-1) > 1e-9 || math.Abs(hi-3) > 1e-9 {
		t.Errorf("%v, %v to %v", median, lo, hi)
	}
}

func TestJudgeLoss(t *testing.T) {
	b := &bench{group: "loss"}
	b.judgeLoss(bpf.Counters{"stack_failed": 3}, bpf.Counters{"stack_failed": 3, "switch_in_missed": 7}, 10_005, 10_000, "")
	if f := b.figures; !f[0].OK || *f[0].Value != 0 || *f[1].Value != 7 || !f[2].OK {
		t.Errorf("%+v", f)
	}
	b.figures = nil
	b.judgeLoss(bpf.Counters{}, bpf.Counters{"stratum_lost": 1}, 9_000, 10_000, "")
	if f := b.figures; f[0].OK || f[2].OK {
		t.Errorf("%+v", f)
	}
}

func TestPeerAnswers(t *testing.T) {
	const offcputime = "\n    #0  0xffffffff schedule+0x1\n    -                worker (41)\n        120\n\n    -                other (4)\n        7\n\n    -                worker (41)\n        30\n"
	if v, err := offcputimeTotal(offcputime, "", 41); err != nil || math.Abs(v-150e-6) > 1e-12 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := bpftraceTotal("Attaching\n\n@total[4]: 7\n@total[41]: 1500000000\n", "", 41); err != nil || v != 1.5 {
		t.Errorf("%v, %v", v, err)
	}
	for _, f := range []func(output, file string, tid uint32) (float64, error){offcputimeTotal, bpftraceTotal} {
		if v, err := f(offcputime, "", 1); err == nil {
			t.Errorf("%v of a thread that is not there", v)
		}
	}
	none := peer{tools: []string{"no-such-tool-here"}}
	if _, err := none.path(); err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("%v", err)
	}
}

func TestRunRefuses(t *testing.T) {
	for _, args := range [][]string{nil, {"other"}, {"account", "--only", "("}, {"account", "more"}, {"account", "--none"}} {
		var out, log strings.Builder
		if code := run(context.Background(), args, &out, &log); code != 2 || log.Len() == 0 || out.Len() != 0 {
			t.Errorf("%q: exit code %d, %q", args, code, log.String())
		}
	}
}

// One group for real, briefly: the loop, the kernel side and the agent work
// together, and the figures are there.
func TestRunCharged(t *testing.T) {
	p, err := bpf.Load(bpf.Options{RateHz: 199})
	var missing *bpf.MissingError
	if errors.As(err, &missing) {
		t.Skipf("the kernel side cannot be loaded here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	var out, log strings.Builder
	dir := t.TempDir()
	if code := run(context.Background(), []string{"account", "--quick", "--only", "charged", "--output", dir}, &out, &log); code != 0 {
		t.Fatalf("exit code %d: %s%s", code, log.String(), out.String())
	}
	t.Log(out.String())
	if !strings.Contains(out.String(), "charged/sum over threads less usage") || strings.Contains(out.String(), "not here") {
		t.Error("the figure is missing")
	}
	if _, err := os.Stat(filepath.Join(dir, "account.json")); err != nil {
		t.Error(err)
	}
}
