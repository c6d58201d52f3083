package loadgen

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service that drops a connection in mid-step and goes on listening costs
// some requests and a warning, not the step.
func TestConnectionDropMidStep(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.delay.Store(int64(5 * time.Millisecond)) // so that something is in flight
		c := testConfig(s, Step{Index: 1, OfferedHz: 300, Duration: 600 * time.Millisecond})
		cut := s.at(60, c, func() { s.cut(1) })
		r := runSteps(t, c, Hooks{})[0].Result
		<-cut
		if r.Void != "" {
			t.Fatalf("void: %s", r.Void)
		}
		// grpc-go may have opened it again before the lower number was seen.
		if r.ConnectionsOpen != c.Connections-1 && (p != GRPCUnary && p != GRPCStream || r.ConnectionsOpen != c.Connections) {
			t.Errorf("%d connections at the lowest, want %d", r.ConnectionsOpen, c.Connections-1)
		}
		if !hasWarning(r, "connections: ", "1 opened again") {
			t.Errorf("warnings: %q", r.Warnings)
		}
		if lost := total(r.Errors) + r.NotConnected; lost > 60 {
			t.Errorf("errors %v, not connected %d of %d", r.Errors, r.NotConnected, r.Scheduled)
		}
		if r.Delivered < 100 {
			t.Errorf("delivered %d of %d", r.Delivered, r.Scheduled)
		}
	})
}

func hasWarning(r StepResult, parts ...string) bool {
	for _, w := range r.Warnings {
		all := true
		for _, p := range parts {
			all = all && strings.Contains(w, p)
		}
		if all {
			return true
		}
	}
	return false
}

// A service that dies voids its step and fails the later ones fast.
func TestServiceDies(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		long := Step{Index: 1, OfferedHz: 200, Duration: 20 * time.Second}
		c := testConfig(s, long, Step{Index: 2, OfferedHz: 200, Duration: time.Second})
		c.ConnectTimeout = 200 * time.Millisecond
		s.at(50, c, s.kill)
		began := time.Now()
		outs, sum, err := tryRun(t, c, Hooks{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the run took %v after its service died", took)
		}
		if len(sum.Void) != 2 || sum.Stopped {
			t.Fatalf("summary: %+v", sum)
		}
		one, two := outs[0].Result, outs[1].Result
		if !strings.Contains(one.Void, "the service is gone") || one.Scheduled != 4000 || one.NotConnected < 3000 {
			t.Errorf("step 1: void %q, scheduled %d, not connected %d", one.Void, one.Scheduled, one.NotConnected)
		}
		if one.WindowEndMonoNs < one.WindowStartMonoNs || one.LastSendMonoNs < one.FirstSendMonoNs {
			t.Errorf("step 1: window %d to %d, sends %d to %d", one.WindowStartMonoNs, one.WindowEndMonoNs, one.FirstSendMonoNs, one.LastSendMonoNs)
		}
		if !strings.Contains(two.Void, "not connected") || two.NotConnected != 200 || two.Scheduled != 200 {
			t.Errorf("step 2: void %q, not connected %d of %d", two.Void, two.NotConnected, two.Scheduled)
		}
	})
}

func TestOnVoidStop(t *testing.T) {
	s := startService(t, RestH1, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 20 * time.Second}, Step{Index: 2, OfferedHz: 200, Duration: time.Second})
	c.OnVoid = OnVoidStop
	s.at(30, c, s.kill)
	_, sum, err := tryRun(t, c, Hooks{})
	if err != nil || !sum.Stopped || sum.Steps != 1 || len(sum.Void) != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// A service that is started again at the same address gets the next step.
func TestServiceComesBack(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 20 * time.Second}, Step{Index: 2, OfferedHz: 100, Duration: 200 * time.Millisecond})
		c.Gap = 300 * time.Millisecond
		restarted := s.at(30, c, func() {
			s.kill()
			time.Sleep(200 * time.Millisecond)
			startService(t, p, s.address)
		})
		outs := runSteps(t, c, Hooks{})
		<-restarted
		if outs[0].Result.Void == "" {
			t.Error("step 1 is not void")
		}
		if r := outs[1].Result; r.Void != "" || r.Delivered == 0 || r.ConnectionsOpen != c.Connections {
			t.Errorf("step 2: void %q, delivered %d, %d connections", r.Void, r.Delivered, r.ConnectionsOpen)
		}
	})
}

func TestNoService(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		c := testConfig(&service{protocol: p, address: "127.0.0.1:1"}, Step{Index: 1, OfferedHz: 100, Duration: time.Second})
		_, _, err := tryRun(t, c, Hooks{})
		if !errors.Is(err, syscall.ECONNREFUSED) && (err == nil || !strings.Contains(err.Error(), "refused")) {
			t.Fatalf("error: %v", err)
		}
		for _, part := range []string{string(p), "127.0.0.1:1", "start the service"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	})
}

// A service of another protocol fails in preflight, within the timeout.
func TestWrongProtocol(t *testing.T) {
	for _, pair := range [][2]Protocol{{RestH1, RestH2C}, {RestH2C, RestH1}, {RestH1, GRPCUnary}, {GRPCStream, RestH1}, {RestH1, GRPCStream}} {
		t.Run(string(pair[0])+" driven as "+string(pair[1]), func(t *testing.T) {
			s := startService(t, pair[0], "127.0.0.1:0")
			c := testConfig(s)
			c.Protocol = pair[1]
			c.MaxInFlight, c.Streams = 0, 0
			c.Timeout, c.ConnectTimeout = 300*time.Millisecond, 300*time.Millisecond
			c.Steps = []Step{{Index: 1, OfferedHz: 100, Duration: time.Second}}
			began := time.Now()
			_, _, err := tryRun(t, c, Hooks{})
			if err == nil || !strings.Contains(err.Error(), "preflight") {
				t.Fatalf("error: %v", err)
			}
			t.Log(err)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// An interrupted run ends at once, keeps its step as void and says so.
func TestInterrupt(t *testing.T) {
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 30 * time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	s.at(20, c, cancel)
	began := time.Now()
	var r StepResult
	_, err := Run(ctx, c, Hooks{StepDone: func(o Outcome) error { r = o.Result; return nil }})
	if !errors.Is(err, context.Canceled) || time.Since(began) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if !strings.Contains(r.Void, "interrupted") || r.Check() != nil {
		t.Errorf("void %q, %v", r.Void, r.Check())
	}
}

func TestCalibrate(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.delay.Store(int64(10 * time.Millisecond))
		c := testConfig(s)
		// Streams answer in turn: their delay bounds each to 100/s. Else it is
		// each slot's.
		parallel := c.MaxInFlight
		if p == GRPCStream {
			parallel = c.Streams
		}
		if p == RestH1 {
			parallel = c.Connections
		}
		got, err := Calibrate(t.Context(), c, 700*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		want := float64(parallel) * 100
		if got.CapacityHz > want*1.02 || got.CapacityHz < want*0.3 {
			t.Errorf("capacity %v/s, want up to %v/s", got.CapacityHz, want)
		}
		if len(got.Errors) > 0 || got.ServiceMs == nil {
			t.Errorf("%+v", got)
		}
	})
}

func TestCalibrateDeadService(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s)
		s.at(200, c, s.kill)
		began := time.Now()
		_, err := Calibrate(t.Context(), c, 5*time.Second)
		if err == nil {
			t.Error("no error")
		}
		if took := time.Since(began); took > 7*time.Second {
			t.Errorf("took %v", took)
		}
	})
}
