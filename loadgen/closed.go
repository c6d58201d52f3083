package loadgen

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ClosedStep is a step of a closed loop: each slot sends its next request when
// its last was answered. It offers no rate, and its latency says nothing about
// any; what waits behind a slow answer is never sent.
type ClosedStep struct {
	Slots int
	// PerSlot bounds the step by a number of requests of each slot; 0 leaves it to
	// Duration. Exactly one is given.
	PerSlot  int
	Duration time.Duration
}

// ClosedResult is what one step of a closed loop sent and got.
//
//	sent = delivered + Σ errors + unanswered
type ClosedResult struct {
	Slots   int     `json:"slots"`
	PerSlot int     `json:"perSlot,omitempty"`
	Seconds float64 `json:"seconds"` // from the first send to the last answer

	Sent       uint64            `json:"sent"`
	Completed  uint64            `json:"completed"`
	Delivered  uint64            `json:"delivered"`
	Errors     map[string]uint64 `json:"errors,omitempty"`
	Unanswered uint64            `json:"unanswered"`
	// Deferred counts attempts that were not sent; the slot tried again, or left.
	Deferred     map[string]uint64 `json:"deferred,omitempty"`
	NotConnected uint64            `json:"notConnected"`
	// SlotsLost left the loop before its end: their connection was gone, or their ids.
	SlotsLost int `json:"slotsLost,omitempty"`

	DeliveredHz float64    `json:"deliveredHz"`
	ServiceMs   *LatencyMs `json:"serviceMs,omitempty"`
	P95Ms       *float64   `json:"p95Ms,omitempty"` // of ServiceMs

	// ClientCPUNs is this process's CPU time over the step.
	ClientCPUNs   uint64             `json:"clientCpuNs"`
	Driver        DriverUse          `json:"driver"`
	ClientLimited []ClientLimit      `json:"clientLimited,omitempty"`
	PerConnection []ConnectionCounts `json:"perConnection,omitempty"`
	StreamsEnded  map[string]uint64  `json:"streamsEnded,omitempty"`
	StreamEnds    *StreamEnds        `json:"streamEnds,omitempty"`
	HTTP2         *HTTP2Figures      `json:"http2,omitempty"`
	HTTP2Absent   string             `json:"http2Absent,omitempty"`
	// Void is the reason why no figure of this step may be used, else empty.
	Void string `json:"void,omitempty"`
}

// Check asserts the identity of a step.
func (r *ClosedResult) Check() error {
	if sum := r.Delivered + total(r.Errors) + r.Unanswered; r.Sent != sum {
		return fmt.Errorf("identity broken: sent %d is not delivered %d + errors %d + unanswered %d", r.Sent, r.Delivered, total(r.Errors), r.Unanswered)
	}
	return nil
}

// ClosedHooks take what a closed loop makes. Both are optional.
type ClosedHooks struct {
	// Lines gets a line "<ms> <status> <cause>" for each request that was sent:
	// its service time, ok or error, and the kind of error or "-".
	Lines io.Writer
	// StepDone gets each finished step. An error ends the run.
	StepDone func(ClosedResult) error
}

// Closed drives the steps of a closed loop in order, each on connections of its
// own. Caps follow the slots: rest-h1 has a connection for each, the others as
// many as cfg says but not more than slots, and grpc-stream at least a stream for
// each connection. The ids of a step follow those of the step before. Its errors
// are those of [Run].
func Closed(ctx context.Context, cfg Config, steps []ClosedStep, hooks ClosedHooks) error {
	cfg.Steps, cfg.Agent = nil, nil
	if len(steps) == 0 {
		return bad("closed", `""`, "at least one number of slots")
	}
	configs := make([]Config, len(steps))
	for i, s := range steps {
		c, err := closedConfig(cfg, s)
		if err != nil {
			return err
		}
		if configs[i] = c; cfg.IDs != nil {
			next := *c.IDs
			next.First += uint64(c.idSlots()) * next.Span
			cfg.IDs = &next
		}
	}
	lines := &lineWriter{w: hooks.Lines}
	for i, s := range steps {
		r, err := runClosed(ctx, configs[i], s, lines)
		if err != nil {
			return err
		}
		if hooks.StepDone != nil {
			if err := hooks.StepDone(r); err != nil {
				return fmt.Errorf("%d slots: %w", s.Slots, err)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("interrupted after %d of %d steps: %w", i+1, len(steps), context.Cause(ctx))
		}
	}
	return lines.flush()
}

// closedConfig is the config of a step's client, validated.
func closedConfig(cfg Config, s ClosedStep) (Config, error) {
	switch {
	case s.Slots < 1 || s.Slots > maxInFlight:
		return cfg, bad("closed", s.Slots, "1 to %d slots", maxInFlight)
	case s.PerSlot < 0 || (s.PerSlot == 0) == (s.Duration == 0):
		return cfg, bad("iterations-per-slot", s.PerSlot, "1 or more, or a --duration instead")
	case s.Duration < 0 || s.Duration > 24*time.Hour:
		return cfg, bad("duration", s.Duration, "above 0 to 24h")
	}
	cfg.IterationsPerSlot = 0
	cfg.MaxInFlight = s.Slots
	cfg.InFlightPerStream = 0
	cfg.Connections = min(max(cfg.Connections, 1), s.Slots)
	if cfg.Protocol == RestH1 {
		cfg.Connections = s.Slots
	}
	if cfg.Protocol == GRPCStream {
		cfg.Streams = min(max(cfg.Streams, cfg.Connections), s.Slots)
	}
	if cfg.IDs != nil {
		ids := *cfg.IDs
		cfg.IDs = &ids
	}
	if err := cfg.Validate(); err != nil {
		return cfg, err
	}
	if s.PerSlot > 0 && cfg.IDs != nil && uint64(s.PerSlot) > cfg.IDs.Span {
		return cfg, bad("id-span", cfg.IDs.Span, "at least --iterations-per-slot %d", s.PerSlot)
	}
	return cfg, nil
}

func runClosed(ctx context.Context, cfg Config, s ClosedStep, lines *lineWriter) (ClosedResult, error) {
	e, err := newEngine(cfg)
	if err != nil {
		return ClosedResult{}, err
	}
	loop := &closedLoop{engine: e, lines: lines}
	e.start(loop)
	defer e.close()
	if err := preflight(ctx, cfg, e); err != nil {
		return ClosedResult{}, err
	}
	r := ClosedResult{Slots: s.Slots, PerSlot: s.PerSlot}
	own, conns := findOwnGroups(), e.connections()
	frames, ended := conns.tapped(), e.ended()
	before := readUse(own)
	watch := &sampler{conns: conns}
	watching, stopWatching := context.WithCancel(context.Background())
	var watched sync.WaitGroup
	watched.Go(func() { watch.run(watching) })

	limit := cfg.Watchdog
	if s.PerSlot == 0 {
		limit = s.Duration + cfg.Timeout + cfg.Drain + cfg.Watchdog
	}
	bounded, cancel := context.WithTimeoutCause(ctx, limit, &watchdogError{limit})
	defer cancel()
	began := monoNow()
	loop.from, loop.to, loop.until = began, math.MaxInt64, math.MaxInt64
	if s.PerSlot == 0 {
		loop.until = began + int64(s.Duration)
	}
	loop.begin(cfg, s.PerSlot)
	loop.await(bounded, s.PerSlot == 0, cfg.Timeout+cfg.Drain)
	over := monoNow()
	c := loop.stop()
	stopWatching()
	watched.Wait()
	after := readUse(own)

	r.Seconds = float64(over-began) / 1e9
	if last := loop.lastAnswer.Load(); last > began {
		r.Seconds = float64(last-began) / 1e9
	}
	r.Sent, r.Completed, r.Delivered, r.Errors, r.Unanswered = c.sent, c.completed, c.delivered, c.errors, c.unanswered
	r.Deferred, r.NotConnected, r.SlotsLost = c.deferred, c.notConnected, int(loop.lost.Load())
	r.DeliveredHz = float64(c.delivered) / r.Seconds
	if r.ServiceMs = latency(c.service); r.ServiceMs != nil {
		p95 := float64(c.service.ValueAtPercentile(95)) / 1e6
		r.P95Ms = &p95
	}
	r.ClientCPUNs = uint64(after.cpu - before.cpu)
	r.Driver = after.since(before, own)
	watch.into(&r.Driver)
	judged := StepResult{ResponseMs: r.ServiceMs, Driver: r.Driver}
	r.ClientLimited = judged.clientLimits()
	r.PerConnection = perConnection(c.conns)
	r.HTTP2, r.HTTP2Absent = conns.http2Since(frames)
	r.StreamsEnded = newly(ended, e.ended())
	switch {
	case ctx.Err() != nil:
		r.Void = fmt.Sprintf("interrupted: %v", context.Cause(ctx))
	case bounded.Err() != nil:
		r.Void = context.Cause(bounded).Error()
	case conns.lost() != nil:
		r.Void = fmt.Sprintf("the service is gone: %v", conns.lost())
	case r.Check() != nil:
		r.Void = r.Check().Error()
	case r.Delivered == 0:
		r.Void = fmt.Sprintf("nothing was delivered; errors %v", r.Errors)
	}
	if f, ok := e.(finisher); ok {
		ending, stop := context.WithTimeout(context.Background(), cfg.Drain)
		defer stop()
		ends := f.finish(ending)
		r.StreamEnds = &ends
	}
	return r, nil
}

// watchdogError is a step that did not end.
type watchdogError struct{ limit time.Duration }

func (e *watchdogError) Error() string {
	return fmt.Sprintf("watchdog: the step did not end within %s", e.limit)
}

// closedLoop is a sink that answers each outcome with the next request.
type closedLoop struct {
	engine engine
	lines  *lineWriter

	from, to int64 // mono ns, what is answered between them is counted
	until    int64 // from then on no more is sent
	tally    *tally
	active   atomic.Int64
	lost     atomic.Int64  // slots that left before the loop's end
	idle     chan struct{} // closed when no slot is left in the loop

	mu         sync.RWMutex // held to hand over
	stopped    bool
	lastAnswer atomic.Int64
}

// begin hands over each slot's first request. perSlot is how many each sends; 0
// is until the end.
func (l *closedLoop) begin(cfg Config, perSlot int) {
	l.tally, l.idle = newTally(1, cfg.Connections), make(chan struct{})
	l.active.Store(int64(cfg.MaxInFlight))
	if perSlot == 0 {
		perSlot = math.MaxInt
	}
	body := newRequestBody(cfg.Body, cfg.IDs)
	for i := range cfg.MaxInFlight {
		ids := body.slotRange(i)
		l.next(request{tally: l.tally, left: perSlot, ids: &ids}, monoNow())
	}
}

// await waits until no slot is left, the loop's end and a grace have passed, or
// ctx is done.
func (l *closedLoop) await(ctx context.Context, ends bool, grace time.Duration) {
	var over <-chan time.Time
	if ends {
		limit := time.NewTimer(time.Duration(l.until-monoNow()) + grace)
		defer limit.Stop()
		over = limit.C
	}
	select {
	case <-over:
	case <-l.idle:
	case <-ctx.Done():
	}
}

// stop lets no slot send on and adds up.
func (l *closedLoop) stop() counts {
	l.mu.Lock()
	l.stopped = true
	l.mu.Unlock()
	l.tally.sendingDone()
	l.tally.seal()
	return l.tally.add()
}

// refusedPause is how long a slot stays away from a peer at its stream limit.
const refusedPause = 10 * time.Millisecond

// record counts what is answered inside the measured part.
func (l *closedLoop) record(r request, shard int, o outcome, at int64) {
	if o.kind == whyMaxStreams {
		// In the goroutine of the slot, which has nothing else to do.
		time.Sleep(refusedPause)
	}
	if at < l.from || at > l.to {
		return
	}
	l.tally.record(r, shard, o, at)
	if o.class == delivered || o.class == failedAnswer || o.class == failed {
		for last := l.lastAnswer.Load(); at > last && !l.lastAnswer.CompareAndSwap(last, at); last = l.lastAnswer.Load() {
		}
		l.lines.write(at-r.started, o)
	}
}

// release sends the slot's next request. A slot whose request was not sent for
// want of a connection or an id leaves: it would spin on a dead service.
func (l *closedLoop) release(r request, o outcome) {
	refused := o.kind == whyMaxStreams
	switch {
	case !refused && (o.class == deferred || o.class == notConnected):
		l.lost.Add(1)
		l.retire()
		return
	case !refused:
		r.left--
	}
	if now := monoNow(); r.left == 0 || now >= l.until || !l.next(r, now) {
		l.retire()
	}
}

func (l *closedLoop) retire() {
	if l.active.Add(-1) == 0 {
		close(l.idle)
	}
}

// next hands over a request, unless the loop has stopped.
func (l *closedLoop) next(r request, now int64) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.stopped {
		return false
	}
	r.started, r.intended = now, now
	l.tally.again()
	l.engine.submit(r)
	return true
}

// lineWriter writes a line for each request. Safe for concurrent use; nil and
// without a writer it does nothing.
type lineWriter struct {
	w   io.Writer
	mu  sync.Mutex
	buf *bufio.Writer
	err error
}

func (l *lineWriter) write(ns int64, o outcome) {
	if l == nil || l.w == nil {
		return
	}
	status, cause := "ok", "-"
	if o.class != delivered {
		status, cause = "error", o.kind
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf == nil {
		l.buf = bufio.NewWriterSize(l.w, 64<<10)
	}
	if _, err := fmt.Fprintf(l.buf, "%.3f %s %s\n", float64(ns)/1e6, status, cause); err != nil && l.err == nil {
		l.err = err
	}
}

func (l *lineWriter) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.buf != nil {
		l.err = errors.Join(l.err, l.buf.Flush())
	}
	if l.err != nil {
		return fmt.Errorf("write the lines: %w", l.err)
	}
	return nil
}

// SlotLadder is 1, 2, 4, … up to a number of slots, that included.
func SlotLadder(most int) []int {
	var all []int
	for c := 1; c < most; c *= 2 {
		all = append(all, c)
	}
	return slices.Compact(append(all, most))
}
