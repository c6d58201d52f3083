package loadgen

import rungv1 "github.com/rungprof/rung/api/rung/v1"

// offset estimates another host's CLOCK_MONOTONIC from the stamps in its
// replies: theirs = ours + ns, within ±bound. The zero value knows nothing.
type offset struct {
	bootID  string
	ns      int64
	bound   int64
	takenAt int64 // our clock
}

// driftShare bounds how far two clocks drift apart: one part in this many. An
// estimate's bound grows with its age by that much.
const driftShare = 10_000

// observe takes one round trip: sent and received on our clock, and the stamp
// made between them on theirs. It keeps the tighter of the estimates.
//
// Of the round trip less their time inside it, an unknown part was the way
// there: the middle is the estimate, half of it the bound.
func (o *offset) observe(sent, received int64, stamp *rungv1.ClockStamp) {
	if stamp == nil || stamp.GetBootId() == "" {
		return
	}
	in, out := int64(stamp.GetReceivedMonoNs()), int64(stamp.GetSentMonoNs())
	fresh := offset{
		bootID:  stamp.GetBootId(),
		ns:      ((in - sent) + (out - received)) / 2,
		bound:   max(((received-sent)-(out-in))/2, 0),
		takenAt: received,
	}
	if o.bootID != fresh.bootID || fresh.bound <= o.boundAt(received) {
		*o = fresh
	}
}

// boundAt is the bound of the estimate at an instant of our clock.
func (o *offset) boundAt(now int64) int64 { return o.bound + (now-o.takenAt)/driftShare }

// get is the offset to use. On this very boot the clocks are one, unless a time
// namespace lies between, which the estimate then contradicts.
func (o *offset) get(ourBootID string) int64 {
	if o.bootID == ourBootID && max(o.ns, -o.ns) <= o.bound {
		return 0
	}
	return o.ns
}
