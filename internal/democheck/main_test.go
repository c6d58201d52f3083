package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
	"github.com/rungprof/rung/report"
)

// sound is a report of which everything is true.
func sound() *report.Report {
	rate := 600.0
	r := &report.Report{SchemaVersion: report.SchemaVersion, Matched: report.Matched{RateHz: &rate}}
	for _, name := range []string{"rest-h1", "rest-h2c", "grpc-unary", "grpc-stream", "loop"} {
		next := 1000.0
		a := report.Arm{Name: name, Reading: ladder.Reading{Knee: &ladder.Knee{OfferedHz: 800, NextHz: &next, Why: "overflow 9 %"}}}
		for i, hz := range []float64{600, 500, 600, 800, 1000} {
			s := report.Step{Step: ladder.Step{Index: i, Name: fmt.Sprintf("%02d-%g", i, hz), OfferedHz: hz, Warmup: i == 0}}
			t := table(0.1)
			s.Layers, s.Account = &t, account()
			for _, check := range judged {
				bound := 1.0
				s.Checks = append(s.Checks, attribution.Check{Name: check, Bound: &bound, OK: true})
			}
			a.Steps = append(a.Steps, s)
		}
		r.Arms = append(r.Arms, a)
		cost := map[string]float64{"grpc-unary": 0.2, "loop": 0}[name]
		if cost == 0 {
			cost = 0.1
		}
		if name != "loop" {
			r.Matched.Columns = append(r.Matched.Columns, report.MatchedArm{Arm: name, Step: "02-600", Table: table(cost)})
		}
	}
	return r
}

// table has 40 % codec, 58 % runtime and 2 % other, at the given ms per request.
func table(ms float64) attribution.Table {
	t := attribution.Table{TotalNs: 1000, SampledNs: 1000, Samples: 100, MsPerRequest: &ms,
		Residual: &attribution.Residual{UsageNs: 1010, ChargedNs: 1000, Ns: 10}}
	for _, l := range []struct {
		layer string
		part  int64
	}{{"runtime", 58}, {layerCodec, 40}, {layerOther, 2}} {
		share := float64(l.part) / 100
		t.Rows = append(t.Rows, attribution.Row{Layer: l.layer, Samples: l.part, SampledNs: 10 * l.part, Ns: 10 * l.part,
			Share: estimate(share, 0.1*share), MsPerRequest: ptr(estimate(ms*share, 0.1*ms*share))})
	}
	return t
}

func estimate(v, half float64) attribution.Estimate {
	return attribution.Estimate{Value: v, Interval: &attribution.Interval{Lo: v - half, Hi: v + half}}
}

func account() *attribution.Account {
	row := attribution.AccountRow{Group: "g", Threads: 2}
	row.Lifetime.Ns, row.OnCPU.Ns, row.RunQueue.Ns, row.BlockedTotal.Ns, row.Idle.Ns = 100, 40, 10, 20, 30
	row.Blocked = []attribution.ReasonRow{{Reason: "read", Time: attribution.ThreadTime{Ns: 20}}}
	return &attribution.Account{Groups: []attribution.AccountRow{row}, Total: row}
}

func ptr[T any](v T) *T { return &v }

func TestWhole(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*report.Report)
		want   string // a line that must fail; "": none does
	}{
		{"sound", func(*report.Report) {}, ""},
		{"arm missing", func(r *report.Report) { r.Arms = r.Arms[:4] }, "loop: not in the report"},
		{"void step", func(r *report.Report) { r.Arms[0].Steps[1].Flags = []ladder.Flag{{Kind: ladder.FlagVoid}} }, "rest-h1 01-500: measured"},
		{"void warm-up", func(r *report.Report) { r.Arms[0].Steps[0].Flags = []ladder.Flag{{Kind: ladder.FlagVoid}} }, ""},
		{"no record", func(r *report.Report) { r.Arms[4].Steps[1].Flags = []ladder.Flag{{Kind: ladder.FlagAgentMissing}} }, "loop 01-500: measured"},
		{"too few steps", func(r *report.Report) { r.Arms[1].Steps = r.Arms[1].Steps[:4] }, "rest-h2c: 3 steps"},
		{"below the knee", func(r *report.Report) { r.Arms[2].Reading.Knee.NextHz = nil }, "grpc-unary: the ladder rises past its knee"},
		{"closure broken", func(r *report.Report) { r.Arms[0].Steps[2].Checks[0].OK = false }, "rest-h1 02-600: " + attribution.CheckClosure},
		{"schedstat absent", func(r *report.Report) { r.Arms[4].Steps[1].Checks[1].Absent = "not read" }, "loop 01-500: " + attribution.CheckSchedstatRun},
		{"check unjudged", func(r *report.Report) { r.Arms[0].Steps[2].Checks[2].Bound = nil }, attribution.CheckSchedstatWait},
		{"check left out", func(r *report.Report) { r.Arms[0].Steps[2].Checks = r.Arms[0].Steps[2].Checks[:3] }, "no such check"},
		{"no layers", func(r *report.Report) { r.Arms[0].Steps[2].Layers = nil }, "rest-h1 02-600: has layers"},
		{"rows short", func(r *report.Report) { r.Arms[0].Steps[2].Layers.Rows[0].Ns-- }, "the layers add up: Σ rows is 999 ns"},
		{"residual wrong", func(r *report.Report) { r.Arms[0].Steps[2].Layers.Residual.Ns++ }, "the residual is 11 ns"},
		{"account leaks", func(r *report.Report) { r.Arms[0].Steps[2].Account.Groups[0].OnCPU.Ns++ }, "the account adds up: g: lifetime"},
		{"groups short", func(r *report.Report) { r.Arms[0].Steps[2].Account.Groups[0].Threads++ }, "do not add up to the total"},
		{"much other", func(r *report.Report) { r.Arms[3].Steps[4].Layers.Rows[2].Share.Value = 0.05 }, "grpc-stream 04-1000: other is 5.00 %"},
		{"much other in loop", func(r *report.Report) {
			r.Arms[4].Steps[4].Layers.Rows[2].Share.Value += 0.1
			r.Arms[4].Steps[4].Layers.Rows[1].Share.Value -= 0.1
		}, "loop 04-1000: other is 12.00 %"},
		{"no matched rate", func(r *report.Report) { r.Matched.RateHz = nil }, "a matched rate"},
		{"matched above a knee", func(r *report.Report) { r.Arms[0].Reading.Knee.OfferedHz = 500 }, "rest-h1: the matched rate 600/s is not above its knee"},
		{"column missing", func(r *report.Report) {
			r.Matched.Columns = r.Matched.Columns[1:]
			r.Matched.Excluded = []ladder.ExcludedArm{{Arm: "rest-h1", Reason: "void"}}
		}, "(excluded: void)"},
		{"codec within its interval", func(r *report.Report) { r.Matched.Columns[1].Table.Rows[1].Share.Interval.Lo = -0.1 }, "rest-h2c: codec stands above"},
		{"codec too few", func(r *report.Report) { r.Matched.Columns[0].Table.Rows[1].TooFew = "3 samples" }, "rest-h1: codec stands above"},
		{"stream dearer", func(r *report.Report) { *r.Matched.Columns[3].Table.MsPerRequest = 0.21 }, "a message of grpc-stream (0.2100 ms)"},
	} {
		r := sound()
		c.change(r)
		var out results
		whole(&out, r, nil)
		want(t, c.name, &out, c.want)
	}
}

// One report in which the stream is dearer is outvoted by the repeats, on
// average; repeats of another rate are no repeats.
func TestStreamCheaper(t *testing.T) {
	dearer := func(ms float64) *report.Report {
		r := sound()
		*r.Matched.Columns[3].Table.MsPerRequest = ms
		return r
	}
	another := sound()
	*another.Matched.RateHz = 601
	for _, c := range []struct {
		name    string
		reports []*report.Report
		want    string
	}{
		{"one, sound", []*report.Report{sound()}, ""},
		{"one, dearer", []*report.Report{dearer(0.21)}, "a message of grpc-stream (0.2100 ms)"},
		{"outvoted", []*report.Report{dearer(0.21), sound(), sound()}, ""},
		{"not outvoted", []*report.Report{dearer(0.5), sound(), sound()}, "mean of 3"},
		{"another rate", []*report.Report{sound(), another}, "one matched rate"},
		{"no figures", []*report.Report{sound(), {}}, "have figures per request"},
	} {
		var out results
		streamCheaper(&out, c.reports)
		want(t, c.name, &out, c.want)
	}
}

func TestDoubled(t *testing.T) {
	// Codec costs 0.04 ms in the base; each added step costs 0.1 ms.
	added := func(steps float64) *report.Report {
		r := sound()
		for i := range r.Matched.Columns {
			row := &r.Matched.Columns[i].Table.Rows[1]
			row.MsPerRequest = ptr(estimate(row.MsPerRequest.Value+0.1*steps, 0.004))
		}
		return r
	}
	for _, c := range []struct {
		name   string
		change func(once, twice *report.Report)
		want   string
	}{
		{"true", func(_, _ *report.Report) {}, ""},
		{"codec did not double", func(_, twice *report.Report) { twice.Matched.Columns[0].Table.Rows[1].MsPerRequest.Value -= 0.05 },
			"rest-h1: twice the added passes"},
		{"nothing was added", func(once, twice *report.Report) {
			for _, r := range []*report.Report{once, twice} {
				r.Matched.Columns[1].Table.Rows[1] = table(0.1).Rows[1]
			}
		}, "rest-h2c: twice the added passes"},
		{"another layer moved", func(_, twice *report.Report) { twice.Matched.Columns[0].Table.Rows[0].MsPerRequest.Value += 0.06 },
			"rest-h1: runtime is not moved"},
		{"no interval", func(_, twice *report.Report) { twice.Matched.Columns[2].Table.Rows[0].MsPerRequest.Interval = nil },
			"grpc-unary: runtime"},
		{"no figures", func(once, _ *report.Report) { once.Matched.Columns[2].Table.Rows[1].MsPerRequest = nil },
			"grpc-unary: codec has figures"},
		{"arm missing", func(once, _ *report.Report) { once.Matched.Columns = once.Matched.Columns[:3] }, "grpc-stream: in all three"},
	} {
		once, twice := added(1), added(2)
		c.change(once, twice)
		var out results
		doubled(&out, added(0), once, twice)
		want(t, c.name, &out, c.want)
	}
	var out results
	doubled(&out, &report.Report{}, &report.Report{}, &report.Report{})
	want(t, "nothing compared", &out, "0 arms compared")
}

func TestPlanted(t *testing.T) {
	plant := func() *report.Report {
		r := sound()
		r.Matched.Columns = r.Matched.Columns[:1]
		row := &r.Matched.Columns[0].Table.Rows[2]
		row.MsPerRequest = ptr(estimate(0.05, 0.002))
		row.Functions = []attribution.Function{{Name: plantedFunction, Ns: 19}}
		return r
	}
	for _, c := range []struct {
		name   string
		change func(*report.Report)
		want   string
	}{
		{"true", func(*report.Report) {}, ""},
		{"too little", func(r *report.Report) { r.Matched.Columns[0].Table.Rows[2].MsPerRequest.Value = 0.03 }, "other holds the planted"},
		{"another function", func(r *report.Report) { r.Matched.Columns[0].Table.Rows[2].Functions[0].Name = "x" }, "other is " + plantedFunction},
		{"not all of it", func(r *report.Report) { r.Matched.Columns[0].Table.Rows[2].Functions[0].Ns = 17 }, "other is " + plantedFunction},
		{"no figures", func(r *report.Report) { r.Matched.Columns[0].Table.Rows[2].MsPerRequest = nil }, "has figures per request"},
	} {
		r := plant()
		c.change(r)
		var out results
		planted(&out, r, 50_000)
		want(t, c.name, &out, c.want)
	}
}

// want asserts that exactly one line fails, which has the text, or none for "".
func want(t *testing.T, name string, out *results, text string) {
	t.Helper()
	var failed []string
	for _, line := range out.lines {
		if strings.HasPrefix(line, "FAIL") {
			failed = append(failed, line)
		}
	}
	all := strings.Join(failed, "\n")
	if len(failed) != out.failed || (text == "") != (len(failed) == 0) || !strings.Contains(all, text) {
		t.Errorf("%s: failed %d, want %q in:\n%s", name, out.failed, text, all)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, r *report.Report) string {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", sound())
	broken := sound()
	broken.Arms = nil
	bad := write("bad.json", broken)
	foreign := write("foreign.json", &report.Report{SchemaVersion: 99})
	for _, c := range []struct {
		args []string
		code int
		text string // in either stream
	}{
		{[]string{"whole", good}, 0, "0 failed"},
		{[]string{"whole", good, good}, 0, "mean of 2"},
		{[]string{"rate", good}, 0, "600\n"},
		{[]string{"rate", foreign}, 2, "schemaVersion is 99"},
		{[]string{"whole", bad}, 1, "FAIL loop: not in the report"},
		{[]string{"doubled", good, good, good}, 1, "FAIL rest-h1: twice the added passes"},
		{[]string{"planted", "50000", good}, 1, "FAIL"},
		{[]string{"whole", foreign}, 2, "schemaVersion is 99"},
		{[]string{"whole", filepath.Join(dir, "none.json")}, 2, "none.json"},
		{[]string{"planted", "-1", good}, 2, "above 0"},
		{[]string{"whole"}, 2, "want: rate"},
		{nil, 2, "no check named"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(c.args, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String()+stderr.String(), c.text) {
			t.Errorf("%v: exit %d, want %d with %q\n%s%s", c.args, code, c.code, c.text, &stdout, &stderr)
		}
	}
}
