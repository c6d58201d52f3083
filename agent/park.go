package agent

import (
	"fmt"
	"time"

	"github.com/rungprof/rung/bpf"
)

// parking is the taking of the stacks of a target's threads that sleep when a
// window opens.
type parking struct {
	done chan struct{}
	// Valid when done: how long it took, when it was over, and what weakens it.
	took    time.Duration
	ended   bpf.MonoNs
	warning string
}

// park begins it, beside whatever else the window does: with 10,000 threads it
// takes tens of milliseconds, and neither a closing edge nor another target's
// window waits for it. A thread that has woken before its turn gives no stack;
// its sleep up to then is drawn, or not, like any other.
func (a *Agent) park(w *window) *parking {
	p := &parking{done: make(chan struct{})}
	a.follow.Go(func() {
		defer close(p.done)
		began := now()
		if err := a.kernel.Park(w.slot); err != nil {
			p.warning = fmt.Sprintf("threads that slept from before the window until its end have no stack: %v", err)
		}
		p.ended = now()
		p.took = time.Duration(p.ended - began)
	})
	return p
}

// wait returns when it is over, with a warning where it weakens the window that
// ended at end.
func (p *parking) wait(end bpf.MonoNs) (warning string) {
	<-p.done
	if p.warning == "" && p.ended > end {
		return fmt.Sprintf("the stacks of sleeping threads were not all taken within the window: that took %v", p.took)
	}
	return p.warning
}
