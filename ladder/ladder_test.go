package ladder

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func ptr[T any](v T) *T { return &v }

// sound is a step of 5 s at 1,000/s on which nothing is wrong.
func sound() Observed {
	return Observed{
		Index: 3, Name: "03-1000", OfferedHz: 1000, WindowNs: 5e9,
		Scheduled: 5500, Sent: 5500, Completed: 5500, Delivered: 5500, DeliveredInWindow: 5000,
		InFlightAtStart: 2, InFlightAtEnd: 3,
		P50Ms: ptr(1.0), P99Ms: ptr(4.0), P999Ms: ptr(8.0), LatenessP99Ms: ptr(0.3),
		UsageNs: ptr(int64(2e9)), ThrottledNs: ptr(int64(5e8)), Periods: ptr(uint64(50)), PeriodsThrottled: ptr(uint64(5)),
		RSSBytes: ptr(uint64(1 << 20)), StartBracketNs: 1e5, EndBracketNs: 2e5, Samples: ptr(int64(2000)),
	}
}

func TestNewDerives(t *testing.T) {
	s := New(sound())
	if s.DeliveredHz != 1000 || *s.CPUMsPerRequest != 0.4 || *s.Cores != 0.4 || *s.ThrottledCPUSeconds != 0.5 ||
		*s.PeriodsThrottled != 0.1 || s.OverflowHz != 0 || s.CPUMsPerAttempt != nil || len(s.Flags) != 0 {
		t.Errorf("step %+v", s)
	}
	o := sound()
	o.UsageNs, o.ThrottledNs, o.Periods, o.RSSBytes, o.DeliveredInWindow = nil, nil, nil, nil, 0
	s = New(o)
	if s.CPUMsPerRequest != nil || s.Cores != nil || s.ThrottledCPUSeconds != nil || s.PeriodsThrottled != nil || s.RSSBytes != nil {
		t.Errorf("what was not measured is there: %+v", s)
	}
	o = sound()
	o.Completed, o.Delivered, o.Errors, o.DeliveredInWindow = 5500, 2750, 2750, 2500
	if s = New(o); s.CPUMsPerAttempt == nil || math.Abs(*s.CPUMsPerAttempt-0.4) > 1e-12 || *s.CPUMsPerRequest != 0.8 {
		t.Errorf("half failed: %v ms per attempt, %v per request; want 0.4 and 0.8", s.CPUMsPerAttempt, *s.CPUMsPerRequest)
	}
}

func TestFlags(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Observed)
		want   []FlagKind
	}{
		"sound":              {func(*Observed) {}, nil},
		"client void":        {func(o *Observed) { o.ClientVoid = "arm died" }, []FlagKind{FlagVoid}},
		"agent void":         {func(o *Observed) { o.AgentVoid = "suspended" }, []FlagKind{FlagVoid}},
		"no window":          {func(o *Observed) { o.WindowNs = 0 }, []FlagKind{FlagVoid}},
		"agent missing":      {func(o *Observed) { o.AgentMissing = "killed"; o.Samples = nil }, []FlagKind{FlagAgentMissing}},
		"bracket":            {func(o *Observed) { o.EndBracketNs = 20e6 + 1 }, []FlagKind{FlagBracket}},
		"bracket at 20 ms":   {func(o *Observed) { o.EndBracketNs = 20e6 }, nil},
		"late edge":          {func(o *Observed) { o.StartLateNs = 1 }, []FlagKind{FlagEdgeLate}},
		"expired":            {func(o *Observed) { o.Expired = true }, []FlagKind{FlagExpired}},
		"in flight":          {func(o *Observed) { o.InFlightAtEnd = 60 }, []FlagKind{FlagInFlight}},
		"in flight falls":    {func(o *Observed) { o.InFlightAtStart = 60 }, []FlagKind{FlagInFlight}},
		"in flight at 1 %":   {func(o *Observed) { o.InFlightAtEnd = 52 }, nil},
		"errors":             {func(o *Observed) { o.Errors = 56 }, []FlagKind{FlagErrors}},
		"unanswered":         {func(o *Observed) { o.Unanswered = 56 }, []FlagKind{FlagErrors}},
		"few errors":         {func(o *Observed) { o.Errors = 55 }, nil},
		"overflow":           {func(o *Observed) { o.Overflow = 56 }, []FlagKind{FlagCapLimited}},
		"cap-limited client": {func(o *Observed) { o.CapLimited = true }, []FlagKind{FlagCapLimited}},
		"client late":        {func(o *Observed) { o.LatenessP99Ms = ptr(1.5) }, []FlagKind{FlagClientLate}},
		"late, but slow":     {func(o *Observed) { o.LatenessP99Ms = ptr(1.5); o.P99Ms = ptr(100.0) }, nil},
		"late dropped":       {func(o *Observed) { o.LateDropped = 100 }, []FlagKind{FlagClientLate}},
		"few requests":       {func(o *Observed) { o.DeliveredInWindow = 99; o.InFlightAtEnd = 2 }, []FlagKind{FlagTooFew}},
		"few samples":        {func(o *Observed) { o.Samples = ptr(int64(99)) }, []FlagKind{FlagTooFew}},
	} {
		t.Run(name, func(t *testing.T) {
			o := sound()
			c.change(&o)
			s := New(o)
			if len(s.Flags) != len(c.want) {
				t.Fatalf("flags %v, want %v", s.Flags, c.want)
			}
			for _, k := range c.want {
				if !s.Has(k) || s.Flags[0].Detail == "" {
					t.Errorf("flags %v, want %v with a detail", s.Flags, c.want)
				}
			}
		})
	}
}

// row is offered, delivered/s, p50 in ms, overflow/s.
type row [4]float64

func steps(rows ...row) []Step {
	var out []Step
	for i, r := range rows {
		out = append(out, Step{Index: i + 1, Name: fmt.Sprintf("%02d-%g", i+1, r[0]), OfferedHz: r[0], DeliveredHz: r[1],
			DeliveredInWindow: uint64(60 * r[1]), P50Ms: ptr(r[2]), OverflowHz: r[3]})
	}
	return out
}

// Ladders of arms on 1-CPU pods, as measured by hand before Rung.
var (
	restH1 = steps(row{100, 100, 3.42, 0}, row{200, 199.8, 3.06, .2}, row{300, 300, 2.89, 0}, row{400, 399.9, 2.98, .1},
		row{500, 499, 3.04, 1}, row{600, 597.8, 3.49, 2.2}, row{800, 754.7, 100.8, 44.6}, row{1000, 754.4, 110.8, 244.7},
		row{1200, 730.2, 116.6, 469}, row{1400, 762.3, 114.2, 636.7}, row{1600, 761.2, 114.9, 837.9})
	restH2C = steps(row{400, 400, 3.08, 0}, row{500, 500, 3.15, 0}, row{600, 600, 6.17, 0}, row{800, 799.6, 62.6, 0},
		row{1000, 733.4, 5801, 229.5}, row{1200, 516.7, 5734, 636.7}, row{1400, 544.2, 8010, 818.5}, row{1600, 656.9, 5802, 905.8})
	stream = steps(row{4000, 3999.7, 1.24, 0}, row{6000, 5999.6, 1.04, 0}, row{8000, 7999.7, 1.05, 0}, row{16000, 15998.9, 1.44, 0})
	// One step in the middle met a compilation.
	outlier = steps(row{4000, 3999, 2, 0}, row{6000, 5999, 2, 0}, row{8000, 7100, 90, 800}, row{9000, 8999, 3, 0}, row{10000, 8000, 100, 2000}, row{12000, 6500, 200, 3000})
)

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		steps    []Step
		knee     float64
		next     float64
		shape    Shape
		noKnee   string
		warnings []string
	}{
		"flat plateau":   {restH1, 600, 800, Flat, "", nil},
		"collapse":       {restH2C, 600, 800, Collapse, "", nil},
		"not reached":    {stream, 16000, 0, "", "", []string{"the knee was not reached"}},
		"outlier":        {outlier, 9000, 10000, Collapse, "", []string{"step 03-8000 is an outlier: delivered 88.8 % of offered"}},
		"two fail":       {steps(row{1, 1, 1, 0}, row{2, 1, 1, 0}, row{3, 1, 1, 0}, row{4, 4, 1, 0}), 1, 2, Rising, "", nil},
		"falling":        {steps(row{1, 1, 1, 0}, row{2, 2, 1, 0}, row{3, 2, 1, 0}, row{4, 1.7, 1, 0}), 2, 3, Falling, "", nil},
		"one past knee":  {steps(row{1, 1, 1, 0}, row{2, 2, 1, 0}, row{3, 2, 1, 0}), 2, 3, "", "", nil},
		"none keeps":     {steps(row{100, 50, 1, 0}, row{200, 50, 1, 0}, row{300, 50, 1, 0}), 0, 0, "", "below 100/s: the lowest step has delivered 50.0 % of offered", nil},
		"too few":        {stream[:2], 0, 0, "", "2 usable steps, want 3", nil},
		"none":           {nil, 0, 0, "", "0 usable steps, want 3", nil},
		"order is free":  {[]Step{restH1[6], restH1[1], restH1[5], restH1[7]}, 600, 800, Flat, "", nil},
		"overflow alone": {steps(row{100, 100, 1, 0}, row{200, 200, 1, 0}, row{300, 299, 1, 4}), 200, 300, "", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := Read(c.steps, DefaultKneeRule())
			if r.NoKnee != c.noKnee || (r.Knee == nil) != (c.knee == 0) {
				t.Fatalf("knee %+v, no knee %q; want %v, %q", r.Knee, r.NoKnee, c.knee, c.noKnee)
			}
			if r.Knee != nil {
				if r.Knee.OfferedHz != c.knee || (r.Knee.NextHz == nil) != (c.next == 0) || r.Knee.NextHz != nil && (*r.Knee.NextHz != c.next || r.Knee.Why == "") {
					t.Errorf("knee %+v, want %v before %v", r.Knee, c.knee, c.next)
				}
			}
			if (r.Plateau == nil) != (c.shape == "") || r.Plateau != nil && r.Plateau.Shape != c.shape {
				t.Errorf("plateau %+v, want %q", r.Plateau, c.shape)
			}
			if len(r.Warnings) != len(c.warnings) {
				t.Fatalf("warnings %q, want %q", r.Warnings, c.warnings)
			}
			for i, w := range c.warnings {
				if !strings.HasPrefix(r.Warnings[i], w) {
					t.Errorf("warning %q, want %q", r.Warnings[i], w)
				}
			}
		})
	}
}

func TestVoidAndWarmupAreLeftOut(t *testing.T) {
	in := append([]Step{}, restH1...)
	in[0].Warmup, in[0].DeliveredHz = true, 1
	in[2].Flags, in[2].DeliveredHz = []Flag{{FlagVoid, "x"}}, 1
	in[3].Flags = []Flag{{FlagErrors, "x"}} // stays
	if r := Read(in, DefaultKneeRule()); r.Knee == nil || r.Knee.OfferedHz != 600 || len(r.Warnings) != 0 {
		t.Errorf("reading %+v", r)
	}
}

func TestOneRequestAtTheEdge(t *testing.T) {
	s := Step{OfferedHz: 10, DeliveredHz: 9.8, DeliveredInWindow: 49} // 5 s
	if ok, why := DefaultKneeRule().Keeps(s); !ok {
		t.Errorf("49 of 50 requests in the window: %s", why)
	}
	s.DeliveredHz, s.DeliveredInWindow = 9.6, 48
	if ok, _ := DefaultKneeRule().Keeps(s); ok {
		t.Error("48 of 50 requests keep up")
	}
}

func TestFit(t *testing.T) {
	in := append([]Step{}, restH1...)
	for i := range in {
		in[i].Cores = ptr(0.05 + 0.0004*in[i].DeliveredHz)
	}
	f := Read(in, DefaultKneeRule()).Cores
	if f == nil || math.Abs(f.InterceptCores-0.05) > 1e-9 || math.Abs(f.MsPerRequest-0.4) > 1e-9 || f.MaxResidualCores > 1e-9 || f.Steps != 6 {
		t.Errorf("fit %+v, want 0.05 cores and 0.4 ms over the 6 steps below the knee", f)
	}
	if f := Read(restH1, DefaultKneeRule()).Cores; f != nil {
		t.Errorf("fit without usage: %+v", f)
	}
}

func TestMatched(t *testing.T) {
	missing := steps(row{400, 400, 1, 0})
	missing[0].Flags = []Flag{{FlagAgentMissing, "killed"}}
	for name, c := range map[string]struct {
		arms     []Arm
		rate     float64
		excluded int
		reason   string
		warning  string
	}{
		"highest that all keep": {[]Arm{{"h1", restH1}, {"h2c", restH2C}}, 600, 0, "", ""},
		"past a knee": {[]Arm{{"h1", restH1[6:]}, {"h2c", restH2C}}, 800, 0, "",
			"at 800/s, the lowest common rate, these do not keep up: h1 (delivered 94.3 % of offered); h2c (p50 62.6 ms)"},
		"no common rate":          {[]Arm{{"h1", restH1}, {"stream", stream}}, 0, 0, "the arms have no offered rate in common", ""},
		"one of three ran others": {[]Arm{{"h1", restH1}, {"h2c", restH2C}, {"stream", stream}}, 600, 1, "", ""},
		"agent missing":           {[]Arm{{"h1", restH1}, {"dead", missing}}, 600, 1, "", ""},
		"one arm":                 {[]Arm{{"stream", stream}}, 16000, 0, "", ""},
		"no arm":                  {nil, 0, 0, "no arm has a usable step", ""},
		"nearly equal":            {[]Arm{{"a", steps(row{99.99, 100, 1, 0})}, {"b", steps(row{100, 100, 1, 0})}}, 99.99, 0, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := Matched(c.arms, DefaultKneeRule())
			if m.RateHz != c.rate || m.Reason != c.reason || len(m.Excluded) != c.excluded {
				t.Errorf("match %+v, want %v/s, %d excluded, reason %q", m, c.rate, c.excluded, c.reason)
			}
			if c.rate > 0 && len(m.Steps) != len(c.arms)-c.excluded {
				t.Errorf("steps %+v, want one per arm", m.Steps)
			}
			if got := strings.Join(m.Warnings, ""); got != c.warning {
				t.Errorf("warning %q, want %q", got, c.warning)
			}
		})
	}
}
