package attribution

import (
	"cmp"
	"fmt"
	"math"

	"github.com/google/pprof/profile"
)

// Off-CPU states, by the names of their sample types in a profile.
const (
	StateRunQueue  = "run-queue"
	StateThrottled = "throttled"
	StateBlocked   = "blocked"
)

// OffCPUStates lists them in the order of tables.
var OffCPUStates = []string{StateRunQueue, StateThrottled, StateBlocked}

// OffCPU is a profile's off-CPU time by stack. In each stratum, which is one
// thread's time in one state for one reason, the sum over stacks is exact and
// the stacks' parts of it are estimated from drawn intervals.
type OffCPU struct {
	WindowNs int64
	Stacks   []OffCPUStack
	Warnings []string
}

// OffCPUStack is time of one stratum with one stack.
type OffCPUStack struct {
	Stratum
	Thread      string // name; "" when unknown
	ThreadGroup string
	Frames      []Frame // leaf first
	Ns          int64
	// Draws is how many intervals the estimate rests on; 0: nothing of the
	// stratum was drawn, so that its stack is not known.
	Draws int64
	// SpreadNs is the standard error that Ns would have if the stratum's sum were
	// not known; 0 when every interval of it was drawn.
	SpreadNs float64
	// LargestNs is the part of Ns that one draw brought.
	LargestNs int64
}

// Stratum is what draws are made in, independently of other strata.
type Stratum struct {
	Tid     int64
	State   string // one of OffCPUStates
	Reason  string // of blocked time, as in Blocked
	Object  string
	Limited bool
}

// OffCPUFromPprof reads the off-CPU sample types of one of Rung's profiles. p is
// not changed. A profile that has none of them is an error.
func OffCPUFromPprof(p *profile.Profile) (*OffCPU, error) {
	if err := p.CheckValid(); err != nil {
		return nil, fmt.Errorf("profile is malformed: %w", err)
	}
	if p.DurationNanos <= 0 {
		return nil, fmt.Errorf("profile has no duration: mean threads are time over the window's length")
	}
	columns := map[string]int{}
	for i, t := range p.SampleType {
		for _, state := range OffCPUStates {
			if t.Type == state && t.Unit == "nanoseconds" {
				columns[state] = i
			}
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("profile has none of the sample types %v: it was not made by Rung, or by a version before them", OffCPUStates)
	}
	out := &OffCPU{WindowNs: p.DurationNanos}
	sums := map[string]int64{}
	unestimated := 0
	for _, s := range p.Sample {
		for _, state := range OffCPUStates {
			column, ok := columns[state]
			if !ok || s.Value[column] == 0 {
				continue
			}
			ns := s.Value[column]
			if ns < 0 || ns > math.MaxInt64-sums[state] {
				return nil, fmt.Errorf("profile's %s time is negative or overflows 64 bits", state)
			}
			sums[state] += ns
			st := OffCPUStack{
				Stratum: Stratum{Tid: firstNumber(s, "tid"), State: state, Reason: firstLabel(s, "reason"),
					Object: firstLabel(s, "object"), Limited: firstLabel(s, "limited") == "true"},
				Thread: firstLabel(s, "thread"), ThreadGroup: firstLabel(s, "thread_group"), Frames: frames(s),
				Ns: ns, Draws: max(0, firstNumber(s, "draws")), SpreadNs: math.Max(0, float64(firstNumber(s, "spread_ns"))),
				LargestNs: max(0, firstNumber(s, "largest_ns")),
			}
			if len(s.NumLabel["draws"]) == 0 {
				unestimated++
			}
			out.Stacks = append(out.Stacks, st)
		}
	}
	if unestimated > 0 {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d off-CPU samples do not say how many intervals they rest on: they count as none", unestimated))
	}
	return out, nil
}

func firstNumber(s *profile.Sample, key string) int64 {
	if v := s.NumLabel[key]; len(v) > 0 {
		return v[0]
	}
	return 0
}

// WithoutIdle leaves out blocked time that r calls idle.
func (o *OffCPU) WithoutIdle(r *Rules) *OffCPU {
	out := &OffCPU{WindowNs: o.WindowNs, Warnings: o.Warnings}
	for i := range o.Stacks {
		if !o.Stacks[i].isIdle(r) {
			out.Stacks = append(out.Stacks, o.Stacks[i])
		}
	}
	return out
}

func (s *OffCPUStack) isIdle(r *Rules) bool {
	if s.State != StateBlocked {
		return false
	}
	idle, _ := r.isIdle(s.ThreadGroup, s.Thread, s.Reason)
	return idle
}

// Estimated is off-CPU time with its doubt.
type Estimated struct {
	Ns    int64 `json:"ns"`
	Draws int64 `json:"draws"`
	// MeanThreads is thread-seconds per second of the window.
	MeanThreads float64 `json:"meanThreads"`
	// StderrThreads is the standard error of MeanThreads, 0 when it is exact, and
	// absent with TooFew.
	StderrThreads *float64 `json:"stderrThreads,omitempty"`
	// Share of the state's time (Ns over all of it, which is exact), 0..1, with
	// its 95 % interval, which is absent with TooFew.
	Share Estimate `json:"share"`
	// TooFew says why there is no interval; "" when there is one.
	TooFew string `json:"tooFew,omitempty"`
}

// A ratio estimate of fewer draws, or one that a single draw makes up so much of,
// has no interval worth its name.
const (
	MinDraws        = 30
	MaxLargestShare = 0.1 // of all the time
	MaxLargestPart  = 0.2 // of the stack's own
)

// draws sums what was drawn in each stratum.
type draws map[Stratum]*drawn

type drawn struct {
	ns, draws, largest int64
	squares            float64 // Σ spread², ns²
}

func (d draws) add(s *OffCPUStack) {
	sum := d[s.Stratum]
	if sum == nil {
		sum = &drawn{}
		d[s.Stratum] = sum
	}
	sum.ns += s.Ns
	sum.draws += s.Draws
	sum.largest = max(sum.largest, s.LargestNs)
	sum.squares += s.SpreadNs * s.SpreadNs
}

// estimate gives the time of some stacks, drawn as part says, among whole.
//
// In a stratum with a share R of it, the ratio's linearised variance is
// (1−R)²·squares + R²·(the stratum's squares − squares); strata are independent,
// so variances add up. In a stratum that was drawn in full, or is all of the
// part's, the part is exact; the limits hold for the draws of the others, unless
// less than a hundredth of the time lies there.
func (whole draws) estimate(part draws, windowNs int64) Estimated {
	var e Estimated
	var total, uncertain, unsure, largest, few int64
	var variance, top float64 // top: largest summand of the variance's root
	estimated := false
	for _, w := range whole {
		total += w.ns
		estimated = estimated || w.squares > 0
	}
	undrawn := false
	for _, key := range sortedStrata(part) {
		p, w := part[key], whole[key]
		e.Ns += p.ns
		e.Draws += p.draws
		if w.draws == 0 {
			undrawn = undrawn || p.ns < w.ns
			continue
		}
		if w.squares == 0 || p.ns == w.ns {
			continue
		}
		r := ratio(p.ns, w.ns)
		variance += (1-r)*(1-r)*p.squares + r*r*math.Max(0, w.squares-p.squares)
		top = math.Max(top, math.Max((1-r)*float64(p.largest), r*float64(w.largest)))
		uncertain += w.ns
		unsure += p.ns
		few += p.draws
		largest = max(largest, p.largest)
	}
	e.MeanThreads = float64(e.Ns) / float64(windowNs)
	e.Share = Estimate{Value: ratio(e.Ns, total)}
	switch {
	case undrawn:
		e.TooFew = "no interval was drawn"
	case len(part) == 0 && estimated:
		e.TooFew = fmt.Sprintf("0 intervals drawn, want %d", MinDraws)
	case unsure < e.Ns/100 || uncertain == 0:
	case few < MinDraws:
		e.TooFew = fmt.Sprintf("%d intervals drawn, want %d", few, MinDraws)
	case float64(largest) > MaxLargestShare*float64(uncertain):
		e.TooFew = fmt.Sprintf("one drawn interval is %.0f %% of the time, want %.0f at most", 100*ratio(largest, uncertain), 100*MaxLargestShare)
	case float64(largest) > MaxLargestPart*float64(unsure):
		e.TooFew = fmt.Sprintf("one drawn interval is %.0f %% of its stack's time, want %.0f at most", 100*ratio(largest, unsure), 100*MaxLargestPart)
	}
	if e.TooFew != "" {
		return e
	}
	sd := math.Sqrt(variance)
	mean := sd / float64(windowNs)
	e.StderrThreads = &mean
	if total > 0 {
		e.Share.Interval = &Interval{e.Share.Value, e.Share.Value}
	}
	if total > 0 && variance > 0 {
		lo, hi := drawnInterval(ratio(unsure, uncertain), sd/float64(uncertain), variance/(top*top))
		exact, scale := ratio(e.Ns-unsure, total), ratio(uncertain, total)
		e.Share.Interval = &Interval{math.Max(0, exact+lo*scale), math.Min(1, exact+hi*scale)}
	}
	return e
}

// drawnInterval is the 95 % interval of a share estimated from draws, by its
// standard error and by how many times the variance holds its largest summand.
//
// Draws late in a window stand for many intervals, and waits have long tails, so
// a few hundred draws weigh like some tens: the plain interval, of ±1.96 standard
// errors, covered 88 to 94 % of resampled populations. This one is the score
// interval (Wilson's) at as many even draws as have this variance, with Student's
// quantile at the degrees of freedom that the variance's own estimate has. Were
// its summands even, they would be as many as the largest of them goes into it;
// as uneven ones are, it is about four times that (found by resampling steady and
// bursty populations of 400 to 80,000 intervals).
func drawnInterval(share, stderr, summands float64) (lo, hi float64) {
	if share <= 0 || share >= 1 {
		return share - 1.96*stderr, share + 1.96*stderr
	}
	const unevenness = 4
	n := share * (1 - share) / (stderr * stderr)
	z := student975(int(math.Max(2, math.Min(n, unevenness*summands))))
	mid := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(stderr*stderr+z*z/(4*n*n))
	return mid - half, mid + half
}

// sortedStrata fixes the order of floating-point sums.
func sortedStrata(d draws) []Stratum {
	return sortedKeys(d, func(a, b Stratum) int {
		return cmp.Or(cmp.Compare(a.Tid, b.Tid), cmp.Compare(a.State, b.State), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Object, b.Object), compareBool(a.Limited, b.Limited))
	})
}
