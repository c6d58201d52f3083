package campaign

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// SchemaVersion is the version of the files of a campaign's directory:
//
//	DIR/campaign.json                   Record: plan, schedule, sessions
//	DIR/LADDER/run.json, steps/…        a run directory, as `rung load` writes it
//	DIR/LADDER/steps/NN-HZ/step.json    StepState, beside the step's own files
//	DIR/LADDER/ladder.json              LadderState: written last, the ladder is complete
//	DIR/LADDER/attempts/NAME.K/void.json  Void: an attempt that does not count
//
// What is finished is never written again; what is not finished has no name of
// its own. So the directory is the campaign's whole state.
const SchemaVersion = 1

// Names of the files.
const (
	RecordFile  = "campaign.json"
	LadderFile  = "ladder.json"
	StepFile    = "step.json"
	VoidFile    = "void.json"
	AttemptsDir = "attempts"
	SummaryFile = "summary.md"
)

// Record is campaign.json.
type Record struct {
	SchemaVersion int       `json:"schemaVersion"`
	Started       time.Time `json:"started"`
	// PlanFile is where the plan was read from; Plan what it said.
	PlanFile string   `json:"planFile"`
	Plan     Plan     `json:"plan"`
	Schedule Schedule `json:"schedule"`
	// Inputs are what the figures depend on beside the plan, by name: sha256 of
	// an arm's executable, of the files its command names, of a body's file, a
	// container's image. They must not change within a campaign.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Sessions are the times that `rung run` worked on it.
	Sessions []Session `json:"sessions"`
}

// Session is one `rung run` of a campaign.
type Session struct {
	Started time.Time `json:"started"`
	// Ended and How are absent of a session that was killed, or still runs.
	Ended *time.Time `json:"ended,omitempty"`
	How   string     `json:"how,omitempty"` // complete, interrupted, failed
	// Failures are what kept ladders from their end.
	Failures []string `json:"failures,omitempty"`
	Pid      int      `json:"pid"`
	// Cgroup is the name of the session's own cgroup in each hierarchy, "" when
	// it made none. A killed session's is cleared by the next.
	Cgroup string `json:"cgroup,omitempty"`
	Host   Host   `json:"host"`
	// Warnings weaken the figures of this session.
	Warnings []string `json:"warnings,omitempty"`
}

// Host is where a session ran, as far as it says.
type Host struct {
	Rung     string   `json:"rung"`
	RungSHA  string   `json:"rungSha256,omitempty"`
	Args     []string `json:"args,omitempty"`
	Go       string   `json:"go,omitempty"`
	Hostname string   `json:"hostname,omitempty"`
	BootID   string   `json:"bootId,omitempty"`
	Kernel   string   `json:"kernel,omitempty"`
	Cmdline  string   `json:"kernelCmdline,omitempty"`
	Arch     string   `json:"arch,omitempty"`
	CPUModel string   `json:"cpuModel,omitempty"`
	CPUs     int      `json:"cpus,omitempty"`
	// Governor is absent where the kernel has no frequency scaling.
	Governor string `json:"governor,omitempty"`
	// Quota is the CPU limit that the driver itself runs under, in CPUs.
	QuotaCPUs float64 `json:"quotaCpus,omitempty"`
	// Clock is the kernel's word on clock synchronisation.
	Clock *Clock `json:"clock,omitempty"`
	// Neighbours is the CPU use of all other processes before the first arm started.
	Neighbours *Neighbours `json:"neighbours,omitempty"`
}

// Clock is what adjtimex says. A run on one host needs no synchronised clock;
// one whose agents sit elsewhere does not either, but its wall times do.
type Clock struct {
	Synchronised bool  `json:"synchronised"`
	OffsetNs     int64 `json:"offsetNs"`
	MaxErrorUs   int64 `json:"maxErrorUs"`
}

// Neighbours is others' CPU use.
type Neighbours struct {
	Seconds float64 `json:"seconds"` // of looking
	// BusyCPUs is the mean number of CPUs that were not idle; StealCPUs what the
	// hypervisor took.
	BusyCPUs  float64     `json:"busyCpus"`
	StealCPUs float64     `json:"stealCpus"`
	Top       []Neighbour `json:"top,omitempty"`
}

// Neighbour is one process.
type Neighbour struct {
	Pid  int     `json:"pid"`
	Comm string  `json:"comm"`
	CPUs float64 `json:"cpus"`
}

// StepState is what a campaign knows of a step beside its run directory's files.
type StepState struct {
	Ladder string `json:"ladder"`
	Step   Step   `json:"step"`
	// Attempt counts from 1; the ones before were void.
	Attempt int       `json:"attempt"`
	Started time.Time `json:"started"`
	// Arm is who answered, the same before and after the step.
	Arm Identity `json:"arm"`
	// Void is why no figure of the step may be used; it stayed void.
	Void string `json:"void,omitempty"`
	// CPU is the arm's CPU time over the window, read by the campaign itself; it
	// serves steps without an agent's record. Absent with CPUAbsent's reason.
	CPU           *CPUTime `json:"cpu,omitempty"`
	CPUAbsent     string   `json:"cpuAbsent,omitempty"`
	ClientLimited string   `json:"clientLimited,omitempty"`
	// JVM is what the counters of the arm's JVM say; absent of other arms.
	JVM *JVM `json:"jvm,omitempty"`
}

// JVM is read from the counters that a HotSpot JVM keeps for others, at the step's
// edges. Times are of a clock, not of a CPU.
type JVM struct {
	// HeapUsedBytes is of the closing edge, as of the last collection.
	HeapUsedBytes *int64 `json:"heapUsedBytes,omitempty"`
	// The others are of the window.
	GCs         *int64 `json:"gcs,omitempty"`
	GCNs        *int64 `json:"gcNs,omitempty"`
	SafepointNs *int64 `json:"safepointNs,omitempty"` // collections included
	JITNs       *int64 `json:"jitNs,omitempty"`       // over all compiler threads
}

// Identity is an arm's processes. An arm whose identity changes within a step
// was restarted, and the step is void.
type Identity struct {
	// Process is the one that the campaign started.
	Process *Process `json:"process,omitempty"`
	// Container is the engine's id with the start time it reports.
	Container string `json:"container,omitempty"`
	// Listeners are the processes that listen at the arm's address, where it is
	// this host's and they can be seen.
	Listeners []Process `json:"listeners,omitempty"`
}

// Process is one by its number and its start, in clock ticks since boot: numbers
// are used again.
type Process struct {
	Pid   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// CPUTime is CPU time between the step's edges.
type CPUTime struct {
	UsageNs int64 `json:"usageNs"`
	// Source is "cgroup" or "process clock".
	Source string `json:"source"`
	// StartLateNs and EndLateNs are how long after the edges it was read.
	StartLateNs int64 `json:"startLateNs"`
	EndLateNs   int64 `json:"endLateNs"`
	// ThrottledNs sums over CPUs; of a cgroup with a quota.
	ThrottledNs *int64 `json:"throttledNs,omitempty"`
}

// LadderState is ladder.json: a complete ladder's own account.
type LadderState struct {
	Ladder   string    `json:"ladder"`
	Finished time.Time `json:"finished"`
	Steps    int       `json:"steps"`
	// Void steps stayed void; Voids are the attempts that were and were redone.
	Void   int      `json:"void"`
	Voids  int      `json:"voids"`
	Notes  []string `json:"notes,omitempty"`
	Search *Verdict `json:"search,omitempty"`
}

// Void is why an attempt does not count. Interrupted ones are not the arm's
// fault and are no attempt at all.
type Void struct {
	Step        string    `json:"step"`
	Reason      string    `json:"reason"`
	At          time.Time `json:"at"`
	Interrupted bool      `json:"interrupted,omitempty"`
}

// MaxStateBytes bounds each file of a campaign's state.
const MaxStateBytes = 64 << 20

// ReadState reads one of the state files into v, strictly: an unknown field or
// anything after the value is an error.
func ReadState(r io.Reader, v any) error {
	dec := json.NewDecoder(io.LimitReader(r, MaxStateBytes))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("file is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}

// EncodeState is what ReadState reads, the same bytes for the same value.
func EncodeState(v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode state: %w", err)
	}
	return append(data, '\n'), nil
}
