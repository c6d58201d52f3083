package loadgen

import (
	"context"
	"testing"
	"time"
)

// bareLoop wakes at a fixed rate until ctx is done and does nothing else: what
// this machine gives anyone who wants to be on time.
func bareLoop(ctx context.Context, rateHz float64) *LatenessMs {
	w, err := newWaiter(ctx)
	if err != nil {
		return nil
	}
	defer w.close()
	late := newHistogram()
	c := Schedule{RateHz: rateHz, Duration: time.Hour}.Cursor()
	for origin := monoNow(); ctx.Err() == nil; {
		off, _ := c.Next()
		due := origin + int64(off)
		for monoNow() < due && ctx.Err() == nil {
			if w.until(due) != nil {
				return nil
			}
		}
		recordNs(late, monoNow()-due)
	}
	return lateness(late)
}

// A driver without headroom says so every time.
func TestWithoutHeadroom(t *testing.T) {
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	c := testConfig(s)
	for i := range 10 {
		c.Steps = append(c.Steps, Step{Index: i + 1, OfferedHz: 1e6, Duration: 200 * time.Millisecond})
	}
	for _, o := range runSteps(t, c, Hooks{}) {
		if r := o.Result; len(r.ClientLimited) == 0 {
			t.Errorf("step %s: not flagged: lateness %+v, driver %+v", r.Name, r.LatenessMs, r.Driver)
		}
	}
}

// A driver with headroom never does. Whether there was some is for a bare timer
// loop beside it to say: a step in whose time that was late too is no evidence.
func TestWithHeadroom(t *testing.T) {
	s := startService(t, GRPCUnary, "127.0.0.1:0")
	s.delay.Store(int64(50 * time.Millisecond))
	c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 400 * time.Millisecond})
	good := 0
	for range 60 {
		ctx, cancel := context.WithCancel(t.Context())
		bare := make(chan *LatenessMs)
		go func() { bare <- bareLoop(ctx, 500) }()
		r := runSteps(t, c, Hooks{})[0].Result
		cancel()
		// The bounds at a median of 50 ms are 10 ms and 100 ms.
		if l := <-bare; l == nil || l.P99 > 5 || l.Max > 50 {
			t.Logf("no headroom: the bare loop was late by %+v", l)
			continue
		}
		if len(r.ClientLimited) > 0 {
			t.Errorf("flagged: %v; lateness %+v, driver %+v", r.ClientLimited, r.LatenessMs, r.Driver)
		}
		if good++; good == 10 {
			return
		}
	}
	t.Fatalf("the machine gave headroom in %d of 60 steps, want 10", good)
}
