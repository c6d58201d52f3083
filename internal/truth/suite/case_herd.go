//go:build linux

package suite

import (
	"errors"
	"fmt"
	"time"
)

// herdUnderQuota: threads that sleep and compute under a quota that is too small
// for them. A sleep has a known end, so what it takes longer is a wait to run:
// the judge of the account's wait, and of schedstat's beside it.
func herdUnderQuota(a *attempt) error {
	const percent = 30
	q, err := a.makeQuota(percent)
	if err != nil {
		return err
	}
	o, err := a.observe(plan{
		task:    task{Name: "herd", N: 6, Length: pick(a, 2*time.Second, 8*time.Second)},
		joined:  func(c *child) error { return errors.Join(q.join(c), c.pin(a.host.last())) },
		longest: 100 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	o.everyCase()
	o.add(o.offClock(""))
	var waited, oracle []gap
	throttled := 0.0
	for _, w := range o.worked("") {
		th := o.threads[w.Tid]
		throttled += float64(th.ThrottledNs) / 1e9
		// All time off the CPU less the sleeps' own, and less what a thread is blocked
		// in the Go runtime, whose locks throttled threads may hold.
		asleep, _ := blockedIn(th, sleepReason)
		parked, _ := blockedIn(th, gateReason)
		inRuntime := float64(th.BlockedNs()) - asleep - parked
		truth := float64(w.WallNs) - float64(w.CPUNs) - float64(w.NominalNs) - inRuntime
		s := slack(clockPart, truth, max(w.Waits, th.Switches)) + o.pardonNs
		below, above := s+lateTimerNs*float64(w.Waits), s+float64(w.InCPUNs)+float64(w.Began-w.Told)
		waited = append(waited, gap{who(w), truth, float64(th.RunQueueNs + th.ThrottledNs), below, above, w.Waits})
		last, begun := o.readings[2][w.Tid], o.readings[1][w.Tid]
		oracle = append(oracle, gap{who(w), truth, float64(last.waitNs - begun.waitNs), below, above, w.Waits})
	}
	o.add(worst("throttled + run-queue wait", "sleep", waited, "wall - CPU clock - sleeps - futexes"),
		worst("schedstat's wait beside it", "sleep", oracle, "the same, of the oracle"),
		newFigure("throttled", "thread-s", 0, throttled, 0.5, 1e9, fmt.Sprintf("%d threads; less would show nothing", len(waited))))
	return nil
}

// lateTimerNs is how late a timer of a virtual machine may end a sleep, on the mean.
const lateTimerNs = 50e3
