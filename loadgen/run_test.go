package loadgen

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

func TestSteadySteps(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s,
			Step{Index: 0, OfferedHz: 100, Duration: 200 * time.Millisecond, Warmup: true},
			Step{Index: 1, OfferedHz: 400, Duration: 500 * time.Millisecond})
		var markers bytes.Buffer
		outs := runSteps(t, c, Hooks{Markers: &markers})
		if len(outs) != 2 {
			t.Fatalf("%d steps, want 2", len(outs))
		}
		warm, r := outs[0].Result, outs[1].Result
		if !warm.Warmup || warm.Scheduled != 20 || warm.Name != "00-100" {
			t.Errorf("warm-up: %+v", warm)
		}
		// A shared machine may be late, but every request is accounted for.
		if r.Scheduled != 200 || r.Sent+r.Overflow != 200 || r.Delivered != r.Sent || r.Completed != r.Sent {
			t.Errorf("counts: %+v", r)
		}
		if preflight := uint64(max(c.Connections, c.Streams)); uint64(s.requests.Load()) != preflight+warm.Sent+r.Sent {
			t.Errorf("the service saw %d requests; preflight %d + warm-up %d + step %d were sent", s.requests.Load(), preflight, warm.Sent, r.Sent)
		}
		if r.DeliveredInWindow == 0 || r.DeliveredInWindow > r.Delivered {
			t.Errorf("delivered in window: %d of %d", r.DeliveredInWindow, r.Delivered)
		}
		if r.ConnectionsWanted != c.Connections || r.ConnectionsOpen != c.Connections {
			t.Errorf("connections: %d open, %d wanted", r.ConnectionsOpen, r.ConnectionsWanted)
		}
		if r.Void != "" {
			t.Errorf("void: %s", r.Void)
		}
		if got := r.WindowStartMonoNs - r.FirstSendMonoNs; got != 50e6 {
			t.Errorf("window starts %d ns after the first send, want settle", got)
		}
		if r.WindowEndMonoNs != r.LastSendMonoNs || r.LastSendMonoNs-r.FirstSendMonoNs != 497_500_000 {
			t.Errorf("window ends at %d, last send %d, first %d", r.WindowEndMonoNs, r.LastSendMonoNs, r.FirstSendMonoNs)
		}
		if r.ResponseMs == nil || r.ServiceMs == nil || r.LatenessMs == nil || r.ResponseMs.P50 < r.ServiceMs.P50/1.01 {
			t.Errorf("quantiles: response %v, service %v, lateness %v", r.ResponseMs, r.ServiceMs, r.LatenessMs)
		}
		if r.ClientCPUNs == 0 {
			t.Error("no CPU time of the client")
		}
		checkMarkers(t, markers.String(), outs)
		checkHlog(t, outs[1])
	})
}

func checkMarkers(t *testing.T, text string, outs []Outcome) {
	t.Helper()
	var got []*rungv1.Marker
	for line := range strings.Lines(text) {
		m, ok, err := ParseMarker([]byte(line))
		if !ok || err != nil {
			t.Fatalf("marker %q: ok %v, %v", line, ok, err)
		}
		got = append(got, m)
	}
	if len(got) != 2*len(outs) {
		t.Fatalf("%d markers for %d steps:\n%s", len(got), len(outs), text)
	}
	for i, o := range outs {
		start, end := got[2*i], got[2*i+1]
		if start.Edge != rungv1.Marker_EDGE_START || end.Edge != rungv1.Marker_EDGE_END || start.Step != o.Result.Name || end.Step != o.Result.Name {
			t.Errorf("markers of step %s: %v, %v", o.Result.Name, start, end)
		}
		if start.AtMonoNs != o.Result.WindowStartMonoNs || end.AtMonoNs != o.Result.WindowEndMonoNs {
			t.Errorf("markers of step %s stand at %d and %d, the window at %d and %d", o.Result.Name,
				start.AtMonoNs, end.AtMonoNs, o.Result.WindowStartMonoNs, o.Result.WindowEndMonoNs)
		}
		if start.OfferedHz != o.Result.OfferedHz || start.Run != "run" || start.Arm != "arm" || start.BootId == "" {
			t.Errorf("marker: %v", start)
		}
		if at, err := time.Parse(time.RFC3339Nano, start.AtWall); err != nil || time.Since(at) > time.Minute || time.Since(at) < 0 {
			t.Errorf("wall time %q: %v", start.AtWall, err)
		}
	}
}

// checkHlog reads the log back with the library's reader: the intervals of each
// tag hold the step's answers, and the series the step's counts.
func checkHlog(t *testing.T, o Outcome) {
	t.Helper()
	reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(o.Hlog))
	got := map[string]uint64{}
	for {
		h, err := reader.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		got[h.Tag()] += uint64(h.TotalCount())
	}
	r := o.Result
	if got["response"] != r.Delivered || got["service"] != r.Delivered || got["lateness"] != r.Sent+total(r.Deferred)+r.NotConnected || len(got) != 3 {
		t.Errorf("values by tag: %v, want %d of response and of service, and a lateness of each send", got, r.Delivered)
	}
	var sum Point
	end := 0.0
	for _, p := range o.Points {
		sum.Scheduled, sum.Started, sum.Delivered, sum.Overflow = sum.Scheduled+p.Scheduled, sum.Started+p.Started, sum.Delivered+p.Delivered, sum.Overflow+p.Overflow
		if p.EndSeconds <= end {
			t.Errorf("point at %v s follows one at %v s", p.EndSeconds, end)
		}
		end = p.EndSeconds
	}
	if sum.Scheduled != r.Scheduled || sum.Delivered != r.Delivered || sum.Overflow != r.Overflow || sum.Started != r.Sent+total(r.Deferred)+r.NotConnected {
		t.Errorf("series: %+v, result: %+v", sum, r)
	}
	table, err := SeriesCSV(o.Points)
	if err != nil || bytes.Count(table, []byte("\n")) != len(o.Points)+1 {
		t.Errorf("series of %d points, %v:\n%s", len(o.Points), err, table)
	}
	for _, text := range [][]byte{o.ResponseHgrm, o.ServiceHgrm} {
		if !bytes.Contains(text, []byte("#[Mean")) || !bytes.Contains(text, []byte("Total count")) {
			t.Errorf("hgrm: %s", text)
		}
	}
}

// A step of some seconds has a point for each.
func TestSeries(t *testing.T) {
	t.Parallel()
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 2500 * time.Millisecond})
	var told []Progress
	o := runSteps(t, c, Hooks{Progress: func(p Progress) { told = append(told, p) }})[0]
	checkHlog(t, o)
	if len(o.Points) < 3 || len(o.Points) > 4 {
		t.Fatalf("%d points", len(o.Points))
	}
	// The first two are whole seconds of a hundred sends, give or take what was late.
	for _, p := range o.Points[:2] {
		if p.Scheduled < 60 || p.Scheduled > 140 || p.Response == nil || p.Lateness == nil || p.Cores <= 0 {
			t.Errorf("%+v", p)
		}
	}
	if len(told) < 5 || told[len(told)-1].Last.Scheduled == 0 || told[len(told)-1].Delivered == 0 {
		t.Errorf("progress: %d times, last %+v", len(told), told[len(told)-1])
	}
	for d, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Second, 2 * time.Hour: 2 * time.Second, 24 * time.Hour: 24 * time.Second} {
		if got := pointLength(d); got != want {
			t.Errorf("points of a step of %v are %v, want %v", d, got, want)
		}
	}
}

func TestPoissonStep(t *testing.T) {
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 500, Duration: 300 * time.Millisecond})
	c.Poisson, c.Seed = true, 7
	n, first, last := c.schedule(c.Steps[0]).Bounds()
	r := runSteps(t, c, Hooks{})[0].Result
	if r.Scheduled != uint64(n) || r.LastSendMonoNs-r.FirstSendMonoNs != uint64(last-first) {
		t.Errorf("scheduled %d over %d ns, want %d over %d ns", r.Scheduled, r.LastSendMonoNs-r.FirstSendMonoNs, n, last-first)
	}
}

// A frozen service is what a closed loop hides: the driver keeps the schedule,
// counts what it could not send, and the waits show in the response time.
func TestFrozenServiceOverflows(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 400, Duration: 600 * time.Millisecond})
		s.freezeAt(t, 80, c, 300*time.Millisecond)
		r := runSteps(t, c, Hooks{})[0].Result
		if r.Scheduled != 240 || r.Overflow == 0 || r.Void != "" {
			t.Fatalf("scheduled %d, overflow %d, void %q", r.Scheduled, r.Overflow, r.Void)
		}
		// 300 ms at 400/s are 120 requests, of which the cap lets 4 or 32 through.
		if want := 120 - uint64(c.MaxInFlight); p != RestH1 && (r.Overflow < want-30 || r.Overflow > want+30) {
			t.Errorf("overflow %d, want about %d", r.Overflow, want)
		}
		if !r.CapLimited {
			t.Error("not marked as cap-limited")
		}
		if r.ResponseMs.Max < 250 {
			t.Errorf("longest response %v ms, want about 300", r.ResponseMs.Max)
		}
		if r.Delivered != r.Sent {
			t.Errorf("delivered %d of %d sent; errors %v, unanswered %d", r.Delivered, r.Sent, r.Errors, r.Unanswered)
		}
	})
}

// freezeAt freezes the service when the n-th request arrives, for a while.
func (s *service) freezeAt(t *testing.T, n int, c Config, d time.Duration) {
	t.Helper()
	done := s.at(n, c, func() {
		s.freeze()
		time.Sleep(d)
		s.thaw()
	})
	t.Cleanup(func() { <-done })
}

// What a step left unanswered and the service answers in the next step's window
// counts there as delivered in window, and as delivered nowhere.
func TestAnswersOfAnEarlierStep(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s,
			Step{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond},
			Step{Index: 2, OfferedHz: 20, Duration: 700 * time.Millisecond})
		c.Connections, c.Streams = 1, 0
		if p == GRPCStream {
			c.Streams = 1
		}
		c.MaxInFlight = 1
		c.Timeout, c.Drain = 5*time.Second, 50*time.Millisecond
		// Frozen from the middle of step 1 until the middle of step 2.
		s.freezeAt(t, 10, c, 200*time.Millisecond+c.Drain+c.Gap+MinLead+300*time.Millisecond)
		outs := runSteps(t, c, Hooks{})
		one, two := outs[0].Result, outs[1].Result
		if one.Unanswered != 1 || one.InFlightAtEnd != 1 || two.InFlightAtStart != 1 {
			t.Fatalf("unanswered %d, in flight %d at the end of 1 and %d at the start of 2; want 1 each", one.Unanswered, one.InFlightAtEnd, two.InFlightAtStart)
		}
		if two.Overflow == 0 {
			t.Error("step 2 has no overflow while its one slot was taken")
		}
		// All that step 2 delivered fell into its window, and one more.
		if two.DeliveredInWindow != two.Delivered+1 && two.DeliveredInWindow != two.Delivered {
			t.Errorf("step 2 delivered %d, %d in its window", two.Delivered, two.DeliveredInWindow)
		}
		if two.Sent == 0 || two.DeliveredInWindow < two.Delivered {
			t.Errorf("step 2: sent %d, delivered %d, in window %d", two.Sent, two.Delivered, two.DeliveredInWindow)
		}
	})
}

func TestTimeouts(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 500 * time.Millisecond})
		c.Timeout = 100 * time.Millisecond
		s.freezeAt(t, 15, c, 250*time.Millisecond)
		r := runSteps(t, c, Hooks{})[0].Result
		if r.Errors["timeout"] == 0 {
			t.Fatalf("no timeouts: %+v", r)
		}
		if r.ResponseMs.Max < 99 {
			t.Errorf("longest response %v ms: what timed out is not in it", r.ResponseMs.Max)
		}
		if p == RestH1 {
			return // a timeout costs HTTP/1.1 its connection
		}
		if r.ConnectionsOpen != c.Connections {
			t.Errorf("%d connections at the lowest, want %d", r.ConnectionsOpen, c.Connections)
		}
	})
}

func TestErrorsAreNamed(t *testing.T) {
	want := map[Protocol]string{
		RestH1: "status_500", RestH2C: "status_500",
		GRPCUnary: "grpc_RESOURCE_EXHAUSTED", GRPCServerStream: "grpc_RESOURCE_EXHAUSTED", GRPCStream: "grpc_RESOURCE_EXHAUSTED",
	}
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.fail.Store(10)
		r := runSteps(t, testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 400 * time.Millisecond}), Hooks{})[0].Result
		if r.Errors[want[p]] == 0 || r.Delivered == 0 {
			t.Errorf("errors %v, delivered %d", r.Errors, r.Delivered)
		}
		if p != GRPCStream && r.Completed != r.Delivered+r.Errors[want[p]] {
			t.Errorf("completed %d, delivered %d, errors %v", r.Completed, r.Delivered, r.Errors)
		}
	})
}

func TestBadBody(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 200 * time.Millisecond})
		c.ReplyLength = 17
		_, _, err := tryRun(t, c, Hooks{})
		if err == nil || !strings.Contains(err.Error(), "bad_body") || !strings.Contains(err.Error(), "--reply-length") {
			t.Errorf("preflight: %v", err)
		}
	})
}

func TestMaxLatenessDrops(t *testing.T) {
	t0 := newTally(1, 1)
	d := &driver{cfg: Config{MaxInFlight: 1, MaxLateness: time.Millisecond}}
	s := &sender{d: d, t: t0, side: t0.sides[0]}
	s.release(0, int64(time.Millisecond)+1)
	if s.side.lateDropped != 1 || s.side.scheduled != 1 || s.side.handed != 0 {
		t.Errorf("%+v", s.side)
	}
}

// More streams at once than the peer allows are refused, not queued.
func TestHTTP2StreamLimit(t *testing.T) {
	s := startService(t, RestH2C, "127.0.0.1:0") // 20 streams per connection
	c := testConfig(s, Step{Index: 1, OfferedHz: 400, Duration: 400 * time.Millisecond})
	c.Connections, c.MaxInFlight = 1, 60
	s.freezeAt(t, 40, c, 250*time.Millisecond)
	r := runSteps(t, c, Hooks{})[0].Result
	if r.Deferred["max_streams"] == 0 {
		t.Errorf("deferred %v, sent %d, overflow %d", r.Deferred, r.Sent, r.Overflow)
	}
}

func TestStepDoneErrorEndsTheRun(t *testing.T) {
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 100 * time.Millisecond}, Step{Index: 2, OfferedHz: 100, Duration: 100 * time.Millisecond})
	full := errors.New("disk full")
	sum, err := Run(t.Context(), c, Hooks{StepDone: func(Outcome) error { return full }})
	if !errors.Is(err, full) || sum.Steps != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// A step is void by the driver's reason, or else by an agent's.
func TestOutcomeVoid(t *testing.T) {
	void := AgentRecord{Record: &rungv1.StepRecord{VoidReason: "target vanished"}}
	for want, o := range map[string]Outcome{
		"":                       {Agent: []AgentRecord{{Record: &rungv1.StepRecord{}}}},
		"agent: target vanished": {Agent: []AgentRecord{{}, void}},
		"arm died":               {Result: StepResult{Void: "arm died"}, Agent: []AgentRecord{void}},
	} {
		var sum Summary
		sum.Add(o)
		if got := o.void(); got != want || (len(sum.Void) == 1) != (want != "") {
			t.Errorf("%q, summary %v; want %q", got, sum.Void, want)
		}
	}
}
