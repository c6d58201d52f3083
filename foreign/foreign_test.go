package foreign

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, text string, o Options) Log {
	t.Helper()
	log, err := Parse(strings.NewReader(text), o)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// want is a result in one line: delivered, sent, overflow, seconds, offered,
// quantiles; "-" is absent.
func brief(r *Result) string {
	if r == nil {
		return "none"
	}
	count := func(n *uint64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	figure := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%.6g", *v)
	}
	return fmt.Sprintf("%s %s/%s over %s in %s at %s, %s %s %s %s %s, errors %v deferred %v", r.Tool, count(r.Delivered), count(r.Sent), count(r.Overflow),
		figure(r.Seconds), figure(r.OfferedHz), figure(r.P50Ms), figure(r.P90Ms), figure(r.P99Ms), figure(r.P999Ms), figure(r.MaxMs), r.Errors, r.Deferred)
}

// TestResults: one result of each form.
func TestResults(t *testing.T) {
	for file, want := range map[string]string{
		"nighthawk.json":      "nighthawk 118800/119100 over 1200 in 110 at 1200, 1.5 2.5 12.5 90 120.5, errors map[http_5xx:276 stream_resets:24] deferred map[]",
		"nighthawk-grpc.json": "nighthawk 900/1000 over 0 in 10 at -, 2 - 20 - -, errors map[grpc_status.14:60 grpc_status.missing:40] deferred map[stream_deferred:7]",
		"nighthawk.txt":       "nighthawk 50/50 over 3 in 5 at 5, 1.084 1.3 2.118 2.118 2.118, errors map[] deferred map[]",
		"k6-export.json":      "k6 990/1000 over 25 in 10 at -, 3 9 30 - 200, errors map[http_req_failed:10] deferred map[]",
		"k6-handle.json":      "k6 500/500 over 0 in 12.5 at -, 0.5 1 - - 4, errors map[] deferred map[]",
		"k6.txt":              "k6 1652/1671 over 12 in 42.3451 at -, 13.44 18.9 - - 36.87, errors map[http_req_failed:19] deferred map[]",
		"wrk.txt":             "wrk 224/239 over - in 10.0043 at -, 0.25 0.7 5.8 - -, errors map[status:10 timeout:5] deferred map[]",
		"wrk2.txt":            "wrk 60018/60018 over - in 30.006 at -, 1.01 1.57 2.49 3.9 9.8, errors map[] deferred map[]",
	} {
		log := parse(t, testdata(t, file), Options{})
		if len(log.Steps) != 1 || brief(log.Steps[0].Result) != want {
			t.Errorf("%s: %d steps", file, len(log.Steps))
			for _, s := range log.Steps {
				t.Errorf("  %s\nwant %s", brief(s.Result), want)
			}
		}
		if len(log.Notes) > 0 {
			t.Errorf("%s: notes %q", file, log.Notes)
		}
	}
}

// TestLadderLog: a job's log of several steps, with its markers, plain and gzipped.
func TestLadderLog(t *testing.T) {
	text := testdata(t, "ladder.log")
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, text)
	z.Close()
	for name, input := range map[string]string{"plain": text, "gzip": zipped.String()} {
		log := parse(t, input, Options{})
		if len(log.Steps) != 4 {
			t.Fatalf("%s: %d steps, notes %q", name, len(log.Steps), log.Notes)
		}
		warm, first, second, third := log.Steps[0], log.Steps[1], log.Steps[2], log.Steps[3]
		if !warm.Warmup || *warm.OfferedHz != 200 || *warm.Result.Delivered != 5658 {
			t.Errorf("%s: warm-up %+v", name, warm)
		}
		if first.Warmup || first.Start.Unix() != 1788726480 || first.End.Sub(first.Start) != 30*time.Second || *first.UsageNs != 12e9 || *first.ThrottledNs != 3e8 ||
			first.Arm != "rest-h1" || *first.Result.Delivered != 11997 || *first.Seconds() != 30 {
			t.Errorf("%s: first %+v", name, first)
		}
		// The result was printed behind the end of its step; its time is the markers'.
		if *second.Offered() != 800 || second.Result == nil || *second.Result.Delivered != 23100 || *second.Result.Overflow != 900 || *second.Seconds() != 30 {
			t.Errorf("%s: second %+v, %s", name, second, brief(second.Result))
		}
		if third.Result != nil || third.Seconds() != nil {
			t.Errorf("%s: third %+v", name, third)
		}
		want := []string{"line 33: a marker, but its offered rate \"fast\" is no rate above 0 to 1e+09", "line 34: the end of a step that was not begun",
			"1 JSON objects are no result of a known form", "step 4 (1200/s) has markers and no result"}
		if strings.Join(log.Notes, "\n") != strings.Join(want, "\n") {
			t.Errorf("%s: notes\n%s\nwant\n%s", name, strings.Join(log.Notes, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestOwnMarker: a regexp reads what the default cannot.
func TestOwnMarker(t *testing.T) {
	m, err := NewMarker(`^== (?P<edge>begin|stop) of (?P<step>\S+)(?: at (?P<offered>[\d,]+) rps)?(?P<warmup> warmup)?$`)
	if err != nil {
		t.Fatal(err)
	}
	log := parse(t, "== begin of a at 1,200 rps warmup\nbenchmark.http_2xx: 12\n== stop of a\n#NH-STEP start rps=5\n== begin of b\nbenchmark.http_2xx=13\n", Options{Marker: m})
	if len(log.Steps) != 2 || !log.Steps[0].Warmup || *log.Steps[0].OfferedHz != 1200 || log.Steps[0].Name != "a" || *log.Steps[0].Result.Delivered != 12 ||
		log.Steps[1].Name != "b" || *log.Steps[1].Result.Delivered != 13 || len(log.Notes) != 0 {
		t.Errorf("%+v", log)
	}
	for pattern, want := range map[string]string{
		"(": "missing closing", "x": "no named group", "(?P<rps>.)": `no group is named "rps"; want some of edge, offered`,
	} {
		if _, err := NewMarker(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestMarkers(t *testing.T) {
	for line, want := range map[string]string{
		`#NH-STEP start rps=400 at=2026-09-06T20:27:00Z`:                                     "start 400 2026-09-06T20:27:00Z",
		`2026 x #NH-STEP END, step=3`:                                                        "end - -",
		`#NH-STEP {"edge":"EDGE_END","offeredHz":12.5,"x":[1]}`:                              "end 12.5 -",
		`#RUNG-STEP {"edge":"EDGE_START","atWall":"2026-09-06T20:27:00.5Z","offeredHz":"7"}`: "start 7 2026-09-06T20:27:00.5Z",
		`#NH-STEP warmup rps=200 ts=1788726480`:                                              "start 200 2026-09-06T20:28:00Z warm",
		`#NH-STEP begin time=1788726480123`:                                                  "start - 2026-09-06T20:28:00.123Z",
		`#NH-STEP begin t=1788726480123456789`:                                               "start - 2026-09-06T20:28:00.123456789Z",
		`#NH-STEP`:                                                                           "error nothing in it is understood",
		`#NH-STEP {"edge":`:                                                                  "error its JSON",
		`#NH-STEP edge=sideways`:                                                             "error its edge \"sideways\"",
		`#NH-STEP start at=yesterday`:                                                        "error its time \"yesterday\"",
		`#NH-STEP start usage_usec=-1`:                                                       "error its usage_usec \"-1\"",
		`#NH-STEP start rps=1e300`:                                                           "error its offered rate",
		`#NH-STEPS start`:                                                                    "no marker",
	} {
		m, is, err := Marker{}.read(line)
		got := "no marker"
		switch {
		case err != nil:
			got = "error " + err.Error()
		case is:
			got = map[bool]string{true: "start", false: "end"}[m.start]
			if m.offered != nil {
				got += fmt.Sprintf(" %g", *m.offered)
			} else {
				got += " -"
			}
			if m.at.IsZero() {
				got += " -"
			} else {
				got += " " + m.at.Format(time.RFC3339Nano)
			}
			if m.warmup {
				got += " warm"
			}
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// TestSeveralResults: without markers each result is a step, whatever parts them.
func TestSeveralResults(t *testing.T) {
	all := ""
	for _, file := range []string{"nighthawk.json", "nighthawk.txt", "wrk.txt", "k6.txt", "k6-export.json", "nighthawk.txt", "nighthawk.txt", "wrk2.txt", "k6.txt", "k6.txt"} {
		all += testdata(t, file)
	}
	log := parse(t, all, Options{})
	var got []string
	for _, s := range log.Steps {
		got = append(got, string(s.Result.Tool))
	}
	if want := "nighthawk nighthawk wrk k6 k6 nighthawk nighthawk wrk k6 k6"; strings.Join(got, " ") != want {
		t.Errorf("%s, want %s", strings.Join(got, " "), want)
	}
	lines := strings.Split(all, "\n")
	if s := log.Steps[2]; !strings.HasPrefix(lines[s.Result.Line-1], "Running 10s test") {
		t.Errorf("wrk's line is %d: %q", s.Result.Line, lines[s.Result.Line-1])
	}
}

func TestOptions(t *testing.T) {
	o := Options{OK: []string{"benchmark.stream_received"}, Latency: []string{"other"}}
	log := parse(t, "other (3 samples)\n  0.5         2          0s 003ms 000us\nbenchmark.http_2xx  1  1.00\nbenchmark.stream_received  40 4.00\n", o)
	// The histogram's heading alone begins no result; the counters do.
	if len(log.Steps) != 1 || *log.Steps[0].Result.Delivered != 40 || *log.Steps[0].Result.Seconds != 10 {
		t.Errorf("%+v", log.Steps)
	}
	log = parse(t, "benchmark.http_5xx: 3\n", Options{OK: []string{"none"}})
	if r := log.Steps[0].Result; r.Delivered != nil || r.Sent != nil || len(r.Notes) != 1 {
		t.Errorf("%+v", r)
	}
}

// TestLimits: what is too much is refused or told, in bounded time.
func TestLimits(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range MaxBytes>>20 + 1 {
		z.Write(zeros)
	}
	z.Close()
	if _, err := Parse(&b, Options{}); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("a bomb: %v", err)
	}
	if _, err := Parse(strings.NewReader(strings.Repeat("#NH-STEP start rps=1\n", MaxSteps+1)), Options{}); err == nil || !strings.Contains(err.Error(), "steps") {
		t.Errorf("many steps: %v", err)
	}
	if _, err := Parse(strings.NewReader("\x1f\x8bnothing"), Options{}); err == nil || !strings.Contains(err.Error(), "unpack") {
		t.Errorf("no gzip: %v", err)
	}
	began := time.Now()
	log := parse(t, strings.Repeat("{\"a\": [1,\n", 100_000), Options{})
	if took := time.Since(began); took > 20*time.Second || len(log.Steps) != 0 || len(log.Notes) != 1 {
		t.Errorf("objects without an end: %s, notes %q", took, log.Notes)
	}
	if log = parse(t, "benchmark.http_2xx: 1\n"+strings.Repeat("x", maxLine+1)+"\n", Options{}); len(log.Notes) != 1 || len(log.Steps) != 1 {
		t.Errorf("a long line: %+v", log)
	}
	if log = parse(t, strings.Repeat("#NH-STEP\n", 1000), Options{}); len(log.Notes) != maxNotes+1 {
		t.Errorf("%d notes", len(log.Notes))
	}
}

// FuzzParse: error xor log; figures are finite, and not negative.
func FuzzParse(f *testing.F) {
	for _, file := range []string{"nighthawk.json", "nighthawk-grpc.json", "nighthawk.txt", "k6-export.json", "k6-handle.json", "k6.txt", "wrk.txt", "wrk2.txt", "ladder.log"} {
		data, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		log, err := Parse(bytes.NewReader(data), Options{})
		if err != nil && len(log.Steps) > MaxSteps {
			t.Errorf("%d steps and %v", len(log.Steps), err)
		}
		for _, s := range log.Steps {
			figures := []*float64{s.Offered(), s.Seconds()}
			if r := s.Result; r != nil {
				figures = append(figures, r.P50Ms, r.P90Ms, r.P99Ms, r.P999Ms, r.MaxMs)
				if r.Tool == "" || r.Line < 1 {
					t.Errorf("%+v", r)
				}
				if r.Delivered != nil && r.Sent != nil && *r.Delivered > *r.Sent {
					t.Errorf("delivered %d of %d", *r.Delivered, *r.Sent)
				}
			}
			for _, v := range figures {
				if v != nil && !(*v >= 0 && *v <= math.MaxFloat64) {
					t.Errorf("a figure of %v in %+v", *v, s)
				}
			}
			if s.UsageNs != nil && *s.UsageNs < 0 {
				t.Errorf("usage %d", *s.UsageNs)
			}
		}
	})
}
