package ladder

import (
	"math"
	"strings"
	"testing"
)

// TestFirstStep on the first three steps of the ladders that were measured by hand
// before Rung, on JVMs after a warm-up at 200/s: those that began far above it have
// an outlier.
func TestFirstStep(t *testing.T) {
	type row [3]float64 // offered, p99 in ms, CPU in ms per request
	for name, c := range map[string]struct {
		rows [3]row
		want string
	}{
		"R1":  {[3]row{{200, 27.59, 2.008}, {400, 21.71, 1.562}, {600, 72.89, 1.432}}, ""},
		"R2":  {[3]row{{200, 23.49, 2.208}, {400, 28.14, 1.780}, {600, 53.05, 1.568}}, ""},
		"R3":  {[3]row{{400, 9.58, 0.507}, {800, 11.40, 0.381}, {1200, 28.58, 0.326}}, ""},
		"R3b": {[3]row{{5200, 578.55, 0.135}, {5600, 94.54, 0.125}, {6000, 66.04, 0.118}}, "p99 is 578.5 ms"},
		"R4":  {[3]row{{400, 9.01, 0.355}, {800, 7.90, 0.245}, {1200, 22.41, 0.240}}, ""},
		"R4b": {[3]row{{4000, 663.72, 0.132}, {6000, 32.75, 0.092}, {8000, 56.80, 0.071}}, "p99 is 663.7 ms"},
		"R4c": {[3]row{{18000, 1569.65, 0.047}, {20000, 130.88, 0.036}, {22000, 157.48, 0.034}}, "p99 is 1570 ms"},
		"R5":  {[3]row{{100, 16.29, 2.494}, {200, 26.66, 2.091}, {300, 25.73, 1.843}}, ""},
		"R6":  {[3]row{{100, 13.40, 2.799}, {200, 15.27, 2.337}, {300, 21.29, 2.126}}, ""},
		"R7":  {[3]row{{200, 9.79, 0.778}, {400, 10.01, 0.618}, {600, 13.72, 0.555}}, ""},
		"R7b": {[3]row{{3600, 4032.17, 0.282}, {4000, 781.65, 0.216}, {4400, 1300.96, 0.203}}, "p99 is 4032 ms"},
		"R8":  {[3]row{{400, 17.13, 0.555}, {800, 14.17, 0.387}, {1200, 29.33, 0.343}}, ""},
		"R8b": {[3]row{{4000, 5532.81, 0.203}, {6000, 275.01, 0.138}, {8000, 1518.67, 0.112}}, "p99 is 5533 ms"},
		// By cost alone: R7b as if nobody had kept its latencies.
		"cost": {[3]row{{3600, 0, 0.282}, {4000, 0, 0.216}, {4400, 0, 0.203}}, "0.282 ms of CPU per request, where the next step's 0.216 ms allow 0.24 ms"},
	} {
		steps := []Step{{Name: "00-200", Warmup: true, OfferedHz: 200, P99Ms: ptr(1e5), CPUMsPerRequest: ptr(9.0)}}
		for i, r := range c.rows {
			s := Step{Index: i + 1, OfferedHz: r[0], CPUMsPerRequest: ptr(r[2])}
			if r[1] > 0 {
				s.P99Ms = ptr(r[1])
			}
			steps = append(steps, s)
		}
		at, why := FirstStep(steps)
		if (why == "") != (c.want == "") || !strings.Contains(why, c.want) || why != "" && at != 1 {
			t.Errorf("%s: step %d: %q, want %q", name, at, why, c.want)
		}
	}
}

func TestFirstStepByJIT(t *testing.T) {
	steps := []Step{
		{Index: 0, OfferedHz: 100, JITShare: ptr(0.9), Flags: []Flag{{FlagVoid, "x"}}},
		{Index: 1, OfferedHz: 100, JITShare: ptr(0.8), Flags: []Flag{{FlagControl, "x"}}},
		{Index: 2, OfferedHz: 100, JITShare: ptr(0.31)}, {Index: 3, OfferedHz: 200, JITShare: ptr(0.02)}, {Index: 4, OfferedHz: 300, JITShare: ptr(0.04)},
	}
	if at, why := FirstStep(steps); at != 2 || !strings.Contains(why, "the JIT took 31.0 % of the arm's CPU, in the steps after it at most 4.0 %") {
		t.Errorf("step %d: %q", at, why)
	}
	steps[4].JITShare = ptr(0.28)
	if _, why := FirstStep(steps); why != "" {
		t.Errorf("the JIT works on: %q", why)
	}
	steps[4].JITShare, steps[4].OfferedHz = ptr(0.01), 50
	if _, why := FirstStep(steps); why != "" {
		t.Errorf("a ladder that falls: %q", why)
	}
	if _, why := FirstStep(steps[:3]); why != "" {
		t.Errorf("one step: %q", why)
	}
}

func TestOverheads(t *testing.T) {
	step := func(index int, hz, ms float64, profiled bool, flags ...FlagKind) Step {
		s := Step{Index: index, Name: string(rune('a' + index)), OfferedHz: hz, CPUMsPerRequest: ptr(ms), Profiled: profiled}
		for _, f := range flags {
			s.Flags = append(s.Flags, Flag{f, "x"})
		}
		return s
	}
	steps := []Step{
		step(0, 100, 0.9, true), step(1, 100, 0.105, true), step(2, 100, 0.100, false, FlagControl),
		step(3, 200, 0.100, false, FlagControl), step(4, 200, 0.102, true), step(5, 200, 0.5, false),
		step(6, 300, 0.1, false, FlagControl), step(7, 300, 0.1, false), // was not profiled
		step(8, 400, 0.1, false, FlagControl, FlagVoid), step(9, 400, 0.2, true),
		step(10, 500, 0.1, false, FlagControl), step(11, 500, 0.2, true, FlagVoid),
	}
	got := Overheads(steps)
	if len(got) != 2 || got[0].Step != "b" || got[0].Control != "c" || math.Abs(got[0].Share-0.05) > 1e-9 ||
		got[1].Step != "e" || math.Abs(got[1].Share-0.02) > 1e-9 {
		t.Errorf("%+v", got)
	}
	if m := MedianShare(got); m == nil || math.Abs(*m-0.035) > 1e-9 {
		t.Errorf("median %v", m)
	}
	if MedianShare(nil) != nil || len(Overheads(steps[:2])) != 0 {
		t.Error("an overhead without a control")
	}
	// Where one reader read both, its figures are held against each other.
	steps[1].OwnCPUMsPerRequest, steps[2].OwnCPUMsPerRequest = ptr(0.11), ptr(0.10)
	if got := Overheads(steps); math.Abs(got[0].Share-0.1) > 1e-9 || got[0].WithMs != 0.11 {
		t.Errorf("own figures: %+v", got[0])
	}
	for _, s := range usable(steps) {
		if s.Has(FlagControl) {
			t.Error("a control is in a reading")
		}
	}
}
