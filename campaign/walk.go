package campaign

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/rungprof/rung/ladder"
)

// Kind says what a step is for.
type Kind string

// Kinds of steps. Only measured and control steps are read.
const (
	KindWarmup   Kind = "warm-up"
	KindProbe    Kind = "probe"   // of an adaptive warm-up
	KindRewarm   Kind = "re-warm" // before a jump
	KindMeasured Kind = "measured"
	KindControl  Kind = "control" // a measured step's twin without profiling
)

// Step is one planned step of a ladder.
type Step struct {
	// Index counts all steps of the ladder from 0, whatever their kind.
	Index     int     `json:"index"`
	Kind      Kind    `json:"kind"`
	OfferedHz float64 `json:"offeredHz"`
	// Duration is the step's length; of Poisson arrivals bounded by count, the
	// expected one.
	Duration Duration `json:"duration"`
	// Requests, above 0, bound the step by count.
	Requests int    `json:"requests,omitempty"`
	Profile  bool   `json:"profile,omitempty"`
	Seed     uint64 `json:"seed"`
}

// Name is the step's directory: NN-OFFERED, as in 01-1200.
func (s Step) Name() string {
	return fmt.Sprintf("%02d-%s", s.Index, strconv.FormatFloat(s.OfferedHz, 'f', -1, 64))
}

// Unmeasured steps are marked as warm-up in a run directory.
func (s Step) Unmeasured() bool { return s.Kind != KindMeasured && s.Kind != KindControl }

// Done is a finished step, as far as the next one depends on it.
type Done struct {
	Step Step
	// Row is what was measured; a void step carries its flag.
	Row ladder.Step
	// ClientLimited is why the driver was the limit, "" where it was not.
	ClientLimited string
	// Voids is how many attempts at the step were void before this one.
	Voids int
}

func (d Done) void() bool { return d.Row.Has(ladder.FlagVoid) }

// Progress is where a ladder stands.
type Progress struct {
	// Next is the step to drive; with Complete there is none.
	Next     Step
	Complete bool
	// Notes weaken what was measured: a warm-up that did not become flat.
	Notes []string
	// Search is how the search for the knee ended, of a complete ladder with one.
	Search *Verdict
}

// Next says what follows the finished steps of a ladder, which are given in the
// order of their indexes. It is a function of them alone: after a crash, the
// same steps lead on to the same next one. Steps that are not this ladder's are
// an error.
func (l *Ladder) Next(done []Done) (Progress, error) {
	w := &walk{ladder: l, done: done}
	w.run()
	if w.err == nil && w.complete && len(done) > w.index {
		w.err = fmt.Errorf("ladder %s: step %s is there, but the ladder ends with step %d", l.ID, done[w.index].Step.Name(), w.index-1)
	}
	return Progress{Next: w.next, Complete: w.complete, Notes: w.notes, Search: w.verdict}, w.err
}

// walk replays a ladder: drive gives each finished step's outcome, and stops the
// replay at the first that is not there.
type walk struct {
	ladder   *Ladder
	done     []Done
	index    int
	last     float64 // rate of the step before
	next     Step
	complete bool
	notes    []string
	verdict  *Verdict
	err      error
}

// drive asks for a step, whose index and seed it fills in. ok is false when it is
// still to be driven; its caller then returns.
func (w *walk) drive(s Step) (d Done, ok bool) {
	s.Index, s.Seed = w.index, mix(w.ladder.Seed, math.Float64bits(s.OfferedHz), uint64(s.Duration))
	if w.err != nil || w.index >= len(w.done) {
		w.next = s
		return Done{}, false
	}
	d = w.done[w.index]
	if d.Step != s {
		w.err = fmt.Errorf("ladder %s: step %d is %s %s for %s, the schedule has %s %s for %s", w.ladder.ID, w.index,
			d.Step.Kind, d.Step.Name(), d.Step.Duration, s.Kind, s.Name(), s.Duration)
		return Done{}, false
	}
	w.index++
	w.last = s.OfferedHz
	return d, true
}

// full drives a step of the ladder's own length.
func (w *walk) full(kind Kind, hz float64, profile bool) (Done, bool) {
	length, requests := w.ladder.Setting.length(hz)
	return w.drive(Step{Kind: kind, OfferedHz: hz, Duration: length, Requests: requests, Profile: profile})
}

// unmeasured drives a step for its effect on the arm.
func (w *walk) unmeasured(kind Kind, hz float64, length Duration) (Done, bool) {
	return w.drive(Step{Kind: kind, OfferedHz: hz, Duration: length})
}

func (w *walk) run() {
	spec := w.ladder.Setting.Spec
	if !w.warm(spec.Warmup, spec.startHz()) {
		return
	}
	if spec.Knee != nil {
		w.search(spec)
		return
	}
	for i, hz := range spec.RatesHz {
		if _, ok := w.measure(hz, spec.Profile.of(spec.RatesHz, i), spec.Control.of(spec.RatesHz, i)); !ok {
			return
		}
	}
	w.complete = true
}

// of says whether the i-th rate is chosen. Of equal rates all are.
func (c Choice) of(rates []float64, i int) bool {
	if c.All || c.Top == 0 {
		return c.All
	}
	sorted := slices.Clone(rates)
	slices.Sort(sorted)
	sorted = slices.Compact(sorted)
	return rates[i] >= sorted[max(0, len(sorted)-c.Top)]
}

// measure drives a rate: the re-warm where it is due, the step, and its control,
// which goes first in each second repeat.
func (w *walk) measure(hz float64, profile, control bool) (Done, bool) {
	spec := w.ladder.Setting.Spec
	if r := spec.Rewarm; r != nil && w.last > 0 && hz >= r.Jump*w.last && hz > w.last {
		if _, ok := w.unmeasured(KindRewarm, hz, r.For); !ok {
			return Done{}, false
		}
	}
	control = control && profile
	first := control && w.ladder.Repeat%2 == 0
	if first {
		if _, ok := w.full(KindControl, hz, false); !ok {
			return Done{}, false
		}
	}
	d, ok := w.full(KindMeasured, hz, profile)
	if ok && control && !first {
		_, ok = w.full(KindControl, hz, false)
	}
	return d, ok
}

// warm drives the warm-up.
func (w *walk) warm(u Warmup, hz float64) bool {
	if u.RateHz > 0 {
		hz = u.RateHz
	}
	if !u.Adaptive {
		if u.Fixed == 0 {
			return true
		}
		_, ok := w.unmeasured(KindWarmup, hz, u.Fixed)
		return ok
	}
	return w.adaptive(u, hz)
}

func (w *walk) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// ahead gives the steps that are known before any is driven. atMost says that
// there may be fewer: the longest warm-up, and a search that takes all its steps.
func (l *Ladder) ahead() (steps []Step, atMost bool) {
	spec := l.Setting.Spec
	var done []Done
	for {
		p, err := l.Next(done)
		if err != nil || p.Complete || len(done) > maxAhead {
			break
		}
		// Probes without cost are never flat; a search's steps are only counted.
		if spec.Knee != nil && !p.Next.Unmeasured() {
			break
		}
		steps = append(steps, p.Next)
		done = append(done, Done{Step: p.Next})
	}
	if k := spec.Knee; k != nil {
		length, _ := l.Setting.length(k.StartHz) // the longest, where steps are bounded by count
		for range k.MaxSteps {
			steps = append(steps, Step{Index: len(steps), Kind: KindMeasured, Duration: length, Profile: spec.Profile.All})
		}
		for range spec.Profile.Top {
			steps = append(steps, Step{Index: len(steps), Kind: KindMeasured, Duration: length, Profile: true})
		}
		for range controls(spec, k.MaxSteps) {
			steps = append(steps, Step{Index: len(steps), Kind: KindControl, Duration: length})
		}
	}
	return steps, spec.Knee != nil || spec.Warmup.Adaptive
}

const maxAhead = 10 * maxSteps

func controls(spec Spec, searched int) int {
	switch {
	case spec.Control.All && spec.Profile.All:
		return searched
	case spec.Control.All:
		return spec.Profile.Top
	}
	return spec.Control.Top
}
