// Package report renders what was measured on the ladders of one or more arms:
// for a terminal, as Markdown, as JSON, all from one [Report]. It answers how
// figures are shown, and computes none beyond a change of unit: the steps come
// from package ladder, the layers, accounts and checks from package attribution.
//
// A figure that was not measured is shown as "–" with its reason below the
// table, never as 0. The same Report gives the same bytes.
package report

import (
	"encoding/json"
	"io"
	"time"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/ladder"
)

// SchemaVersion is the version of the JSON form.
const SchemaVersion = 1

// Report is everything that is shown.
type Report struct {
	SchemaVersion int    `json:"schemaVersion"`
	Title         string `json:"title"`
	// Dir is the run directory, or the directory of runs, as the reader would
	// name it.
	Dir string `json:"dir"`
	// Preset or path of the rule file that names the layers.
	Rules string `json:"rules"`
	Arms  []Arm  `json:"arms"`
	// Matched compares the arms at one offered rate.
	Matched Matched `json:"matched"`
	// Warnings concern more than one arm.
	Warnings []string `json:"warnings,omitempty"`
}

// Arm is one arm's ladder.
type Arm struct {
	Name     string    `json:"name"`
	Run      string    `json:"run,omitempty"`
	Protocol string    `json:"protocol,omitempty"`
	Body     string    `json:"body,omitempty"`
	Dir      string    `json:"dir"`
	Started  time.Time `json:"started,omitzero"`
	// Imported says from where, of a ladder that another tool drove; its quota is
	// not known then.
	Imported string `json:"imported,omitempty"`
	// QuotaCPUs is the CFS quota in CPUs, 0 for none.
	QuotaCPUs float64 `json:"quotaCpus,omitempty"`
	// Host says where the ladder ran: kernel, architecture, CPUs, sampling rate.
	Host string `json:"host,omitempty"`
	// Steps by index; void ones too.
	Steps []Step `json:"steps"`
	// Reading is what the steps say together: knee, plateau, fit.
	Reading ladder.Reading `json:"reading"`
	// Overheads is what profiling cost this arm, by steps that have a control
	// without; Overhead the median share, nil without a pair.
	Overheads []ladder.Overhead `json:"overheads,omitempty"`
	Overhead  *float64          `json:"overhead,omitempty"`
	// Warnings concern the run as a whole, or say on which steps they hold.
	Warnings []string `json:"warnings,omitempty"`
}

// Step is one step with all that was measured in it.
type Step struct {
	ladder.Step
	// HeapBytes of a managed runtime, seen from outside.
	HeapBytes *uint64 `json:"heapBytes,omitempty"`
	// Absent gives the reason for each absent figure, by the figure's JSON name.
	// A figure named here is absent whatever value its field holds.
	Absent map[string]string `json:"absent,omitempty"`
	// Profile is the path of the step's pprof, "" when there is none.
	Profile string `json:"profile,omitempty"`

	// Layers, Account and Cost are nil when there was no record or no profile.
	Layers  *attribution.Table   `json:"layers,omitempty"`
	Account *attribution.Account `json:"account,omitempty"`
	Cost    *Cost                `json:"cost,omitempty"`
	Checks  []attribution.Check  `json:"checks,omitempty"`
	Losses  []Loss               `json:"losses,omitempty"`
	// Others are further targets, measured in the same window.
	Others []Other `json:"others,omitempty"`
	// InFlightAtStart and InFlightAtEnd are requests in flight at the window's edges.
	InFlightAtStart uint64   `json:"inFlightAtStart"`
	InFlightAtEnd   uint64   `json:"inFlightAtEnd"`
	Warnings        []string `json:"warnings,omitempty"`
}

// Other is a target beside the arm: a downstream, a sidecar, a part of it on
// another host.
type Other struct {
	Name string `json:"name"`
	// Cores is its usage ÷ window, CPUMsPerRequest that ÷ the arm's requests; nil
	// where its usage was not read.
	Cores           *float64             `json:"cores,omitempty"`
	CPUMsPerRequest *float64             `json:"cpuMsPerRequest,omitempty"`
	Account         *attribution.Account `json:"account,omitempty"`
	Profile         string               `json:"profile,omitempty"`
	Warnings        []string             `json:"warnings,omitempty"`
}

// Loss counts what did not reach the account or the profile whole.
type Loss struct {
	Name    string `json:"name"`
	Count   uint64 `json:"count"`
	Meaning string `json:"meaning,omitempty"`
}

// Cost is the profiler's own use of the host within one window.
type Cost struct {
	WindowNs   uint64 `json:"windowNs"`
	AgentCPUNs uint64 `json:"agentCpuNs"`
	// BPFNs is the run time of all BPF programs; nil where the kernel refuses
	// statistics, for the reason in BPFMissing.
	BPFNs      *uint64 `json:"bpfNs,omitempty"`
	BPFRuns    uint64  `json:"bpfRuns,omitempty"`
	BPFMissing string  `json:"bpfMissing,omitempty"`
	// ArmNs is the arm's own CPU in the same window, nil when it was not read.
	ArmNs         *uint64 `json:"armNs,omitempty"`
	AgentRSSBytes uint64  `json:"agentRssBytes"`
	MapBytes      uint64  `json:"mapBytes"`
}

// Matched compares arms at the matched rate: one offered rate that all have.
type Matched struct {
	// RateHz is nil when no rate is common; Reason then says why.
	RateHz *float64 `json:"rateHz,omitempty"`
	Reason string   `json:"reason,omitempty"`
	// Columns are the arms that can be compared, Excluded those that cannot.
	Columns  []MatchedArm         `json:"columns,omitempty"`
	Excluded []ladder.ExcludedArm `json:"excluded,omitempty"`
	Warnings []string             `json:"warnings,omitempty"`
}

// MatchedArm is one column of the comparison.
type MatchedArm struct {
	Arm   string            `json:"arm"`
	Step  string            `json:"step"`
	Table attribution.Table `json:"table"`
}

// Void reports whether no figure of the step may be used.
func (s *Step) Void() bool { return s.Has(ladder.FlagVoid) }

// TopStep is the step of the highest offered rate that is neither a warm-up nor
// void and has an account; nil when there is none.
func (a *Arm) TopStep() *Step {
	var top *Step
	for i := range a.Steps {
		s := &a.Steps[i]
		if s.Warmup || s.Void() || s.Account == nil {
			continue
		}
		if top == nil || s.OfferedHz >= top.OfferedHz {
			top = s
		}
	}
	return top
}

// JSON writes the report, indented, with a final newline.
func JSON(w io.Writer, r *Report) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
