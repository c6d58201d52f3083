package loadgen

import (
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"
)

// Protocol is what is spoken to the arm.
type Protocol string

// The protocols, each on persistent connections, with TLS or without.
const (
	RestH1           Protocol = "rest-h1"            // HTTP/1.1, one request in flight per connection
	RestH2C          Protocol = "rest-h2c"           // HTTP/2 with prior knowledge; with TLS it is h2, by ALPN
	GRPCUnary        Protocol = "grpc-unary"         // one call per request
	GRPCServerStream Protocol = "grpc-server-stream" // one call per request, whose answer is a stream and ends with its status
	GRPCStream       Protocol = "grpc-stream"        // bidi streams; a request is a message, its reply the next message back
)

// Protocols lists them.
func Protocols() []Protocol {
	return []Protocol{RestH1, RestH2C, GRPCUnary, GRPCServerStream, GRPCStream}
}

// gRPC says whether a request is a gRPC message.
func (p Protocol) gRPC() bool { return p == GRPCUnary || p == GRPCServerStream || p == GRPCStream }

// OnVoid says what follows a void step.
type OnVoid string

// What follows a void step: the next one, or the end of the run.
const (
	OnVoidContinue OnVoid = "continue"
	OnVoidStop     OnVoid = "stop"
)

// Step is one planned step of a ladder.
type Step struct {
	// Index is 0 for a warm-up step, then 1, 2, …
	Index     int
	OfferedHz float64
	Duration  time.Duration
	Warmup    bool
}

// Name is the step's name, NN-OFFERED, as in 01-1200 or 02-12.5.
func (s Step) Name() string {
	return fmt.Sprintf("%02d-%s", s.Index, strconv.FormatFloat(s.OfferedHz, 'f', -1, 64))
}

// Config is a whole run. Caps are totals of the process, not per connection.
type Config struct {
	Run      string // names the run to the agent and in markers
	Arm      string
	Protocol Protocol
	Address  string // host:port
	// TLS is the client's side of it; nil speaks plain text. ALPN is the driver's.
	TLS *tls.Config
	// HTTPMethod, Path and ContentType are for the REST protocols.
	HTTPMethod  string
	Path        string
	ContentType string
	// Headers are lines "name: value", sent with every request, and as metadata
	// with every gRPC call.
	Headers []string
	// Method is gRPC's full method name, /package.Service/Method.
	Method string
	// Body is the request's bytes as they travel. It is not changed.
	Body []byte
	// ReplyLength is the length a reply must have; 0 accepts any, but an HTTP
	// reply must not be empty.
	ReplyLength int
	// SuccessStatus lists the answers that count as delivered: HTTP statuses and
	// ranges of them (default 200), or gRPC codes (default OK).
	SuccessStatus []string
	// Accept judges the message that ends an answer with OK, of gRPC only: nil
	// takes any. It is called concurrently and may not keep the bytes.
	Accept func(message []byte) bool
	// IDs makes each request differ by an id; nil sends them all alike.
	IDs *IDConfig

	Connections int
	// Streams is the number of bidi streams over all connections; grpc-stream only.
	Streams int
	// InFlightPerStream caps the messages in flight on each stream; 0 shares
	// MaxInFlight among them.
	InFlightPerStream int
	// MaxInFlight caps the requests in flight; one due above it is overflow.
	MaxInFlight int

	// Timeout bounds a request from the moment it is started. No deadline
	// travels to the service, which would add to its work.
	Timeout time.Duration
	// Drain bounds the wait for answers after the last send.
	Drain time.Duration
	// Settle is left out of the window at its start.
	Settle time.Duration
	// Watchdog is how long a step may take beyond its schedule, Timeout and Drain,
	// and a closed loop's by count in all; one that takes longer is ended and void.
	Watchdog time.Duration
	// Gap separates a step's drain from the next step.
	Gap time.Duration
	// Lead is how far ahead of its first send a step is planned, so that its
	// edges can be armed in time.
	Lead time.Duration
	// ConnectTimeout bounds one attempt to connect.
	ConnectTimeout time.Duration
	// MaxLateness drops a request that is later than this; 0 sends it however late.
	MaxLateness time.Duration

	Poisson bool
	Seed    uint64 // of the Poisson process; step i uses Seed + i
	// Workers walk a step's schedule side by side, worker w its requests w,
	// w + Workers, …: each paces itself, none waits for another.
	Workers int

	Share *Share // nil: this process is the whole load

	OnVoid OnVoid
	Steps  []Step
	// IterationsPerSlot bounds the steps whose Duration is 0 by count: each ends
	// after so many requests for every one of the MaxInFlight slots.
	IterationsPerSlot int
	Agent             *AgentConfig // nil drives without an agent
	// Also are further agents beside Agent, of other hosts: their windows have the
	// same edges.
	Also []AgentConfig
}

// Defaults of the fields that have one.
const (
	DefaultMaxInFlight    = 256
	DefaultTimeout        = 2 * time.Second
	DefaultDrain          = 2 * time.Second
	DefaultSettle         = 500 * time.Millisecond
	DefaultGap            = 300 * time.Millisecond
	DefaultLead           = 400 * time.Millisecond
	DefaultConnectTimeout = time.Second
	DefaultWatchdog       = 10 * time.Minute
	MinLead               = 300 * time.Millisecond

	maxWorkers     = 64
	maxConnections = 10_000
	maxInFlight    = 100_000
	maxRateHz      = 1e7
)

// ConfigError is a field that cannot be driven with. Name is the field's name
// as the flag of rung load spells it.
type ConfigError struct {
	Name, Value, Want string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s %s: want %s", e.Name, e.Value, e.Want)
}

func bad(name string, value any, want string, args ...any) error {
	return &ConfigError{Name: name, Value: fmt.Sprint(value), Want: fmt.Sprintf(want, args...)}
}

// fill sets the defaults of the fields that are zero and have one.
func (c *Config) fill() {
	c.HTTPMethod = or(c.HTTPMethod, "POST")
	c.Path = or(c.Path, "/")
	c.ContentType = or(c.ContentType, "application/json")
	c.Connections = or(c.Connections, 1)
	if c.Protocol == GRPCStream {
		c.Streams = or(c.Streams, c.Connections)
		c.MaxInFlight = or(c.MaxInFlight, c.Streams*c.InFlightPerStream)
	}
	if c.Protocol == RestH1 {
		c.MaxInFlight = or(c.MaxInFlight, c.Connections)
	}
	c.MaxInFlight = or(c.MaxInFlight, max(DefaultMaxInFlight, c.Connections, c.Streams))
	c.Timeout = or(c.Timeout, DefaultTimeout)
	c.Watchdog = or(c.Watchdog, DefaultWatchdog)
	c.Lead = or(c.Lead, DefaultLead)
	c.ConnectTimeout = or(c.ConnectTimeout, DefaultConnectTimeout)
	c.OnVoid = or(c.OnVoid, OnVoidContinue)
	c.Workers = or(c.Workers, 1)
	c.countSteps()
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Validate fills the defaults in and returns the first field that cannot be
// driven with, a *ConfigError.
func (c *Config) Validate() error {
	c.fill()
	if err := c.validateClient(); err != nil {
		return err
	}
	for _, d := range []struct {
		name     string
		v        time.Duration
		min, max time.Duration
	}{
		{"timeout", c.Timeout, time.Millisecond, 5 * time.Minute},
		{"drain", c.Drain, 0, 5 * time.Minute},
		{"watchdog", c.Watchdog, 100 * time.Millisecond, 24 * time.Hour},
		{"settle", c.Settle, 0, time.Hour},
		{"gap", c.Gap, 0, time.Hour},
		{"lead", c.Lead, MinLead, time.Minute},
		{"connect-timeout", c.ConnectTimeout, time.Millisecond, time.Minute},
		{"max-lateness", c.MaxLateness, 0, time.Hour},
	} {
		if d.v < d.min || d.v > d.max {
			return bad(d.name, d.v, "%s to %s", d.min, d.max)
		}
	}
	if c.OnVoid != OnVoidContinue && c.OnVoid != OnVoidStop {
		return bad("on-void", strconv.Quote(string(c.OnVoid)), "%s or %s", OnVoidContinue, OnVoidStop)
	}
	if c.IterationsPerSlot < 0 || c.IterationsPerSlot > 1e6 {
		return bad("iterations-per-slot", c.IterationsPerSlot, "0 (none) to 1000000")
	}
	for _, s := range c.Steps {
		if err := c.validateStep(s); err != nil {
			return err
		}
	}
	return c.validateAgents()
}

// validateClient checks what a calibration needs too.
func (c *Config) validateClient() error {
	known := false
	for _, p := range Protocols() {
		known = known || c.Protocol == p
	}
	if !known {
		return bad("protocol", strconv.Quote(string(c.Protocol)), "one of %v", Protocols())
	}
	if _, port, err := net.SplitHostPort(c.Address); err != nil || port == "" || port == "0" {
		return bad("address", strconv.Quote(c.Address), "HOST:PORT of a running service, as in 127.0.0.1:8080")
	}
	if c.Protocol.gRPC() && (len(c.Method) < 4 || c.Method[0] != '/') {
		return bad("method", strconv.Quote(c.Method), "a gRPC method, as in /package.Service/Method")
	}
	if c.Connections < 1 || c.Connections > maxConnections {
		return bad("connections", c.Connections, "1 to %d", maxConnections)
	}
	if c.MaxInFlight < 1 || c.MaxInFlight > maxInFlight {
		return bad("max-in-flight", c.MaxInFlight, "1 to %d", maxInFlight)
	}
	switch c.Protocol {
	case RestH1:
		if c.MaxInFlight > c.Connections {
			return bad("max-in-flight", c.MaxInFlight, "1 to %d with --protocol rest-h1: a connection carries one request at a time (raise --connections, or leave --max-in-flight out)", c.Connections)
		}
	case GRPCStream:
		if c.Streams < c.Connections || c.Streams > maxConnections {
			return bad("streams", c.Streams, "%d to %d: at least one per connection", c.Connections, maxConnections)
		}
		if c.MaxInFlight < c.Streams {
			return bad("max-in-flight", c.MaxInFlight, "%d to %d: at least one per stream", c.Streams, maxInFlight)
		}
	default:
		if c.MaxInFlight < c.Connections {
			return bad("max-in-flight", c.MaxInFlight, "%d to %d: at least one per connection", c.Connections, maxInFlight)
		}
	}
	if c.InFlightPerStream < 0 || c.InFlightPerStream > 0 && c.Protocol != GRPCStream {
		return bad("in-flight-per-stream", c.InFlightPerStream, "0 or more, and only with --protocol %s", GRPCStream)
	}
	if c.Accept != nil && !c.Protocol.gRPC() {
		return bad("success-when", "given", "a gRPC protocol: a predicate reads a message")
	}
	if _, err := newReplyRule(*c); err != nil {
		return err
	}
	if _, err := parseHeaders(c.Headers); err != nil {
		return err
	}
	if c.IDs != nil {
		// Preflight has slots of its own.
		if err := c.IDs.validate(c.idSlots(), c.Body); err != nil {
			return err
		}
	}
	if c.Share != nil {
		if err := c.Share.validate(); err != nil {
			return err
		}
	}
	if c.Workers < 1 || c.Workers > maxWorkers {
		return bad("workers", c.Workers, "1 to %d", maxWorkers)
	}
	if c.ReplyLength < 0 {
		return bad("reply-length", c.ReplyLength, "0 (any) or the exact number of bytes")
	}
	return nil
}

func (c *Config) validateStep(s Step) error {
	rate, length := "rates", "duration"
	if s.Warmup {
		rate, length = "warmup-rate", "warmup"
	}
	if !(s.OfferedHz > 0 && s.OfferedHz <= maxRateHz) {
		return bad(rate, s.OfferedHz, "above 0 to %g requests per second", maxRateHz)
	}
	if s.Duration == 0 && c.IterationsPerSlot > 0 {
		return bad("iterations-per-slot", c.IterationsPerSlot, "a count that ends within 24h and %d requests: %d slots at %g requests per second", maxCounted, c.MaxInFlight, s.OfferedHz)
	}
	if s.Duration <= 0 || s.Duration > 24*time.Hour {
		return bad(length, s.Duration, "above 0 to 24h")
	}
	n, first, last := c.schedule(s).Bounds()
	if n < 2 || last-first <= c.Settle {
		return bad(length, s.Duration, "long enough that sends remain after --settle %s: at %g requests per second the last of %d is due at %s",
			c.Settle, s.OfferedHz, n, last.Round(time.Millisecond))
	}
	return nil
}

// idSlots is how many slots' ids a run uses, those of preflight included.
func (c *Config) idSlots() int { return c.MaxInFlight + max(c.Connections, c.Streams) }

func (c *Config) scheme() string {
	if c.TLS != nil {
		return "https"
	}
	return "http"
}

// schedule is the schedule of a step.
func (c *Config) schedule(s Step) Schedule {
	return Schedule{RateHz: s.OfferedHz, Duration: s.Duration, Poisson: c.Poisson, Seed: c.Seed + uint64(s.Index)}
}
