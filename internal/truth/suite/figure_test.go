package suite

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func TestFigureBounds(t *testing.T) {
	for _, c := range []struct {
		truth, account, low, high float64
		ok                        bool
	}{
		{100, 100, 0, 0, true},
		{100, 101, 0, 0, false},
		{100, 101, -1, 1, true},
		{100, 98.9, -1, 1, false},
		{100, 1e9, -1, math.Inf(1), true},
		{100, 98, -1, math.Inf(1), false},
		{math.NaN(), 1, -1, 1, false},
	} {
		if f := newFigure("x", "ms", c.truth, c.account, c.low, c.high, ""); f.OK != c.ok {
			t.Errorf("truth %v, account %v in %v…%v: ok %v", c.truth, c.account, c.low, c.high, f.OK)
		}
	}
}

func TestFigureLine(t *testing.T) {
	f := newFigure("run-queue wait", "ms", 1000, 999.5, -2.25, math.Inf(1), "mean -5 ns")
	f.Case = "spinners-2"
	want := "ok   spinners-2         run-queue wait                 truth 1000  account 999.5  error -0.5 ms  bound -2.25…+Inf  (mean -5 ns)"
	if got := f.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if f.Goal != "-2.25 to +Inf ms" {
		t.Errorf("goal %q", f.Goal)
	}
	f.OK = false
	if got := f.String(); !strings.HasPrefix(got, "FAIL spinners-2 ") {
		t.Errorf("a broken bound is printed as %q", got)
	}
	if _, err := json.Marshal([]Figure{f, worst("x", "y", nil, "")}); err != nil {
		t.Errorf("a figure is no JSON: %v", err)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 5: "5", -0.00000001: "0", 0.25: "0.25", 1234.5678: "1234.57", -3.14159265: "-3.14159", 123456.7: "123457"} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestWorst(t *testing.T) {
	fine := gap{"fine", 100e6, 100.5e6, 1e6, 1e6, 10}
	near := gap{"near", 100e6, 99.2e6, 1e6, 5e6, 10} // 0.8 of what is allowed below
	far := gap{"far", 100e6, 103e6, 9e6, 2e6, 20}    // 1.5 of what is allowed above
	if f := worst("x", "wait", []gap{fine, near}, "note"); !f.OK || math.Abs(f.Value+0.8) > 1e-9 || f.Low != -1 || f.High != 5 ||
		f.Detail != "near is worst of 2; mean -15000 ns per wait of 20; note" {
		t.Errorf("two within bounds: %+v", f)
	}
	if f := worst("x", "wait", []gap{fine, far, near}, ""); f.OK || math.Abs(f.Value-3) > 1e-9 || !strings.HasPrefix(f.Detail, "far is worst of 3;") {
		t.Errorf("one out of bounds: %+v", f)
	}
	if f := worst("x", "", []gap{far, far}, ""); !strings.Contains(f.Detail, "2 of them out of bounds") {
		t.Errorf("two out of bounds: %q", f.Detail)
	}
	if f := worst("x", "", nil, ""); f.OK {
		t.Error("nothing to compare is within its bounds")
	}
	exact := gap{"exact", 5, 5, 0, 0, 0}
	if f := worst("x", "", []gap{exact}, ""); !f.OK {
		t.Errorf("an exact account: %+v", f)
	}
	if exact.account++; worst("x", "", []gap{exact}, "").OK {
		t.Error("a nanosecond where nothing is allowed is within bounds")
	}
}

func TestSum(t *testing.T) {
	if got := sum("all", []gap{{"a", 1, 2, 3, 4, 5}, {"b", 10, 20, 30, 40, 50}}); got != (gap{"all", 11, 22, 33, 44, 55}) {
		t.Errorf("%+v", got)
	}
}

func TestSlack(t *testing.T) {
	if got := slack(clockPart, 1e9, 10); got != 2e6+40e3 {
		t.Errorf("0.2 %% of a second and 10 × 4 µs are %v ns", got)
	}
	if got := slack(oraclePart, -1e9, 0); got != 1e6 {
		t.Errorf("0.1 %% of a negative second is %v ns", got)
	}
}
