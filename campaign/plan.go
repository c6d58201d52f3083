// Package campaign answers what a campaign drives, in which order, and what came
// of it: arms × sweep points × repeats, each a ladder of steps. It reads plans,
// makes schedules, chooses each next step of a ladder from those that are
// finished, and sums up. It starts nothing, drives nothing and writes no file;
// that is `rung run`.
//
// The package is pure: no files, no clock, no log; same input, same bytes. A
// schedule follows from the plan and its seed alone, so that a campaign that
// was cut short goes on where it was.
package campaign

import (
	"slices"
	"time"

	"github.com/rungprof/rung/ladder"
)

// Plan is a whole campaign, defaults filled in. Two plans whose Plans are equal
// are the same campaign, whatever their files' comments and order of keys.
type Plan struct {
	Name string `json:"name"`
	// Seed makes the arrivals of Poisson steps, and the order when it is shuffled.
	Seed    uint64 `json:"seed"`
	Repeats int    `json:"repeats"`
	// Order of the arms within a pass over all sweep points; each second pass
	// runs backwards (ABBA).
	Order Order `json:"order"`
	// AA are arms that run twice in every pass: the difference of such a pair is
	// the noise floor.
	AA []string `json:"aa,omitempty"`
	// Redo is how often a void step is tried again, and an arm that does not start.
	Redo int `json:"redo"`
	// OnVoid says what follows a step that stayed void.
	OnVoid   OnVoid          `json:"onVoid"`
	Arms     []Arm           `json:"arms"`
	Agent    Agent           `json:"agent"`
	Load     Load            `json:"load"`
	Ladder   Spec            `json:"ladder"`
	Sweep    []Axis          `json:"sweep,omitempty"`
	KneeRule ladder.KneeRule `json:"kneeRule"`
}

// Order of the arms.
type Order string

// Orders: as in the plan, or permuted by the seed, anew for every two passes.
const (
	OrderPlan     Order = "plan"
	OrderShuffled Order = "shuffled"
)

// OnVoid says what follows a step that stayed void.
type OnVoid string

// What follows: the ladder's next step, or the end of the campaign.
const (
	OnVoidContinue OnVoid = "continue"
	OnVoidStop     OnVoid = "stop"
)

// Arm is a service under test and how to have it. Exactly one of Command and
// Container is set, or neither: then it runs already at Address.
type Arm struct {
	Name      string            `json:"name"`
	Command   []string          `json:"command,omitempty"`
	Container *Container        `json:"container,omitempty"`
	Env       map[string]string `json:"env,omitempty"`
	// Workdir is relative to the plan's directory.
	Workdir string `json:"workdir,omitempty"`
	// QuotaCPUs is the CFS quota of a command, 0 for none.
	QuotaCPUs float64 `json:"quotaCpus,omitempty"`
	// Address is HOST:PORT, empty when Ready.Log says it.
	Address string `json:"address,omitempty"`
	Ready   Ready  `json:"ready"`
	Stop    Stop   `json:"stop"`
	// Load are the arm's own settings, over those of the plan.
	Load []Setting `json:"load,omitempty"`
	// Agent is another agent's address than the plan's.
	Agent string `json:"agent,omitempty"`
	// Target is cgroup or pid for the embedded agent ("cgroup:/path" or "pid:N"
	// for an arm that runs already), the target's name for an agent at an address.
	Target string `json:"target,omitempty"`
	// Also are further targets that are measured in the windows of its steps.
	Also []Also `json:"also,omitempty"`
}

// Also is a target beside an arm: a downstream, a sidecar, a part of it on
// another host.
type Also struct {
	Name string `json:"name"`
	// Agent is the address of the agent that has it, empty for the arm's own.
	Agent string `json:"agent,omitempty"`
	// Target is its name there; of the embedded agent "cgroup:/path" or "pid:N".
	Target string `json:"target"`
}

// Container is run by an engine's command line: ENGINE run ARGS.
type Container struct {
	Engine string   `json:"engine"`
	Args   []string `json:"args"`
}

// Ready says when an arm serves: all that is set must hold within Timeout.
type Ready struct {
	TCP bool `json:"tcp,omitempty"`
	// HTTP is a path at the arm's address, or a whole URL; Status what it must answer.
	HTTP   string `json:"http,omitempty"`
	Status int    `json:"status,omitempty"`
	// GRPC is a service of the gRPC health protocol; GRPCSet with "" is the server.
	GRPC    string `json:"grpc,omitempty"`
	GRPCSet bool   `json:"grpcSet,omitempty"`
	// Log is a regular expression for a line of the arm's output; its first
	// group is the address where the arm has none.
	Log     string   `json:"log,omitempty"`
	Timeout Duration `json:"timeout"`
}

// Stop is how an arm is ended: a signal, and a kill after Grace.
type Stop struct {
	Signal string   `json:"signal"`
	Grace  Duration `json:"grace"`
}

// Agent says who measures the arms.
type Agent struct {
	// Mode is none, embedded (an agent of the campaign's own, on this host, that
	// runs only while a profiled step does) or address.
	Mode    AgentMode `json:"mode"`
	Address string    `json:"address,omitempty"`
	// RateHz is the sampling rate of an embedded agent.
	RateHz int `json:"rateHz,omitempty"`
}

// AgentMode is where the agent is.
type AgentMode string

// Modes of an agent.
const (
	AgentNone     AgentMode = "none"
	AgentEmbedded AgentMode = "embedded"
	AgentAddress  AgentMode = "address"
)

// Load is how an arm is driven; see `rung load --help` for what each means.
type Load struct {
	Protocol       string   `json:"protocol"`
	Path           string   `json:"path,omitempty"`
	Method         string   `json:"method,omitempty"`
	ContentType    string   `json:"contentType,omitempty"`
	Body           string   `json:"body,omitempty"`
	BodyFile       string   `json:"bodyFile,omitempty"` // relative to the plan's directory
	ReplyLength    int      `json:"replyLength,omitempty"`
	Connections    int      `json:"connections"`
	Streams        int      `json:"streams,omitempty"`
	InFlight       int      `json:"inFlight,omitempty"` // 0 is the driver's default
	Timeout        Duration `json:"timeout"`
	Drain          Duration `json:"drain"`
	ConnectTimeout Duration `json:"connectTimeout"`
	MaxLateness    Duration `json:"maxLateness,omitempty"`
	Poisson        bool     `json:"poisson,omitempty"`
	// Flags are further flags of rung load, as they stand.
	Flags []string `json:"flags,omitempty"`
}

// Spec is the form of every ladder: rates, or a search for the knee.
type Spec struct {
	RatesHz []float64 `json:"ratesHz,omitempty"`
	Knee    *Search   `json:"knee,omitempty"`
	// Step is a step's length. 0: it ends after IterationsPerSlot requests for
	// each request in flight that the driver's cap allows.
	Step              Duration `json:"step"`
	IterationsPerSlot int      `json:"iterationsPerSlot,omitempty"`
	Settle            Duration `json:"settle"`
	Gap               Duration `json:"gap"`
	Warmup            Warmup   `json:"warmup"`
	Rewarm            *Rewarm  `json:"rewarm,omitempty"`
	// Profile are the steps with an agent's window, Control those that are driven
	// once more without: what differs is the profiler's overhead.
	Profile Choice `json:"profileSteps"`
	Control Choice `json:"controlSteps"`
}

// Search expands from StartHz by Factor until a step does not keep up, then
// bisects until the knee is known to Precision.
type Search struct {
	StartHz   float64 `json:"startHz"`
	Factor    float64 `json:"factor"`
	Precision float64 `json:"precision"`
	MaxHz     float64 `json:"maxHz"`
	MaxSteps  int     `json:"maxSteps"`
}

// Warmup comes before a ladder's first step: for a fixed time, or probe by probe
// until cost per request is flat, and the JIT share of a JVM.
type Warmup struct {
	Fixed Duration `json:"fixed,omitempty"`
	// RateHz is offered meanwhile; 0 is the ladder's first rate.
	RateHz float64 `json:"rateHz,omitempty"`
	// Adaptive: the last Over probes, each of length Probe, lie within Within of
	// their mean; at most Max of them.
	Adaptive bool     `json:"adaptive,omitempty"`
	Probe    Duration `json:"probe,omitempty"`
	Within   float64  `json:"within,omitempty"`
	Over     int      `json:"over,omitempty"`
	Max      int      `json:"max,omitempty"`
	// JITWithin: of a JVM with an agent, the share of CPU that its compiler
	// threads take must lie so near its mean as well, in parts of the arm's CPU;
	// and its mean below JITBelow, since compilers with a backlog are flat too.
	JITWithin float64 `json:"jitWithin,omitempty"`
	JITBelow  float64 `json:"jitBelow,omitempty"`
}

// Rewarm drives a step's rate for a while, unmeasured, before a step whose rate
// is at least Jump times the one before.
type Rewarm struct {
	Jump float64  `json:"jump"`
	For  Duration `json:"for"`
}

// Choice of a ladder's steps: all, none, or those of the Top highest rates (in a
// search: of the highest rates that kept up).
type Choice struct {
	All bool `json:"all,omitempty"`
	Top int  `json:"top,omitempty"`
}

// None is a choice of no step.
func (c Choice) None() bool { return !c.All && c.Top == 0 }

// Axis is one parameter of a sweep and its values, as text.
type Axis struct {
	Key    string   `json:"key"`
	Values []string `json:"values"`
}

// Setting is a parameter with a value, as text.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Defaults of a plan.
const (
	DefaultRepeats  = 1
	DefaultRedo     = 2
	DefaultStep     = 10 * time.Second
	DefaultSettle   = 500 * time.Millisecond
	DefaultGap      = 300 * time.Millisecond
	DefaultReady    = 30 * time.Second
	DefaultGrace    = 5 * time.Second
	DefaultRateHz   = 199
	DefaultFactor   = 1.5
	DefaultKneeTo   = 0.05
	DefaultMaxSteps = 40
)

func defaultPlan() Plan {
	return Plan{
		Seed: 1, Repeats: DefaultRepeats, Order: OrderPlan, Redo: DefaultRedo, OnVoid: OnVoidContinue,
		Agent: Agent{Mode: AgentNone},
		Load: Load{
			Body: "realistic", Connections: 1, Timeout: Duration(2 * time.Second), Drain: Duration(2 * time.Second),
			ConnectTimeout: Duration(time.Second),
		},
		Ladder: Spec{
			Step: Duration(DefaultStep), Settle: Duration(DefaultSettle), Gap: Duration(DefaultGap),
			Warmup: Warmup{}, Profile: Choice{All: true},
		},
		KneeRule: ladder.DefaultKneeRule(),
	}
}

// Arm finds an arm by its name.
func (p *Plan) Arm(name string) (Arm, bool) {
	i := slices.IndexFunc(p.Arms, func(a Arm) bool { return a.Name == name })
	if i < 0 {
		return Arm{}, false
	}
	return p.Arms[i], true
}
