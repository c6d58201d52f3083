package loadgen

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// inProcess joins drivers of one process as `rung load --drivers` joins processes.
type inProcess struct {
	mu    sync.Mutex
	of    int
	ready map[string]int
	all   map[string]chan struct{}
	first map[string]chan int64
}

func newInProcess(of int, steps ...Step) *inProcess {
	p := &inProcess{of: of, ready: map[string]int{}, all: map[string]chan struct{}{}, first: map[string]chan int64{}}
	for _, s := range steps {
		p.all[s.Name()], p.first[s.Name()] = make(chan struct{}), make(chan int64, of)
	}
	return p
}

func (p *inProcess) share(i int) *Share {
	return &Share{Index: i, Of: p.of,
		Begin: func(ctx context.Context, step string) (int64, error) {
			p.mu.Lock()
			if p.ready[step]++; p.ready[step] == p.of {
				close(p.all[step])
			}
			p.mu.Unlock()
			if i > 0 {
				return <-p.first[step], nil
			}
			<-p.all[step]
			return 0, nil
		},
		Announce: func(step string, first int64) error {
			for range p.of - 1 {
				p.first[step] <- first
			}
			return nil
		}}
}

// runShared drives the same steps by several drivers and merges what they got.
func runShared(t *testing.T, of int, config func(i int) Config) []Outcome {
	t.Helper()
	join := newInProcess(of, config(0).Steps...)
	all := make([][]Outcome, of)
	var wg sync.WaitGroup
	for i := range of {
		wg.Go(func() {
			c := config(i)
			c.Share = join.share(i)
			_, err := Run(t.Context(), c, Hooks{StepDone: func(o Outcome) error { all[i] = append(all[i], o); return nil }})
			if err != nil {
				t.Errorf("driver %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	var merged []Outcome
	for n := range all[0] {
		var parts []Outcome
		for i := range of {
			if n < len(all[i]) {
				parts = append(parts, all[i][n])
			}
		}
		o, err := Merge(parts)
		if err != nil {
			t.Fatal(err)
		}
		merged = append(merged, o)
	}
	return merged
}

// Several drivers are one load: each request of the schedule is sent once, the
// edges are the same, and the identities hold of the sums.
func TestDriversAreOneLoad(t *testing.T) {
	for _, poisson := range []bool{false, true} {
		s := startService(t, GRPCUnary, "127.0.0.1:0")
		s.keep.Store(true)
		steps := []Step{{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond}, {Index: 2, OfferedHz: 400, Duration: 500 * time.Millisecond}}
		merged := runShared(t, 3, func(i int) Config {
			c := testConfig(s, steps...)
			c.Poisson, c.Seed, c.Connections = poisson, 5, 1
			c.Body, c.ReplyLength = []byte("request @ID@ of all"), 0
			c.IDs = &IDConfig{Token: "@ID@", First: 100_000 + 100_000*uint64(i), Span: 1000}
			return c
		})
		if len(merged) != 2 {
			t.Fatalf("%d steps", len(merged))
		}
		whole := testConfig(s, steps...)
		whole.Poisson, whole.Seed = poisson, 5
		var sent uint64
		for i, o := range merged {
			r := o.Result
			n, first, last := whole.schedule(steps[i]).Bounds()
			if r.Scheduled != uint64(n) || r.Delivered != r.Sent || r.Void != "" || r.ConnectionsOpen != 3 || len(r.PerConnection) != 3 {
				t.Errorf("poisson %v, step %d: scheduled %d of %d, delivered %d of %d, %d connections, void %q", poisson, i, r.Scheduled, n, r.Delivered, r.Sent, r.ConnectionsOpen, r.Void)
			}
			if r.LastSendMonoNs-r.FirstSendMonoNs != uint64(last-first) || r.DeliveredInWindow == 0 || r.DeliveredInWindow > r.Delivered {
				t.Errorf("step %d: %d ns from first to last send, delivered in window %d", i, r.LastSendMonoNs-r.FirstSendMonoNs, r.DeliveredInWindow)
			}
			if r.ResponseMs == nil || r.LatenessMs == nil || len(o.Hlog) == 0 || !strings.Contains(string(o.ResponseHgrm), "Total count") {
				t.Errorf("step %d: %v, %v, log of %d bytes", i, r.ResponseMs, r.LatenessMs, len(o.Hlog))
			}
			sent += r.Sent
		}
		s.mu.Lock()
		seen := map[string]bool{}
		for _, b := range s.bodies {
			if seen[b] {
				t.Errorf("%q was sent twice", b)
			}
			seen[b] = true
		}
		s.mu.Unlock()
		if got := uint64(len(seen)); got != sent+3 { // and preflight
			t.Errorf("%d requests arrived, %d were sent", got, sent+3)
		}
	}
}

// A part that is void, or client-limited, makes the whole so, and says which it was.
func TestMergeDoubts(t *testing.T) {
	part := func(change func(*StepResult)) Outcome {
		r := StepResult{Name: "01-100", Scheduled: 10, Sent: 10, Errors: map[string]uint64{"reset": 10}}
		change(&r)
		return Outcome{Result: r}
	}
	fine := part(func(*StepResult) {})
	o, err := Merge([]Outcome{fine, part(func(r *StepResult) {
		r.Void, r.Warnings, r.ClientLimited = "gone", []string{"missing: record: away", "connections: 2"}, []ClientLimit{{LimitOwnCPU, "busy"}}
	})})
	r := o.Result
	if err != nil || r.Void != "driver 1: gone" || r.Scheduled != 20 || len(r.ClientLimited) != 1 || r.ClientLimited[0].Why != "driver 1: busy" {
		t.Errorf("%v: %+v", err, r)
	}
	if len(r.Warnings) != 2 || r.Warnings[0] != "missing: driver 1: record: away" || r.Warnings[1] != "driver 1: connections: 2" {
		t.Errorf("%q", r.Warnings)
	}
	if o, err := Merge([]Outcome{fine, part(func(r *StepResult) { r.Sent = 9 })}); err != nil || !strings.Contains(o.Result.Void, "identity broken") {
		t.Errorf("%v, void %q", err, o.Result.Void)
	}
	if _, err := Merge([]Outcome{fine, part(func(r *StepResult) { r.Name = "02-100" })}); err == nil {
		t.Error("steps of two names: no error")
	}
	if _, err := Merge([]Outcome{fine, part(func(r *StepResult) { r.Sent, r.Delivered, r.Scheduled = 11, 1, 11 })}); err == nil || !strings.Contains(err.Error(), "hold 0 answers") {
		t.Errorf("an answer that is in no log: %v", err)
	}
	if _, err := Merge(nil); err == nil {
		t.Error("no parts: no error")
	}
}
