package suite

import (
	"fmt"
	"math"
)

// gap is one thread's account of something beside its truth, which is known to
// lie in a range. All in nanoseconds.
type gap struct {
	who            string
	truth, account float64
	below, above   float64 // how far the account may lie on either side of truth, >= 0
	events         uint64  // intervals or switches, over which the error adds up
}

func (g gap) err() float64 { return g.account - g.truth }

// strain is the error in parts of what is allowed: above 1 the bound is broken.
func (g gap) strain() float64 {
	err, allowed := g.err(), g.above
	if err < 0 {
		err, allowed = -err, g.below
	}
	if err == 0 {
		return 0
	}
	return err / allowed // +Inf where nothing is allowed
}

// sum is one gap of several.
func sum(who string, gaps []gap) gap {
	all := gap{who: who}
	for _, g := range gaps {
		all.truth += g.truth
		all.account += g.account
		all.below += g.below
		all.above += g.above
		all.events += g.events
	}
	return all
}

// worst makes the figure of the thread that is nearest to its bound, or furthest
// beyond, with the signed mean over all. No thread at all fails.
func worst(what, per string, gaps []gap, detail string) Figure {
	if len(gaps) == 0 {
		return Figure{What: what, Unit: "ms", Goal: "something to compare", Detail: join("nothing to compare", detail)}
	}
	at, sum, events, broken := 0, 0.0, uint64(0), 0
	for i, g := range gaps {
		if g.strain() > gaps[at].strain() {
			at = i
		}
		if g.strain() > 1 {
			broken++
		}
		sum += g.err()
		events += g.events
	}
	mean := ""
	if events > 0 {
		mean = fmt.Sprintf("mean %+.0f ns per %s of %d", sum/float64(events), per, events)
	}
	who := gaps[at].who
	if len(gaps) > 1 {
		who = fmt.Sprintf("%s is worst of %d", who, len(gaps))
	}
	if broken > 1 {
		who += fmt.Sprintf(", %d of them out of bounds", broken)
	}
	g := gaps[at]
	return newFigure(what, "ms", g.truth/1e6, g.account/1e6, -g.below/1e6, g.above/1e6, join(who, mean, detail))
}

// Bounds of the figures: a part of the whole, and a time per event.
const (
	clockPart  = 0.002 // of the workload's own clock
	oraclePart = 0.001 // of schedstat
	perEventNs = 4000
)

// slack is part of the whole plus 4 µs per event.
func slack(part, whole float64, events uint64) float64 {
	return part*math.Abs(whole) + perEventNs*float64(events)
}

// join puts the parts that say something in a row.
func join(parts ...string) string {
	out := ""
	for _, p := range parts {
		if p == "" {
			continue
		}
		if out != "" {
			out += "; "
		}
		out += p
	}
	return out
}
