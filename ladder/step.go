// Package ladder reads the steps of a load ladder: which of them may be trusted,
// where the knee is, what lies beyond it, and at which offered rate arms can be
// compared. It does not say why a ladder stops; that needs the account.
//
// The package is pure: no files, no clock, no log; same input, same bytes.
package ladder

// Step is one row of the step table.
type Step struct {
	Index     int     `json:"index"`
	Name      string  `json:"name"`
	Warmup    bool    `json:"warmup,omitempty"`
	OfferedHz float64 `json:"offeredHz"`
	// DeliveredHz is deliveredInWindow ÷ window.
	DeliveredHz       float64  `json:"deliveredHz"`
	DeliveredInWindow uint64   `json:"deliveredInWindow"`
	P50Ms             *float64 `json:"p50Ms,omitempty"`
	P99Ms             *float64 `json:"p99Ms,omitempty"`
	P999Ms            *float64 `json:"p999Ms,omitempty"`
	OverflowHz        float64  `json:"overflowHz"`
	// CPUMsPerRequest is usage ÷ deliveredInWindow; absent when either is.
	CPUMsPerRequest *float64 `json:"cpuMsPerRequest,omitempty"`
	// CPUMsPerAttempt is usage ÷ completed; only where errors exceed 1 %.
	CPUMsPerAttempt *float64 `json:"cpuMsPerAttempt,omitempty"`
	// Cores is usage ÷ window.
	Cores *float64 `json:"cores,omitempty"`
	// ThrottledCPUSeconds sums over CPUs.
	ThrottledCPUSeconds *float64 `json:"throttledCpuSeconds,omitempty"`
	// PeriodsThrottled is the share of CFS periods that were throttled, 0..1.
	PeriodsThrottled *float64 `json:"periodsThrottled,omitempty"`
	RSSBytes         *uint64  `json:"rssBytes,omitempty"`
	// JITShare is the part of the arm's CPU that the compiler threads of its JVM
	// took, 0..1; absent where it is no JVM, or no agent saw its threads.
	JITShare *float64 `json:"jitShare,omitempty"`
	// Profiled: an agent left a record of the step.
	Profiled bool `json:"profiled,omitempty"`
	// OwnCPUMsPerRequest is CPUMsPerRequest as the driver's side read the counters
	// itself, in profiled steps and in others alike.
	OwnCPUMsPerRequest *float64 `json:"ownCpuMsPerRequest,omitempty"`
	// CapLimited: overflow above 1 %, so latency is that of the cap.
	CapLimited bool   `json:"capLimited,omitempty"`
	Flags      []Flag `json:"flags,omitempty"`
}

// FlagKind names what is wrong with a step.
type FlagKind string

// Flags of a step. A flagged step stays in the table; only a void one is left
// out of every reading.
const (
	FlagVoid         FlagKind = "void"
	FlagAgentMissing FlagKind = "agent missing"
	FlagBracket      FlagKind = "bracket"
	FlagEdgeLate     FlagKind = "edge late"
	FlagExpired      FlagKind = "expired"
	FlagInFlight     FlagKind = "in-flight"
	FlagErrors       FlagKind = "errors"
	FlagCapLimited   FlagKind = "cap-limited"
	FlagClientLate   FlagKind = "client late"
	FlagTooFew       FlagKind = "too few"
	// FlagFirstStep is set by who reads a whole ladder, by [FirstStep].
	FlagFirstStep FlagKind = "first step"
	// FlagControl marks a step that was driven without the profiler, to be held
	// against the same one with it; no reading of a ladder uses it.
	FlagControl FlagKind = "control"
)

// Flag is one finding on a step.
type Flag struct {
	Kind FlagKind `json:"kind"`
	// Detail gives the figures behind the flag, for people.
	Detail string `json:"detail"`
}

// Has reports whether the step carries a flag of this kind.
func (s Step) Has(kind FlagKind) bool {
	for _, f := range s.Flags {
		if f.Kind == kind {
			return true
		}
	}
	return false
}
