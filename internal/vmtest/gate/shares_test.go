package gate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const sampleReport = `{"schemaVersion": 1, "arms": [{"name": "rest-h1", "steps": [
 {"name": "00", "warmup": true},
 {"name": "01", "offeredHz": 50, "layers": {"charge": "leaf", "samples": 30, "sampledNs": 3000, "rows": [
   {"layer": "syscalls", "sampledNs": 1500}, {"layer": "interrupt", "sampledNs": 500}, {"layer": "codec", "sampledNs": 500}],
   "unattributed": [{"layer": "missing stack", "sampledNs": 500}]}},
 {"name": "02", "layers": {"samples": 10, "sampledNs": 1000, "rows": [{"layer": "syscalls", "sampledNs": 1000}]}}
]}]}`

func TestParseReport(t *testing.T) {
	got, err := ParseReport([]byte(sampleReport))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Shares{"rest-h1": {
		Samples:      40,
		Layers:       map[string]float64{"syscalls": 0.625, "interrupt": 0.125, "codec": 0.125},
		Unattributed: 0.125,
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const line = "rest-h1: 40 samples, syscalls 62.5 %, codec 12.5 %, interrupt 12.5 %, unattributed 12.5 %"
	if text := Describe(got); text != line {
		t.Errorf("got  %s\nwant %s", text, line)
	}
	for text, want := range map[string]string{
		"":             "end of JSON",
		`{"arms": []}`: "no arm",
		`{"arms": [{"name": "a", "steps": [{"name": "01"}]}]}`:                                               "a, step 01 has no layers",
		`{"arms": [{"name": "a", "steps": [{"name": "00", "warmup": true}]}]}`:                               "a has no sample",
		`{"arms": [{"name": "a", "steps": [{"name": "01", "layers": {"samples": 0, "sampledNs": 0}}]}]}`:     "a has no sample",
		`{"arms": [{"name": "a", "steps": [{"name": "01", "layers": {"samples": "3", "sampledNs": "x"}}]}]}`: "cannot unmarshal",
	} {
		if got, err := ParseReport([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseReport(%s) = %v, %v; want an error with %q", text, got, err, want)
		}
	}
}

func TestAlike(t *testing.T) {
	arm := func(interrupt, syscalls, other, unattributed float64) map[string]Shares {
		return map[string]Shares{"a": {
			Layers:       map[string]float64{"interrupt": interrupt, "syscalls": syscalls, "other": other},
			Unattributed: unattributed, Samples: 1000,
		}}
	}
	usual := arm(0.15, 0.55, 0.01, 0.01)
	for _, c := range []struct {
		b    map[string]Shares
		want string
	}{
		{usual, ""},
		{arm(0.30, 0.45, 0, 0), ""},
		{arm(0, 0.70, 0, 0), "a: interrupt is 15.0 % and 0.0 %"}, // what hidden symbols would do
		{arm(0.009, 0.55, 0, 0), "a: interrupt is 15.0 % and 0.9 %"},
		{arm(0.40, 0.20, 0, 0), "a: interrupt is 15.0 % and 40.0 %; a: syscalls is 55.0 % and 20.0 %"},
		{arm(0.15, 0.50, 0.03, 0.03), "a: 2.0 % and 6.0 % are in no layer"},
		{nil, "a is in one demo only"},
	} {
		got := ""
		if err := Alike([]string{"interrupt", "syscalls"}, usual, c.b); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("against %v: got %q, want %q", c.b, got, c.want)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add([]byte(sampleReport))
	f.Fuzz(func(t *testing.T, data []byte) {
		arms, err := ParseReport(data)
		if err != nil && arms != nil {
			t.Fatal("error and value")
		}
		for name, s := range arms {
			if !(s.Samples >= 1) {
				t.Fatal(fmt.Sprint(name, s))
			}
		}
	})
}
