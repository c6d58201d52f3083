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
		Samples: 40,
		Layers:  map[string]float64{"syscalls": 0.625, "interrupt": 0.125, "codec": 0.125, "missing stack": 0.125},
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-12)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const line = "rest-h1: 40 samples, syscalls 62.5 %, codec 12.5 %, interrupt 12.5 %, missing stack 12.5 %"
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
	arm := func(share, samples float64) map[string]Shares {
		return map[string]Shares{"a": {Layers: map[string]float64{"interrupt": share}, Samples: samples}}
	}
	for _, c := range []struct {
		a, b map[string]Shares
		want string
	}{
		{arm(0.20, 5000), arm(0.22, 5000), ""},
		{arm(0.20, 5000), arm(0.27, 5000), "more than 6.0 points"},
		{arm(0.50, 100), arm(0.80, 100), ""}, // too few samples to tell
		{arm(0.02, 1e6), arm(0.06, 1e6), ""},
		{arm(0.10, 1e6), arm(0.16, 1e6), "more than 5.0 points"},
		{arm(0.10, 1000), arm(0, 1000), "interrupt is 10.0 % and 0.0 %"}, // what hidden symbols would do
		{arm(0, 1000), arm(0, 1000), "interrupt is 0.0 % and 0.0 %"},
		{arm(0.1, 1000), nil, "in one demo only"},
	} {
		err := Alike("interrupt", c.a, c.b)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Alike(%v, %v) = %v, want %q", c.a, c.b, err, c.want)
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
