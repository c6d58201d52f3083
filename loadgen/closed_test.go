package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func runClosedSteps(t *testing.T, c Config, steps []ClosedStep, lines *bytes.Buffer) ([]ClosedResult, error) {
	t.Helper()
	var got []ClosedResult
	h := ClosedHooks{StepDone: func(r ClosedResult) error {
		got = append(got, r)
		return r.Check()
	}}
	if lines != nil {
		h.Lines = lines
	}
	err := Closed(t.Context(), c, steps, h)
	return got, err
}

// Each slot sends so many requests, no two with the same id in any step, and each
// has its line.
func TestClosedByCount(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.keep.Store(true)
		s.delay.Store(int64(2 * time.Millisecond))
		c := testConfig(s)
		c.Body, c.ReplyLength = []byte("request @ID@ of the run"), 0
		c.IDs = &IDConfig{Token: "@ID@", First: 1000, Span: 10}
		var lines bytes.Buffer
		got, err := runClosedSteps(t, c, []ClosedStep{{Slots: 1, PerSlot: 10}, {Slots: 4, PerSlot: 10}}, &lines)
		if err != nil || len(got) != 2 {
			t.Fatalf("%d steps, %v", len(got), err)
		}
		for i, slots := range []int{1, 4} {
			r := got[i]
			if r.Slots != slots || r.Void != "" || r.Delivered != r.Sent || r.Sent != uint64(10*slots) || r.SlotsLost != 0 {
				t.Errorf("%d slots: %+v", slots, r)
			}
			if r.ServiceMs == nil || r.ServiceMs.P50 < 1.9 || r.DeliveredHz <= 0 || r.ClientCPUNs == 0 {
				t.Errorf("%d slots: %+v", slots, r)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		seen := map[string]bool{}
		for _, b := range s.bodies {
			if seen[b] {
				t.Errorf("%q was sent twice", b)
			}
			seen[b] = true
		}
		n := uint64(0)
		for line := range strings.Lines(lines.String()) {
			var ms float64
			var status, cause string
			if _, err := fmt.Sscanf(line, "%f %s %s\n", &ms, &status, &cause); err != nil || ms < 1.9 || status != "ok" || cause != "-" {
				t.Errorf("line %q: %v", line, err)
			}
			n++
		}
		if n != got[0].Sent+got[1].Sent {
			t.Errorf("%d lines for %d requests", n, got[0].Sent+got[1].Sent)
		}
	})
}

// Without ids every slot sends all of its requests.
func TestClosedCounts(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.fail.Store(10)
		c := testConfig(s)
		c.ReplyLength = 0
		var lines bytes.Buffer
		got, err := runClosedSteps(t, c, []ClosedStep{{Slots: 6, PerSlot: 20}}, &lines)
		if err != nil || len(got) != 1 {
			t.Fatalf("%d steps, %v", len(got), err)
		}
		r := got[0]
		if p == GRPCStream { // a stream that fails takes its messages with it, and slots
			if r.Sent == 0 || r.StreamsEnded["grpc_RESOURCE_EXHAUSTED"] == 0 {
				t.Errorf("%+v", r)
			}
			return
		}
		if r.Sent != 120 || r.Completed != 120 || total(r.Errors) < 11 || total(r.Errors) > 13 {
			t.Errorf("sent %d, completed %d, errors %v", r.Sent, r.Completed, r.Errors)
		}
		if n := uint64(strings.Count(lines.String(), " error ")); n != total(r.Errors) {
			t.Errorf("%d lines of errors, %v", n, r.Errors)
		}
	})
}

func TestClosedByDuration(t *testing.T) {
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	s.delay.Store(int64(20 * time.Millisecond))
	got, err := runClosedSteps(t, testConfig(s), []ClosedStep{{Slots: 4, Duration: 400 * time.Millisecond}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Four slots of 20 ms deliver 200/s at most.
	if r := got[0]; r.DeliveredHz > 205 || r.DeliveredHz < 60 || r.Delivered != r.Sent {
		t.Errorf("%+v", r)
	}
}

// A step by count that does not end is ended by the watchdog, with its partial figures.
func TestWatchdog(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s)
		c.Watchdog, c.Timeout, c.Drain = 600*time.Millisecond, 20*time.Second, 100*time.Millisecond
		s.at(20, Config{Connections: c.Connections, Streams: c.Streams}, s.freeze)
		began := time.Now()
		got, err := runClosedSteps(t, c, []ClosedStep{{Slots: 4, PerSlot: 1000}}, nil)
		if err != nil || len(got) != 1 {
			t.Fatalf("%d steps, %v", len(got), err)
		}
		r := got[0]
		if !strings.Contains(r.Void, "watchdog") || r.Delivered == 0 || r.Unanswered == 0 || r.Check() != nil {
			t.Errorf("void %q, delivered %d, unanswered %d, %v", r.Void, r.Delivered, r.Unanswered, r.Check())
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// An open-loop step that falls behind its schedule without end is ended too.
func TestWatchdogOfTheOpenLoop(t *testing.T) {
	c := Config{
		Protocol: GRPCUnary, Address: "127.0.0.1:1", Method: "/p.S/M", Timeout: 10 * time.Millisecond, Watchdog: 200 * time.Millisecond,
		Steps: []Step{{Index: 1, OfferedHz: 1000, Duration: 500 * time.Millisecond}},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	e := &heldEngine{hold: 10 * time.Millisecond, dialer: newDialer(c)}
	d := &driver{cfg: c, engine: e, own: findOwnGroups()}
	e.start(d)
	r := StepResult{}
	began := time.Now()
	d.drive(t.Context(), d.newPlan(c.Steps[0]), nil, &r)
	if err := r.Check(); !strings.Contains(r.Void, "watchdog") || err != nil || r.NotConnected == 0 || time.Since(began) > 4*time.Second {
		t.Errorf("after %v: void %q, %v, %d never tried", time.Since(began), r.Void, err, r.NotConnected)
	}
}

func TestClosedErrors(t *testing.T) {
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	for _, tc := range []struct {
		step ClosedStep
		want string
	}{
		{ClosedStep{}, "closed 0: want 1 to"},
		{ClosedStep{Slots: 1}, "iterations-per-slot 0: want 1 or more, or a --duration"},
		{ClosedStep{Slots: 1, PerSlot: 1, Duration: time.Second}, "iterations-per-slot 1"},
		{ClosedStep{Slots: 1, PerSlot: 11}, "id-span 10: want at least"},
	} {
		c := testConfig(s)
		c.Body, c.ReplyLength = []byte("@"), 0
		c.IDs = &IDConfig{Token: "@", First: 1000, Span: 10}
		_, err := runClosedSteps(t, c, []ClosedStep{tc.step}, nil)
		var bad *ConfigError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.step, err, tc.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.at(30, testConfig(s), cancel)
	s.delay.Store(int64(5 * time.Millisecond))
	var r ClosedResult
	err := Closed(ctx, testConfig(s), []ClosedStep{{Slots: 2, PerSlot: 10000}}, ClosedHooks{StepDone: func(got ClosedResult) error { r = got; return nil }})
	if !errors.Is(err, context.Canceled) || !strings.Contains(r.Void, "interrupted") || r.Delivered == 0 {
		t.Errorf("%v, %+v", err, r)
	}
}
