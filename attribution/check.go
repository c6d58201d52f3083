package attribution

import (
	"fmt"
	"math"
)

// Check is one test of the account against an independent figure.
type Check struct {
	Name string `json:"name"`
	// Value was measured, Want is what it is held against.
	Value float64 `json:"value"`
	Want  float64 `json:"want"`
	// Bound is the allowed |Value − Want|; absent: reported, not judged.
	Bound *float64 `json:"bound,omitempty"`
	Unit  string   `json:"unit"`
	// OK is false when the bound is broken, or the check is absent.
	OK bool `json:"ok"`
	// Absent says why the check could not be made; "" when it was.
	Absent string `json:"absent,omitempty"`
	// Detail names the worst case, for people.
	Detail string `json:"detail,omitempty"`
}

// Names of the checks, in the order in which Checks returns them.
const (
	CheckClosure         = "Σ charged ÷ usage_usec"
	CheckWallCharged     = "wall − charged"
	CheckSchedstatRun    = "run vs schedstat, worst thread"
	CheckRunOffset       = "run offset per switch"
	CheckSchedstatWait   = "wait vs schedstat, worst thread"
	CheckWaitOffset      = "wait offset per switch"
	CheckSamplesExpected = "samples ÷ expected"
	CheckAccountCloses   = "lifetime − Σ states"
)

// CheckInput is what Checks holds against each other.
type CheckInput struct {
	Threads []Thread
	// UsageNs is usage_usec × 1000 over the window; nil: not read.
	UsageNs *int64
	// BracketNs is the sum of both edges' read brackets.
	BracketNs int64
	CPUs      int
	// TickNs is the scheduler's tick, 0 when unknown: then 10 ms are allowed.
	TickNs int64
	// Samples within the window and the time each stands for; PeriodNs 0: no
	// samples were taken.
	Samples  int64
	PeriodNs int64
}

// Checks makes every check that the input allows; the others are present with
// the reason for their absence. Bounds are those of the design: one tick per CPU
// + CPUs × read bracket + 0.3 % for the closure, 0.5 % + 4 µs per switch + one
// tick per thread for schedstat.
func Checks(in CheckInput) []Check {
	if in.TickNs <= 0 {
		in.TickNs = defaultTickNs
	}
	// schedstat's run is charged time; what wall adds to it stands in a row of its own.
	run, runOffset := schedstat(in, CheckSchedstatRun, CheckRunOffset, func(t *Thread) comparison {
		return comparison{
			own: int64(t.OnCPUChargedNs), stamps: int64(t.OnCPUWallNs), oracle: t.SchedstatRunNs,
		}
	})
	wait, waitOffset := schedstat(in, CheckSchedstatWait, CheckWaitOffset, func(t *Thread) comparison {
		ns := int64(t.RunQueueNs)
		if t.ThrottledLoNs != nil {
			ns += int64(*t.ThrottledLoNs) // the kernel counts throttled time as waiting
		}
		return comparison{own: ns + t.RunQueueSkewNs, stamps: ns, oracle: t.SchedstatWaitNs}
	})
	return []Check{
		accountCloses(in), closure(in), wallMinusCharged(in), run, runOffset, wait, waitOffset, samplesExpected(in),
	}
}

const (
	defaultTickNs  = 10e6
	closureShare   = 0.003
	schedstatShare = 0.005
	switchNs       = 4000
	samplesShare   = 0.03
	// Measured on short on-CPU intervals: 1 to 5 µs per switch, of either sign.
	samplesSwitchNs = 6000
)

func absent(name, unit, reason string) Check { return Check{Name: name, Unit: unit, Absent: reason} }

// judged makes a check with a bound.
func judged(name, unit string, value, want, bound float64, detail string) Check {
	return Check{
		Name: name, Unit: unit, Value: value, Want: want, Bound: &bound, Detail: detail,
		OK: math.Abs(value-want) <= bound,
	}
}

// accountCloses sums |residual|, so that a thread's excess does not hide
// another's lack.
func accountCloses(in CheckInput) Check {
	if len(in.Threads) == 0 {
		return absent(CheckAccountCloses, "ns", noThreads)
	}
	sum := 0.0
	for i := range in.Threads {
		t := &in.Threads[i]
		rest := int64(t.LifetimeNs) - int64(t.OnCPUWallNs) - int64(t.RunQueueNs) - int64(t.StoppedNs)
		if t.ThrottledLoNs != nil {
			rest -= int64(*t.ThrottledLoNs)
		}
		for _, b := range t.Blocked {
			rest -= int64(b.Ns)
		}
		sum += math.Abs(float64(rest))
	}
	return judged(CheckAccountCloses, "ns", sum, 0, 0, fmt.Sprintf("%d threads", len(in.Threads)))
}

const noThreads = "the account has no thread"

func closure(in CheckInput) Check {
	switch {
	case in.UsageNs == nil:
		return absent(CheckClosure, "ratio", "usage_usec was not read")
	case *in.UsageNs <= 0:
		return absent(CheckClosure, "ratio", "usage_usec is 0")
	case len(in.Threads) == 0:
		return absent(CheckClosure, "ratio", noThreads)
	case in.CPUs <= 0:
		return absent(CheckClosure, "ratio", "the number of CPUs is not known")
	}
	usage := float64(*in.UsageNs)
	bound := float64(in.CPUs)*float64(in.TickNs+in.BracketNs) + closureShare*usage
	charged := float64(SumCharged(in.Threads))
	return judged(CheckClosure, "ratio", charged/usage, 1, bound/usage,
		fmt.Sprintf("%.3f ms charged, %.3f ms used", charged/1e6, usage/1e6))
}

// SumCharged is Σ charged on-CPU over threads, in nanoseconds.
func SumCharged(threads []Thread) int64 {
	var sum int64
	for i := range threads {
		sum += int64(threads[i].OnCPUChargedNs)
	}
	return sum
}

// wallMinusCharged is reported, not judged: what charged leaves out depends on
// the kernel's configuration.
func wallMinusCharged(in CheckInput) Check {
	if len(in.Threads) == 0 {
		return absent(CheckWallCharged, "ns", noThreads)
	}
	var wall, skew int64
	var switches uint64
	for i := range in.Threads {
		wall += int64(in.Threads[i].OnCPUWallNs)
		skew += in.Threads[i].OnCPUSkewNs
		switches += in.Threads[i].Switches
	}
	diff := float64(wall - SumCharged(in.Threads))
	c := Check{Name: CheckWallCharged, Unit: "ns", Value: diff, OK: true}
	if wall > 0 {
		c.Detail = fmt.Sprintf("%+.3f %% of wall", 100*diff/float64(wall))
	}
	if switches > 0 {
		c.Detail += fmt.Sprintf(", %+.0f ns per switch, of which the run queue's earlier clock %+.0f",
			diff/float64(switches), -float64(skew)/float64(switches))
	}
	return c
}

// comparison is one state of one thread beside schedstat: the account's figure
// in schedstat's own terms, and the one made of switch stamps alone.
type comparison struct {
	own, stamps int64
	oracle      *uint64 // nil: not read
}

// schedstat holds one state of each thread against the kernel's own sum. The
// worst thread's difference is given in parts of its bound, so that 1 is the
// bound for all; the offset of the stamps is the signed mean over all switches.
func schedstat(in CheckInput, name, offsetName string, pick func(*Thread) comparison) (worst, offset Check) {
	var sum, most float64
	var switches uint64
	compared, broken := 0, 0
	detail := ""
	for i := range in.Threads {
		t := &in.Threads[i]
		c := pick(t)
		oracle := c.oracle
		if oracle == nil {
			continue
		}
		compared++
		diff := float64(c.own - int64(*oracle))
		bound := schedstatShare*float64(*oracle) + switchNs*float64(t.Switches) + float64(in.TickNs)
		sum += float64(c.stamps - int64(*oracle))
		switches += t.Switches
		parts := math.Abs(diff) / bound
		if parts > 1 {
			broken++
		}
		if parts > most {
			most = parts
			detail = fmt.Sprintf("%q (%d): %+.3f ms of %.3f ms, %d switches, %.3f ms allowed",
				t.Comm, t.Tid, diff/1e6, float64(*oracle)/1e6, t.Switches, bound/1e6)
		}
	}
	if compared == 0 {
		reason := "schedstat was not read"
		if len(in.Threads) == 0 {
			reason = noThreads
		}
		return absent(name, "of bound", reason), absent(offsetName, "ns", reason)
	}
	if missing := len(in.Threads) - compared; missing > 0 {
		detail = joinDetail(detail, fmt.Sprintf("%d of %d threads have no schedstat", missing, len(in.Threads)))
	}
	if broken > 0 {
		detail = joinDetail(detail, fmt.Sprintf("%d threads break the bound", broken))
	}
	worst = judged(name, "of bound", most, 0, 1, detail)
	if switches == 0 {
		return worst, absent(offsetName, "ns", "no thread was switched")
	}
	offset = Check{Name: offsetName, Unit: "ns", Value: sum / float64(switches), OK: true,
		Detail: fmt.Sprintf("%d switches", switches)}
	return worst, offset
}

func joinDetail(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// samplesExpected holds the number of samples against on-CPU wall time ÷ period.
// 3 %, four standard deviations of a count and 6 µs per switch are allowed: a
// tick that falls due in the switch, where interrupts are off, fires behind it,
// on whoever runs then.
func samplesExpected(in CheckInput) Check {
	var wall int64
	var switches uint64
	for i := range in.Threads {
		wall += int64(in.Threads[i].OnCPUWallNs)
		switches += in.Threads[i].Switches
	}
	switch {
	case in.PeriodNs <= 0:
		return absent(CheckSamplesExpected, "ratio", "no samples were taken")
	case len(in.Threads) == 0:
		return absent(CheckSamplesExpected, "ratio", noThreads)
	case wall < in.PeriodNs:
		return absent(CheckSamplesExpected, "ratio", "on the CPU for less than one period")
	}
	want := float64(wall) / float64(in.PeriodNs)
	bound := samplesShare + 4/math.Sqrt(want) + samplesSwitchNs*float64(switches)/float64(wall)
	return judged(CheckSamplesExpected, "ratio", float64(in.Samples)/want, 1, bound,
		fmt.Sprintf("%d samples, %.0f expected", in.Samples, want))
}
