package attribution

// Table is a profile's time by layer. Rows and Unattributed together hold all of
// it: their Ns add up to TotalNs exactly, their Samples to Samples.
type Table struct {
	Charge Charge `json:"charge"`
	// KernelToOwner: syscall and fault time went to the caller's layer.
	KernelToOwner bool `json:"kernelToOwner,omitempty"`
	// Unit of every field named Ns: "nanoseconds", unless the profile is of
	// another kind ("bytes", "samples").
	Unit string `json:"unit"`
	// Rows are the layers in the rule file's order, `other` last. Layers with
	// no sample are rows too.
	Rows []Row `json:"rows"`
	// Unattributed is time whose stack is missing, lost, or was cut before its
	// owner. Kinds that did not occur have no row.
	Unattributed []Row `json:"unattributed,omitempty"`
	// TotalNs is what the shares apportion: Σ charged on-CPU from the account
	// (TotalFromAccount), else the sampled time.
	TotalNs          int64 `json:"totalNs"`
	TotalFromAccount bool  `json:"totalFromAccount"`
	// SampledNs is Σ sample values, an independent estimate of TotalNs.
	SampledNs int64 `json:"sampledNs"`
	Samples   int64 `json:"samples"`
	// Requests is deliveredInWindow, 0 when figures per request make no sense.
	Requests uint64 `json:"requests,omitempty"`
	// MsPerRequest is TotalNs ÷ Requests; absent without requests.
	MsPerRequest *float64 `json:"msPerRequest,omitempty"`
	// Residual is usage_usec − Σ charged; absent when either was not measured.
	Residual  *Residual `json:"residual,omitempty"`
	Bootstrap Bootstrap `json:"bootstrap"`
	Warnings  []string  `json:"warnings,omitempty"`
}

// Row is one layer's part of a table, or one kind of unattributed time.
type Row struct {
	Layer string `json:"layer"`
	// About is the rule file's sentence on what the layer holds.
	About   string `json:"about,omitempty"`
	Samples int64  `json:"samples"`
	// SampledNs is the sum of the row's samples; Ns its part of Table.TotalNs.
	SampledNs int64 `json:"sampledNs"`
	Ns        int64 `json:"ns"`
	// Share of the sampled total, 0..1, with its interval.
	Share Estimate `json:"share"`
	// MsPerRequest is milliseconds per request; absent without requests.
	MsPerRequest *Estimate `json:"msPerRequest,omitempty"`
	// TooFew says why the interval must not be relied on; "" when it may.
	TooFew string `json:"tooFew,omitempty"`
	// Functions with the most self time in this row, descending.
	Functions []Function `json:"functions,omitempty"`
}

// Estimate is a value with its interval.
type Estimate struct {
	Value float64 `json:"value"`
	// Interval at the table's confidence; absent when it cannot be estimated
	// (no block labels).
	Interval *Interval `json:"interval,omitempty"`
}

// Interval is a confidence interval, Lo <= Hi.
type Interval struct {
	Lo float64 `json:"lo"`
	Hi float64 `json:"hi"`
}

// HalfWidth is what a table prints after "±": half the interval's width.
func (i Interval) HalfWidth() float64 { return (i.Hi - i.Lo) / 2 }

// Function is self time of one function within a row. Kernel time stands under
// its entry ("syscall:write"), not under kernel functions.
type Function struct {
	Name    string  `json:"name"`
	Mapping string  `json:"mapping,omitempty"`
	Samples int64   `json:"samples"`
	Ns      int64   `json:"ns"`
	Share   float64 `json:"share"` // of the table's sampled total
	// MsPerRequest is absent without requests.
	MsPerRequest *float64 `json:"msPerRequest,omitempty"`
}

// Residual is what the cgroup was charged and the threads' account does not
// hold. It may be negative: both sides are read within a bracket.
type Residual struct {
	UsageNs   int64 `json:"usageNs"`
	ChargedNs int64 `json:"chargedNs"`
	Ns        int64 `json:"ns"` // UsageNs − ChargedNs
	// Share is Ns ÷ UsageNs.
	Share        float64  `json:"share"`
	MsPerRequest *float64 `json:"msPerRequest,omitempty"`
}

// Bootstrap says how the intervals were made.
type Bootstrap struct {
	// Blocks of the window, empty ones included; 0 without block labels.
	Blocks     int     `json:"blocks"`
	Resamples  int     `json:"resamples"`
	Seed       uint64  `json:"seed"`
	Confidence float64 `json:"confidence"`
	// TooFew is set when there are fewer than MinBlocks blocks; every row of
	// the table then carries it.
	TooFew string `json:"tooFew,omitempty"`
}

// Options of Attribute. The zero value charges leaves, apportions the sampled
// time, and gives no figures per request.
type Options struct {
	Charge Charge // "" means Leaf
	// KernelToOwner moves syscall and fault time to the caller's layer; only
	// with Owner. Interrupts stay: nobody on the stack asked for them.
	KernelToOwner bool
	// ChargedNs is Σ charged on-CPU of the target's threads; nil: unknown.
	ChargedNs *int64
	// UsageNs is the cgroup's usage over the window; nil: unknown.
	UsageNs *int64
	// Requests is deliveredInWindow; 0: no figures per request.
	Requests uint64
	// Blocks is the number of bootstrap blocks in the window. 0: as many as the
	// labels show, which misses empty blocks at the window's end.
	Blocks int
	// Resamples of the bootstrap; 0 means DefaultResamples.
	Resamples int
	// Seed of the bootstrap; 0 means 1.
	Seed uint64
	// TopFunctions per row; 0 means DefaultTopFunctions, negative none.
	TopFunctions int
}

// Defaults and limits of Attribute.
const (
	DefaultResamples    = 2000
	DefaultTopFunctions = 10
	Confidence          = 0.95
	// MinBlocks is where the block bootstrap's coverage becomes acceptable.
	MinBlocks = 40
	// MaxBlocks bounds block labels, and so memory.
	MaxBlocks = 1 << 16
	// MinSamples below which a row's interval is marked too few.
	MinSamples = 10
)

// Title names what the table shows and by which charge, for people.
func (t *Table) Title() string {
	title := t.Type() + " by layer, " + string(t.Charge) + " charge"
	switch {
	case t.Charge == Owner && t.KernelToOwner:
		title += " (kernel time to its caller)"
	default:
		title += " (kernel time as syscalls)"
	}
	return title
}

// Type names the kind of quantity: on-CPU time, or the unit of a foreign profile.
func (t *Table) Type() string {
	if t.Unit == "nanoseconds" {
		return "on-CPU"
	}
	return t.Unit
}
