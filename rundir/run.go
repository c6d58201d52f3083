package rundir

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// SchemaVersion is the version of run.json and client.json that this package
// writes, and the only one it reads.
const SchemaVersion = 1

// Run is what a ladder was meant to be and where it ran.
type Run struct {
	SchemaVersion int    `json:"schemaVersion"`
	ID            string `json:"id"`
	Arm           string `json:"arm"`
	Protocol      string `json:"protocol"`
	// Started is the wall time before the first step.
	Started time.Time `json:"started"`
	// QuotaCPUs is the arm's CFS quota in CPUs; 0 means it was started without one.
	QuotaCPUs float64    `json:"quotaCpus,omitempty"`
	Plan      Plan       `json:"plan"`
	Host      Provenance `json:"host"`
}

// Plan is the effective plan: what the flags said, defaults filled in.
type Plan struct {
	Address string `json:"address,omitempty"`
	// Body is the name of the body tier.
	Body string `json:"body,omitempty"`
	// RequestBytes is the length of one encoded request body, 0 if not known.
	RequestBytes int `json:"requestBytes,omitempty"`
	// RatesHz are the offered rates of the steps after the warm-up, in their order.
	RatesHz []float64 `json:"ratesHz,omitempty"`
	// Duration is a step's length; 0 of steps that end after IterationsPerSlot
	// requests for each of MaxInFlight slots.
	Duration          Duration `json:"duration,omitzero"`
	IterationsPerSlot int      `json:"iterationsPerSlot,omitempty"`
	WarmupHz          float64  `json:"warmupHz,omitempty"`
	Warmup            Duration `json:"warmup,omitzero"`
	Settle            Duration `json:"settle,omitzero"`
	Gap               Duration `json:"gap,omitzero"`
	Timeout           Duration `json:"timeout,omitzero"`
	Drain             Duration `json:"drain,omitzero"`
	Connections       int      `json:"connections,omitempty"`
	Streams           int      `json:"streams,omitempty"`
	MaxInFlight       int      `json:"maxInFlight,omitempty"`
	OnVoid            string   `json:"onVoid,omitempty"`
	// Agent is the agent's address, empty for a ladder without one.
	Agent       string `json:"agent,omitempty"`
	AgentTarget string `json:"agentTarget,omitempty"`
	// Also are further targets that were measured beside it, ADDRESS=TARGET.
	Also []string `json:"also,omitempty"`
	// SampleRateHz is the sampling rate asked of the agent, 0 if not known.
	SampleRateHz int `json:"sampleRateHz,omitempty"`
}

// Provenance is what the figures depend on beside the plan.
type Provenance struct {
	// Rung is the version of the binary that drove the ladder.
	Rung     string `json:"rung,omitempty"`
	Go       string `json:"go,omitempty"`
	Hostname string `json:"hostname,omitempty"`
	BootID   string `json:"bootId,omitempty"`
	Kernel   string `json:"kernel,omitempty"`
	Arch     string `json:"arch,omitempty"`
	CPUModel string `json:"cpuModel,omitempty"`
	CPUs     int    `json:"cpus,omitempty"`
	Governor string `json:"governor,omitempty"`
	// Args is the command line, for people.
	Args []string `json:"args,omitempty"`
	// Versions holds whatever else has one: "arm", "image", ...
	Versions map[string]string `json:"versions,omitempty"`
}

// Validate says what in a run cannot be.
func (r *Run) Validate() error {
	if r.SchemaVersion != SchemaVersion {
		return fmt.Errorf("schemaVersion is %d, this binary reads %d; read the run with the rung that wrote it", r.SchemaVersion, SchemaVersion)
	}
	if r.Arm == "" {
		return fmt.Errorf("arm is empty; a run needs the name of its arm")
	}
	if strings.ContainsAny(r.Arm, "/\n\r\t") {
		return fmt.Errorf("arm %q: a name has no slash and no control character", r.Arm)
	}
	if !finite(r.QuotaCPUs) || r.QuotaCPUs < 0 {
		return fmt.Errorf("quotaCpus is %v; want CPUs, or 0 for none", r.QuotaCPUs)
	}
	for i, hz := range r.Plan.RatesHz {
		if err := checkOffered(hz); err != nil {
			return fmt.Errorf("plan.ratesHz[%d]: %w", i, err)
		}
	}
	return nil
}

// MaxOfferedHz bounds an offered rate: one per nanosecond.
const MaxOfferedHz = 1e9

func checkOffered(hz float64) error {
	if !(hz > 0 && hz <= MaxOfferedHz) {
		return fmt.Errorf("offered rate is %v; want requests per second above 0 and up to %g", hz, float64(MaxOfferedHz))
	}
	return nil
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Duration is a time.Duration that is text in JSON: "1.5s".
type Duration time.Duration

// MarshalText writes what time.ParseDuration reads.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// String is time.Duration's.
func (d Duration) String() string { return time.Duration(d).String() }
