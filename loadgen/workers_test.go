package loadgen

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// The parts of a schedule are disjoint and together the whole.
func TestParts(t *testing.T) {
	for _, s := range []Schedule{
		{RateHz: 1000, Duration: 100 * time.Millisecond},
		{RateHz: 3, Duration: time.Second}, // fewer requests than parts
		{RateHz: 1000, Duration: 100 * time.Millisecond, Poisson: true, Seed: 7},
	} {
		for _, of := range []int{1, 2, 5} {
			var all []time.Duration
			for k := range of {
				c := s.Part(k, of)
				for off, ok := c.Next(); ok; off, ok = c.Next() {
					all = append(all, off)
				}
			}
			slices.Sort(all)
			if want := offsets(s); !slices.Equal(all, want) {
				t.Errorf("%+v in %d parts: %d requests, want the whole schedule's %d", s, of, len(all), len(want))
			}
		}
	}
}

// heldEngine keeps the sender for a while with each request, as a client does
// whose socket is full.
type heldEngine struct {
	hold   time.Duration
	dialer *dialer
	sink   sink
	calls  atomic.Int64
}

func (e *heldEngine) connect(context.Context) error   { return nil }
func (e *heldEngine) start(s sink)                    { e.sink = s }
func (e *heldEngine) preflight(context.Context) error { return nil }
func (e *heldEngine) connections() *dialer            { return e.dialer }
func (e *heldEngine) ended() map[string]uint64        { return nil }
func (e *heldEngine) close()                          {}
func (e *heldEngine) submit(r request) {
	e.calls.Add(1)
	time.Sleep(e.hold)
	e.sink.record(r, 0, outcome{class: delivered}, monoNow())
	e.sink.release(r, outcome{})
}

// Two workers reach what one cannot: each request holds its sender for 4 ms, so
// that one sends fewer than 250/s, and 300/s take two.
func TestTwoWorkersReachWhatOneCannot(t *testing.T) {
	late := map[int]float64{}
	for _, workers := range []int{1, 2} {
		c := Config{
			Protocol: GRPCUnary, Address: "127.0.0.1:1", Method: "/p.S/M", Workers: workers,
			Steps: []Step{{Index: 1, OfferedHz: 300, Duration: time.Second}},
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		e := &heldEngine{hold: 4 * time.Millisecond, dialer: newDialer(c)}
		d := &driver{cfg: c, engine: e, own: findOwnGroups()}
		e.start(d)
		p := d.newPlan(c.Steps[0])
		r := StepResult{}
		d.drive(t.Context(), p, nil, &r)
		if err := r.Check(); err != nil || r.Scheduled != 300 || r.Delivered != 300 {
			t.Fatalf("%d workers: %v, scheduled %d, delivered %d of 300", workers, err, r.Scheduled, r.Delivered)
		}
		late[workers] = r.LatenessMs.Max
	}
	// One sender ends at least 300 × 4 ms - 997 ms late.
	if late[1] < 200 {
		t.Errorf("one worker was late by %v ms at most; it should not have kept up", late[1])
	}
	if late[2] > 0.6*late[1] {
		t.Errorf("two workers were late by up to %v ms, one by %v ms", late[2], late[1])
	}
}

// The cap is the process's, however many workers take slots.
func TestWorkersShareTheCap(t *testing.T) {
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 400, Duration: 600 * time.Millisecond})
	c.Workers = 3
	s.freezeAt(t, 80, c, 300*time.Millisecond)
	r := runSteps(t, c, Hooks{})[0].Result
	if r.Scheduled != 240 || r.Void != "" || r.Delivered != r.Sent {
		t.Fatalf("scheduled %d, void %q, delivered %d of %d", r.Scheduled, r.Void, r.Delivered, r.Sent)
	}
	if want := 120 - uint64(c.MaxInFlight); r.Overflow < want-30 || r.Overflow > want+30 {
		t.Errorf("overflow %d, want about %d", r.Overflow, want)
	}
}
