//go:build linux

package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/loadgen"
)

// demoOptions is the whole configuration of a demo; it is kept in demo.json.
type demoOptions struct {
	Arms []string `json:"arms"`
	// Fractions of an arm's own capacity, one step each; the matched rate comes
	// in addition. Empty: the default ladder, filled up to four steps.
	Fractions []float64 `json:"fractions,omitempty"`
	// RatesHz are offered rates for every arm instead; the lowest is the matched rate.
	RatesHz     []float64     `json:"ratesHz,omitempty"`
	Duration    time.Duration `json:"durationNs"`
	Settle      time.Duration `json:"settleNs"`
	Gap         time.Duration `json:"gapNs"`
	Warmup      time.Duration `json:"warmupNs"`
	Calibration time.Duration `json:"calibrationNs"`
	Body        string        `json:"body"`
	// QuotaCPUs is the CFS quota of each arm in CPUs; 0 means none.
	QuotaCPUs   float64 `json:"quotaCpus"`
	RateHz      int     `json:"rateHz"`
	OnVoid      string  `json:"onVoid"`
	MaxInFlight int     `json:"maxInFlight"`
	// Connections 0 leaves the number to the protocol.
	Connections int `json:"connections,omitempty"`
	CodecPasses int `json:"codecPasses,omitempty"`
	PlantNs     int `json:"plantNs,omitempty"`
	// Groups of threads, NAME=REGEXP; the rest is folded.
	Groups []string `json:"groups,omitempty"`

	Output string `json:"-"`
	JSON   bool   `json:"-"`
}

// Policies after a void step.
const (
	onVoidContinue = "continue"
	onVoidStop     = "stop"
)

func defaultDemoOptions() demoOptions {
	return demoOptions{
		Arms:        armNames(),
		Duration:    5 * time.Second,
		Settle:      500 * time.Millisecond,
		Gap:         300 * time.Millisecond,
		Warmup:      2 * time.Second,
		Calibration: 2 * time.Second,
		Body:        "realistic",
		QuotaCPUs:   math.Min(1, 0.2*float64(runtime.NumCPU())),
		RateHz:      999,
		OnVoid:      onVoidContinue,
		MaxInFlight: 256,
	}
}

func newDemoCommand() *cobra.Command {
	o := defaultDemoOptions()
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Profile the bundled arms step by step on this host",
		Long: `Start the bundled arms, each in a cgroup of its own under a CFS quota, find each
one's capacity, drive each up a ladder of offered rates while the agent watches,
and print what every step cost and where the time went.

Needs root, two CPUs to be of use, and what 'rung check' lists. The default run
takes about two and a half minutes. All cgroups and processes are its own and
are removed at the end. An arm runs with GOMAXPROCS at its quota, rounded up.

Exit 0: all steps were measured; a check that broke its bound is printed, and does
not change this. 1: a step is void or a part is missing (the output says which). 2: wrong flags, or this host lacks a requirement.`,
		Example: `  rung demo
  rung demo --arms grpc-unary,grpc-stream --steps 0.5,0.8,1.2
  rung demo --json >demo.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDemo(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.Arms, "arms", o.Arms, "arms to run, in this order")
	f.Var((*numbers)(&o.Fractions), "steps",
		"steps as fractions of each arm's own capacity, 0.01 to 10; the matched rate is added (default "+fractionsText(defaultFractions)+", at least four steps)")
	f.Var((*numbers)(&o.RatesHz), "rates", "steps at these offered rates in requests per second instead, the same for every arm; the lowest is the matched rate")
	f.DurationVar(&o.Duration, "duration", o.Duration, "sending time of a step, 200ms to 10m; a window under 4.3s gives too few blocks for intervals")
	f.DurationVar(&o.Settle, "settle", o.Settle, "head of each step left out of its window, below --duration and --warmup")
	f.DurationVar(&o.Warmup, "warmup", o.Warmup, "length of the warm-up step, 200ms to 10m")
	f.DurationVar(&o.Calibration, "calibrate", o.Calibration, "length of the closed loop that finds an arm's capacity, 200ms to 10m; under 2s a CFS quota blurs it")
	f.StringVar(&o.Body, "body", o.Body, "body tier: tiny or realistic")
	f.Float64Var(&o.QuotaCPUs, "quota", o.QuotaCPUs, "CFS quota of each arm in CPUs, 0.01 or more; 0: none, and no throttling is seen")
	f.IntVar(&o.RateHz, "rate", o.RateHz, "sampling rate of stacks in Hz, 1 to 9999; more costs more CPU on every core")
	f.IntVar(&o.MaxInFlight, "max-in-flight", o.MaxInFlight, "requests in flight at most, 1 to 65536; what goes beyond is overflow and never sent")
	f.IntVar(&o.Connections, "connections", 0, "connections per arm, up to 10000; 0: one per request in flight for rest-h1, else two")
	f.StringVar(&o.OnVoid, "on-void", o.OnVoid, "after a void step: continue (a dead arm is started again) or stop")
	f.IntVar(&o.CodecPasses, "codec-passes", 0, "decode and encode each body this many times, 1 to 64 (a check that the codec layer is true); 0: the arm's default, once")
	f.IntVar(&o.PlantNs, "plant-ns", 0, "burn this many ns per request in a function outside all rules, up to 10000000 (a check that it lands in other)")
	addGroupFlag(f, &o.Groups)
	f.StringVar(&o.Output, "output", "", "directory to make for the run; it must not hold anything (default rung-demo-YYYYMMDD-HHMMSS here)")
	f.BoolVar(&o.JSON, "json", false, "print the report as JSON instead of text")
	return cmd
}

// Validate says what is wrong with the first wrong option, and what would be right.
func (o demoOptions) Validate() error {
	if len(o.Arms) == 0 {
		return fmt.Errorf("--arms names no arm; choose from %s", strings.Join(armNames(), ", "))
	}
	for i, name := range o.Arms {
		if _, ok := findArm(name); !ok {
			return fmt.Errorf("--arms: unknown arm %q; the arms are %s", name, strings.Join(armNames(), ", "))
		}
		if slices.Contains(o.Arms[:i], name) {
			return fmt.Errorf("--arms names %s twice", name)
		}
	}
	for _, f := range o.Fractions {
		if !(f >= 0.01 && f <= 10) {
			return fmt.Errorf("--steps: %v is not a fraction of capacity from 0.01 to 10", f)
		}
	}
	for _, hz := range o.RatesHz {
		if !(hz >= 0.1 && hz <= 1e7) {
			return fmt.Errorf("--rates: %v is outside 0.1 to 1e7 requests per second", hz)
		}
	}
	if len(o.Fractions) > 0 && len(o.RatesHz) > 0 {
		return fmt.Errorf("--steps and --rates exclude each other: give fractions of capacity or requests per second")
	}
	if n := max(len(o.Fractions), len(o.RatesHz)); n > 50 {
		return fmt.Errorf("--steps, --rates: %d steps; give 50 at most", n)
	}
	for _, length := range []struct {
		flag  string
		value time.Duration
	}{{"--duration", o.Duration}, {"--warmup", o.Warmup}, {"--calibrate", o.Calibration}} {
		if length.value < 200*time.Millisecond || length.value > 10*time.Minute {
			return fmt.Errorf("%s %v is outside 200ms to 10m", length.flag, length.value)
		}
	}
	if o.Settle < 0 || o.Settle >= min(o.Duration, o.Warmup) {
		return fmt.Errorf("--settle %v must be from 0 to below --duration %v and --warmup %v", o.Settle, o.Duration, o.Warmup)
	}
	if o.Body != "tiny" && o.Body != "realistic" {
		return fmt.Errorf("--body %q: the tiers are tiny and realistic", o.Body)
	}
	if o.QuotaCPUs != 0 && !(o.QuotaCPUs >= 0.01 && o.QuotaCPUs <= 4096) {
		return fmt.Errorf("--quota %v: give CPUs, 0.01 or more, or 0 for none", o.QuotaCPUs)
	}
	if o.OnVoid != onVoidContinue && o.OnVoid != onVoidStop {
		return fmt.Errorf("--on-void %q: give continue or stop", o.OnVoid)
	}
	if _, err := threadGroups(o.Groups, nil); err != nil {
		return err
	}
	for _, limit := range []struct {
		flag            string
		value, low, top int
	}{
		{"--rate", o.RateHz, 1, 9999},
		{"--max-in-flight", o.MaxInFlight, 1, 65536},
		{"--connections", o.Connections, 0, 65536},
		{"--codec-passes", o.CodecPasses, 0, 64},
		{"--plant-ns", o.PlantNs, 0, 10_000_000},
	} {
		if limit.value < limit.low || limit.value > limit.top {
			return fmt.Errorf("%s %d is outside %d to %d", limit.flag, limit.value, limit.low, limit.top)
		}
	}
	for _, name := range o.Arms {
		if err := o.validateLoad(name); err != nil {
			return fmt.Errorf("--arms %s: %w", name, err)
		}
	}
	return nil
}

// validateLoad asks the driver whether it will take what an arm's ladder is driven
// with, before anything is started.
func (o demoOptions) validateLoad(name string) error {
	arm, _ := findArm(name)
	connections, inFlight := clientShape(arm.protocol, o.Connections, o.MaxInFlight)
	c := loadgen.Config{
		Protocol: loadgen.Protocol(arm.protocol), Address: "127.0.0.1:1", Method: "/package.Service/Method",
		Connections: connections, MaxInFlight: inFlight, Settle: o.Settle, Gap: o.Gap,
	}
	for _, hz := range o.RatesHz {
		c.Steps = append(c.Steps, loadgen.Step{OfferedHz: hz, Duration: o.Duration})
	}
	return flagError(c.Validate())
}

// numbers is a flag's list of numbers, separated by commas. Unlike pflag's own it
// has no default to print when it is empty.
type numbers []float64

func (n *numbers) String() string {
	text := make([]string, len(*n))
	for i, v := range *n {
		text[i] = strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strings.Join(text, ",")
}

// Set adds to the list, so that a flag may be repeated.
func (n *numbers) Set(text string) error {
	for part := range strings.SplitSeq(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil {
			return fmt.Errorf("%q is not a number; give numbers separated by commas", part)
		}
		*n = append(*n, v)
	}
	return nil
}

func (n *numbers) Type() string { return "numbers" }

// warnings says what about the options weakens the figures.
func (o demoOptions) warnings() []string {
	var w []string
	// A block is one CFS period at least.
	if window := o.Duration - o.Settle; window < attribution.MinBlocks*quotaPeriod {
		w = append(w, fmt.Sprintf("windows of %v hold fewer than %d blocks of %v: confidence intervals are marked too few", window, attribution.MinBlocks, quotaPeriod))
	}
	return w
}
