package campaign

import "math"

// adaptive drives probes until the arm is warm, at most Max of them. A probe that
// measured nothing parts those before it from those after: they are not
// neighbours.
//
// Warm is when cost per request is flat. A JVM's cost can be flat while its
// compilers work evenly, and then fall: so of a JVM the JIT share has to be flat
// too, and low. Whether the arm is one, the agent's record of the first probe tells; the
// probes of other arms go without the agent, which has its price.
func (w *walk) adaptive(u Warmup, hz float64) bool {
	profile := !w.ladder.Setting.Spec.Profile.None()
	watch, jvm := profile, false
	var costs, shares []float64
	for range u.Max {
		d, ok := w.drive(Step{Kind: KindProbe, OfferedHz: hz, Duration: u.Probe, Profile: watch})
		if !ok {
			return false
		}
		cost, share := d.Row.CPUMsPerRequest, d.Row.JITShare
		if d.Row.Profiled {
			jvm = jvm || share != nil
			watch = jvm
		}
		if cost == nil || d.void() || jvm && share == nil {
			costs, shares = nil, nil
			continue
		}
		costs = append(costs, *cost)
		if share != nil {
			shares = append(shares, *share)
		}
		if flat(costs, u.Over, u.Within) && (!jvm || near(shares, u.Over, u.JITWithin) && meanOfLast(shares, u.Over) <= u.JITBelow) {
			return true
		}
	}
	w.notWarm(u, costs, shares, jvm)
	return true
}

// notWarm notes what was not flat when a warm-up's probes were used up.
func (w *walk) notWarm(u Warmup, costs, shares []float64, jvm bool) {
	spread, ok := lastSpread(costs, u.Over)
	mean := meanOfLast(costs, u.Over)
	switch {
	case !ok || mean <= 0:
		w.note("warm-up: in %d probes there were no %d in a row with a cost per request, so flatness is not known", u.Max, u.Over)
	case spread > u.Within*mean:
		w.note("warm-up: cost per request was not flat after %d probes: the last %d lie up to %.1f %% off their mean, want %.1f %%",
			u.Max, u.Over, 100*spread/mean, 100*u.Within)
	}
	spread, ok = lastSpread(shares, u.Over)
	switch mean := meanOfLast(shares, u.Over); {
	case !ok || !jvm:
	case mean > u.JITBelow:
		w.note("warm-up: after %d probes the JIT still took %.1f %% of the arm's CPU, the mean of the last %d, want %.1f %%", u.Max, 100*mean, u.Over, 100*u.JITBelow)
	case spread > u.JITWithin:
		w.note("warm-up: the JIT share was not flat after %d probes: the last %d lie up to %.1f %% of the arm's CPU off their mean of %.1f %%, want %.1f %%",
			u.Max, u.Over, 100*spread, 100*mean, 100*u.JITWithin)
	}
}

// flat: the last n values lie within a part of their mean.
func flat(values []float64, n int, within float64) bool {
	spread, ok := lastSpread(values, n)
	mean := meanOfLast(values, n)
	return ok && mean > 0 && spread <= within*mean
}

// near: the last n values lie within a distance of their mean.
func near(values []float64, n int, within float64) bool {
	spread, ok := lastSpread(values, n)
	return ok && spread <= within
}

// lastSpread is how far the last n values lie off their mean at most.
func lastSpread(values []float64, n int) (float64, bool) {
	if len(values) < n {
		return 0, false
	}
	mean, spread := meanOfLast(values, n), 0.0
	for _, v := range values[len(values)-n:] {
		spread = max(spread, math.Abs(v-mean))
	}
	return spread, true
}

func meanOfLast(values []float64, n int) float64 {
	if len(values) < n {
		return 0
	}
	mean := 0.0
	for _, v := range values[len(values)-n:] {
		mean += v / float64(n)
	}
	return mean
}
