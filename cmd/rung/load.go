//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
	"github.com/rungprof/rung/arms/payload"
	"github.com/rungprof/rung/loadgen"
)

// loadOptions are the flags of rung load.
type loadOptions struct {
	config      loadgen.Config // all that a flag sets directly
	request     requestOptions
	closed      closedOptions
	selftest    selftestOptions
	drivers     driversOptions
	protocol    string
	onVoid      string
	body        string
	bodyFile    string
	rates       []string
	duration    time.Duration
	warmupRate  float64
	warmup      time.Duration
	agent       string
	agentTarget string
	also        []string
	out         string
	csv         string
	calibrate   time.Duration
	json        bool
	extend      float64
	limited     string // limitedFail or limitedWarn
	args        []string
	// A campaign drives each step of a ladder by a driver of its own: the index
	// of the first step, and that the steps are warm-up.
	firstIndex int
	asWarmup   bool
}

// What a client-limited step does to the exit code.
const (
	limitedFail = "fail"
	limitedWarn = "warn"
)

func newLoadCommand() *cobra.Command {
	var o loadOptions
	cmd := &cobra.Command{
		Use:   "load --protocol PROTOCOL --address HOST:PORT (--rates R1,R2,… | --closed C1,C2,… | --calibrate D) | --selftest",
		Short: "Drive a service up a ladder of offered rates, in an open loop",
		Long: `Drive a running service through steps of rising offered load over persistent
connections, and write what was offered, sent and got to a run directory. With
--agent, an agent's window follows each step and its record and profile are kept
beside the client's figures.

Requests follow an absolute schedule whatever the service does: one that is late
is sent at once, one above --max-in-flight is counted as overflow and never
sent. A step's window is [first send + settle, last send].

On stdout a line '#RUNG-STEP {…}' marks each edge of each window, and --json adds
the results as one JSON object at the end. Progress goes to stderr.

An agent that cannot be reached does not stop the run: the steps it missed carry
a warning that begins with "missing:", which the summary repeats, and the exit
code stays 0. An agent that answers with a refusal (another run holds the
target) ends the run before that step is driven.

A step whose driver had no headroom (late sends, own CPU near what it may use, a
spent quota, …) measured the driver: its result says why in clientLimited. Exit
codes: 0 all steps are sound; 1 a step is void, or the run did not end; 2 wrong
flags; 3 all steps are sound but one or more is client-limited (see
--client-limited).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.args = os.Args[1:]
			if o.selftest.run {
				o.protocol = cmp.Or(o.protocol, string(loadgen.GRPCUnary))
				o.config.Address = "127.0.0.1:1" // the service will say
				if !cmd.Flags().Changed("duration") {
					o.duration = time.Second
				}
				if !cmd.Flags().Changed("body") {
					o.body = string(payload.Tiny)
				}
			}
			// A campaign reads the verdict from the result, and takes another exit
			// code for a failure.
			if cmd.Flags().Changed("first-index") && !cmd.Flags().Changed("client-limited") {
				o.limited = limitedWarn
			}
			if o.config.IterationsPerSlot > 0 && !cmd.Flags().Changed("duration") {
				o.duration = 0
			}
			return runLoad(cmd.Context(), o, cmd.Flags(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f, c := cmd.Flags(), &o.config
	f.StringVar(&o.protocol, "protocol", "", "what the service speaks: rest-h1, rest-h2c, grpc-unary, grpc-server-stream or grpc-stream")
	f.StringVar(&c.Address, "address", "", "`HOST:PORT` of the service")
	f.StringVar(&c.Path, "path", "/echo", "path of the rest protocols, which POST to it")
	f.StringVar(&c.ContentType, "content-type", "application/json", "content type of the rest protocols")
	f.StringVar(&c.Method, "method", "", "gRPC method, /package.Service/Method (default SayHello, Repeat or Chat of the bundled arms)")
	o.request.register(f, c)
	f.StringVar(&o.body, "body", string(payload.Realistic), "body tier: tiny (16 B of JSON, 7 B of protobuf) or realistic (1,309 B, 1,025 B)")
	f.StringVar(&o.bodyFile, "body-file", "", "`FILE` whose bytes are the body, instead of a tier; for gRPC an encoded message without its prefix")
	f.IntVar(&c.ReplyLength, "reply-length", 0, "`bytes` a reply must have, else it counts as bad_body; 0 accepts any")
	f.StringVar(&c.Arm, "arm", "arm", "`NAME` of the arm in the results")
	f.StringVar(&c.Run, "run", "", "id of the run (default from arm and time)")
	f.StringSliceVar(&o.rates, "rates", nil, "offered rates of the steps, requests per second, above 0 to 1e7, in their order")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "length of a step's schedule, above --settle to 24h")
	f.IntVar(&c.IterationsPerSlot, "iterations-per-slot", 0, "end a step after so many requests for each of the --max-in-flight slots (closed loop: of each slot), 1 to 1000000, instead of after --duration")
	f.DurationVar(&c.Settle, "settle", loadgen.DefaultSettle, "head of each step left out of its window, 0 to 1h")
	f.DurationVar(&c.Gap, "gap", loadgen.DefaultGap, "pause after each step, 0 to 1h")
	f.Float64Var(&o.warmupRate, "warmup-rate", 0, "offered rate of the warm-up step (default the first of --rates)")
	f.DurationVar(&o.warmup, "warmup", 0, "length of the warm-up step, which is marked and kept as step 00; 0 leaves it out")
	f.IntVar(&c.Connections, "connections", 1, "connections kept open, 1 to 10000; their number is checked in every step")
	f.IntVar(&c.Streams, "streams", 0, "grpc-stream: streams over all connections, at least one each (default one each)")
	f.IntVar(&c.InFlightPerStream, "in-flight-per-stream", 0, "grpc-stream: messages in flight on each stream at most; 0 shares --max-in-flight among them, whose default is otherwise this times --streams")
	f.IntVar(&c.MaxInFlight, "max-in-flight", 0, "requests in flight at most, over all connections; one due above it is overflow (default 256; rest-h1: one per connection, its limit)")
	f.DurationVar(&c.Timeout, "timeout", loadgen.DefaultTimeout, "limit of one request, 1ms to 5m; it is not sent to the service, and costs rest-h1 the connection")
	f.DurationVar(&c.Drain, "drain", loadgen.DefaultDrain, "wait for answers after a step's last send, 0 to 5m; what comes later is unanswered")
	f.DurationVar(&c.ConnectTimeout, "connect-timeout", loadgen.DefaultConnectTimeout, "limit of connecting, 1ms to 1m")
	f.DurationVar(&c.Lead, "lead", loadgen.DefaultLead, "how far ahead a step is planned, 300ms to 1m: the time an agent has to arm its edge")
	f.DurationVar(&c.MaxLateness, "max-lateness", 0, "drop requests later than this instead of sending them, 0 (never) to 1h")
	f.BoolVar(&c.Poisson, "poisson", false, "Poisson arrivals instead of even ones")
	f.Uint64Var(&c.Seed, "seed", 1, "seed of the Poisson arrivals; step i uses seed + i")
	f.IntVar(&c.Workers, "workers", 1, "goroutines that pace the schedule side by side, 1 to 64; worker w sends requests w, w+WORKERS, …")
	f.IntVar(&o.drivers.drivers, "drivers", 1, "processes that drive the ladder as one load, 1 to 64: one start instant, disjoint schedules, merged results; the totals (--connections, --streams, --max-in-flight) are divided among them")
	f.StringVar(&o.drivers.share, "share", "", "INDEX/OF of a driver among several")
	cobra.CheckErr(f.MarkHidden("share"))
	f.StringVar(&o.agent, "agent", "", "agent to measure with: unix:///PATH or HOST:PORT")
	f.StringVar(&o.agentTarget, "agent-target", "", "`NAME` of the agent's target (default that of --arm)")
	f.StringArrayVar(&o.also, "also", nil, "another target to measure in the same windows, as `ADDRESS=TARGET`; of --agent itself or of an agent on another host; may be repeated")
	f.StringVar(&o.out, "out", "", "`DIR` to write the run to; it must not exist, or be empty")
	f.StringVar(&o.csv, "csv", "", "new `FILE` for a row per step, written as each step ends")
	f.Float64Var(&o.extend, "extend", 0, "if the last step keeps up, one more at this multiple of its rate, above 1 to 10; 0 adds none")
	f.StringVar(&o.onVoid, "on-void", string(loadgen.OnVoidContinue), "after a void step: continue with the next, or stop")
	f.StringVar(&o.limited, "client-limited", limitedFail, "a step that measured the driver and not the service: fail (exit code 3) or warn (exit code 0)")
	f.StringSliceVar(&o.closed.slots, "closed", nil, "instead of a ladder, a closed loop with these numbers of slots, one step each: a slot sends its next request when its last was answered")
	f.StringVar(&o.closed.lines, "lines", "", "closed loop: new `FILE` for a line '<ms> <status> <cause>' per request")
	f.DurationVar(&c.Watchdog, "watchdog", loadgen.DefaultWatchdog, "how long a step may take beyond its schedule, --timeout and --drain, and one by count in all, 100ms to 24h; then it is ended and void")
	f.BoolVar(&o.selftest.run, "selftest", false, "measure the driver itself: a closed loop of 1, 2, 4, … slots against a null service that it starts, --duration each (default 1s); --protocol's default is grpc-unary")
	f.IntVar(&o.selftest.runs, "selftest-runs", 1, "runs of the self-test, whose medians are shown, 1 to 100")
	f.IntVar(&o.selftest.slots, "selftest-slots", 64, "slots of the self-test's last step, 1 to 1024")
	f.BoolVar(&o.selftest.perProcess, "selftest-per-process", true, "measure a client beside it that is started anew for each request")
	f.BoolVar(&o.selftest.once, "once", false, "connect, make one request, and exit")
	cobra.CheckErr(f.MarkHidden("once"))
	f.DurationVar(&o.calibrate, "calibrate", 0, "instead of a ladder, a closed loop of --max-in-flight requests for this long, 100ms to 1h; prints {\"capacityHz\": …}")
	f.BoolVar(&o.json, "json", false, "print the results as JSON on stdout at the end")
	f.IntVar(&o.firstIndex, "first-index", 1, "index of the first step")
	f.BoolVar(&o.asWarmup, "as-warmup", false, "mark all steps as warm-up")
	cobra.CheckErr(f.MarkHidden("first-index"))
	cobra.CheckErr(f.MarkHidden("as-warmup"))
	return cmd
}

// runLoad drives the ladder, or calibrates.
func runLoad(ctx context.Context, o loadOptions, flags *pflag.FlagSet, stdout, stderr io.Writer) error {
	err := o.nonZero()
	var c loadgen.Config
	if err == nil {
		c, err = o.effective()
	}
	if err == nil {
		err = o.drivers.apply(&c, os.Stdin, stdout)
	}
	if err == nil {
		err = validateLoad(ctx, &o, &c)
	}
	if err == nil && o.extend != 0 && !(o.extend > 1 && o.extend <= 10) {
		err = fmt.Errorf("--extend %g: want above 1 to 10, or 0", o.extend)
	}
	if err == nil && o.drivers.drivers != 1 && (o.calibrate != 0 || o.selftest.run || len(o.closed.slots) > 0) {
		err = fmt.Errorf("--drivers %d: several drivers want a ladder of --rates", o.drivers.drivers)
	}
	if err == nil && o.limited != limitedFail && o.limited != limitedWarn {
		err = fmt.Errorf("--client-limited %q: want %s or %s", o.limited, limitedFail, limitedWarn)
	}
	if err == nil && o.config.IterationsPerSlot > 0 && o.duration > 0 {
		err = errors.New("--iterations-per-slot and --duration both say when a step ends; give one")
	}
	if err == nil && o.calibrate == 0 && !o.selftest.run && !o.selftest.once && len(o.closed.slots) == 0 && len(c.Steps) == 0 {
		err = errors.New("neither --rates nor --calibrate nor --closed is given: name the offered rates, as in --rates 100,200,300")
	}
	if err != nil {
		return exitError{exitUsage, flagError(err)}
	}
	tuneDriver()
	if o.selftest.once {
		if err := loadgen.Once(ctx, c); err != nil {
			return exitError{exitFailure, err}
		}
		return nil
	}
	if o.selftest.run {
		return runSelftest(ctx, o, c, stdout, stderr)
	}
	if o.calibrate != 0 {
		return calibrateLoad(ctx, c, o.calibrate, stdout)
	}
	if len(o.closed.slots) > 0 {
		return driveClosed(ctx, o, c, stdout, stderr)
	}
	if o.drivers.drivers != 1 {
		return driveTogether(ctx, o, c, flags, stdout, stderr)
	}
	return driveLoad(ctx, o, c, stdout, stderr)
}

// validateLoad checks the config before and after the method's messages are known,
// which may take a question to the service.
func validateLoad(ctx context.Context, o *loadOptions, c *loadgen.Config) error {
	plain := *c
	plain.IDs = nil
	if err := plain.Validate(); err != nil {
		return err
	}
	if err := o.request.describe(ctx, c); err != nil {
		return err
	}
	return c.Validate()
}

// nonZero refuses a zero where the config would take it for "not given".
func (o *loadOptions) nonZero() error {
	c := o.config
	for _, f := range []struct {
		name string
		zero bool
		want string
	}{
		{"connections", c.Connections == 0, "1 to 10000"},
		{"timeout", c.Timeout == 0, "1ms to 5m0s"},
		{"lead", c.Lead == 0, "300ms to 1m0s"},
		{"workers", c.Workers == 0, "1 to 64"},
		{"connect-timeout", c.ConnectTimeout == 0, "1ms to 1m0s"},
	} {
		if f.zero {
			return &loadgen.ConfigError{Name: f.name, Value: "0", Want: f.want}
		}
	}
	return nil
}

// effective makes the config of the flags, with the ladder and the body.
func (o *loadOptions) effective() (loadgen.Config, error) {
	c := o.config
	c.Protocol, c.OnVoid = loadgen.Protocol(o.protocol), loadgen.OnVoid(o.onVoid)
	if c.Method == "" {
		c.Method = map[loadgen.Protocol]string{
			loadgen.GRPCUnary: echov1.Echo_SayHello_FullMethodName, loadgen.GRPCServerStream: echov1.Echo_Repeat_FullMethodName, loadgen.GRPCStream: echov1.Echo_Chat_FullMethodName,
		}[c.Protocol]
	}
	if c.Run == "" {
		c.Run = c.Arm + "-" + time.Now().UTC().Format("20060102T150405.000")
	}
	var err error
	if c.Body, err = o.bodyBytes(c.Protocol); err != nil {
		return c, err
	}
	if err = o.request.apply(&c); err != nil {
		return c, err
	}
	if c.Steps, err = o.steps(); err != nil {
		return c, err
	}
	if o.agent != "" {
		target := o.agentTarget
		if target == "" {
			target = c.Arm
		}
		c.Agent = &loadgen.AgentConfig{Address: o.agent, Targets: []string{target}}
	}
	if err := o.alsoMeasure(&c); err != nil {
		return c, err
	}
	return c, nil
}

// alsoMeasure adds the further targets, each to its agent.
func (o *loadOptions) alsoMeasure(c *loadgen.Config) error {
	for _, text := range o.also {
		address, target, ok := cutLast(text, "=")
		switch {
		case !ok || address == "" || target == "":
			return fmt.Errorf("--also %q: want ADDRESS=TARGET, as in node-2:7000=db", text)
		case c.Agent == nil:
			return fmt.Errorf("--also %q: it goes with --agent, the arm's own", text)
		}
		agent := c.Agent
		if address != agent.Address {
			i := slices.IndexFunc(c.Also, func(a loadgen.AgentConfig) bool { return a.Address == address })
			if i < 0 {
				i = len(c.Also)
				c.Also = append(c.Also, loadgen.AgentConfig{Address: address})
			}
			agent = &c.Also[i]
		}
		if slices.Contains(agent.Targets, target) {
			return fmt.Errorf("--also %q: this target is named twice", text)
		}
		agent.Targets = append(agent.Targets, target)
	}
	return nil
}

func (o *loadOptions) bodyBytes(p loadgen.Protocol) ([]byte, error) {
	if o.bodyFile != "" {
		b, err := os.ReadFile(o.bodyFile)
		if err != nil {
			return nil, fmt.Errorf("--body-file: %w", err)
		}
		return b, nil
	}
	tier, err := payload.ParseTier(o.body)
	if err != nil {
		return nil, fmt.Errorf("--body: %w", err)
	}
	if p != loadgen.RestH1 && p != loadgen.RestH2C {
		return payload.Proto(tier), nil
	}
	return payload.JSON(tier), nil
}

func (o *loadOptions) steps() ([]loadgen.Step, error) {
	var steps []loadgen.Step
	for i, text := range o.rates {
		hz, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			return nil, fmt.Errorf("--rates %q: want requests per second above 0 to 1e7, separated by commas", text)
		}
		steps = append(steps, loadgen.Step{Index: o.firstIndex + i, OfferedHz: hz, Duration: o.duration, Warmup: o.asWarmup})
	}
	if o.warmup == 0 || len(steps) == 0 {
		return steps, nil
	}
	rate := o.warmupRate
	if rate == 0 {
		rate = steps[0].OfferedHz
	}
	return slices.Insert(steps, 0, loadgen.Step{OfferedHz: rate, Duration: o.warmup, Warmup: true}), nil
}

// flagError spells a field of the config as its flag.
func flagError(err error) error {
	var bad *loadgen.ConfigError
	if errors.As(err, &bad) {
		return fmt.Errorf("--%w", err)
	}
	return err
}
