//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// demoArm is one of the bundled arms as the demo runs it.
type demoArm struct {
	// name is also the mode of `rung arm`.
	name     string
	protocol string
	// codec: the arm decodes and encodes the body, so that it takes part in the
	// comparison at the matched rate and in the codec checks.
	codec bool
	// flags are further ones for `rung arm`.
	flags []string
}

// The loop arm's figures are chosen so that all of its waits show: two workers
// share one lock held for 0.2 ms and each request waits 1 ms for a downstream.
var demoArms = []demoArm{
	{name: "rest-h1", protocol: "rest-h1", codec: true},
	{name: "rest-h2c", protocol: "rest-h2c", codec: true},
	{name: "grpc-unary", protocol: "grpc-unary", codec: true},
	{name: "grpc-stream", protocol: "grpc-stream", codec: true},
	{name: "loop", protocol: "rest-h1", flags: []string{"--workers", "2", "--lock-hold", "200us", "--downstream", "1ms"}},
}

func armNames() []string {
	names := make([]string, len(demoArms))
	for i, a := range demoArms {
		names[i] = a.name
	}
	return names
}

func findArm(name string) (demoArm, bool) {
	i := slices.IndexFunc(demoArms, func(a demoArm) bool { return a.name == name })
	if i < 0 {
		return demoArm{}, false
	}
	return demoArms[i], true
}

var (
	// defaultFractions of an arm's capacity, as the calibration found it under
	// the quota. A closed loop overstates what an open one gets, by up to a half
	// where requests travel in batches, and a few seconds on a busy machine may
	// understate it: so well below the knee, near it, and well past it.
	defaultFractions = []float64{0.5, 0.8, 1.4}
	// shortFractions are the ladder of an arm outside the comparison.
	shortFractions = []float64{0.6, 1.4}
	// fillFractions take the place of a fraction that fell on the matched rate.
	fillFractions = []float64{1, 0.25, 0.85, 2}
)

const (
	// matchedFraction of the lowest capacity is below every arm's knee, with room
	// for what the calibration overstates.
	matchedFraction = 0.35
	// minDefaultSteps of the default ladder.
	minDefaultSteps = 4
	// Two steps nearer than this tell nothing that one does not.
	stepSpacing = 1.10
)

// matchedRate is the offered rate common to the compared arms, whose capacities
// are given; 0 when there are none.
func (o demoOptions) matchedRate(capacities []float64) float64 {
	switch {
	case len(o.RatesHz) > 0:
		return slices.Min(o.RatesHz)
	case len(capacities) > 0:
		return matchedRate(capacities)
	}
	return 0
}

// ladder is the offered rates of one arm of the given capacity, rising.
func (o demoOptions) ladder(a demoArm, capacity, matched float64) []float64 {
	if !a.codec {
		matched = 0
	}
	switch {
	case len(o.RatesHz) > 0:
		rates := slices.Clone(o.RatesHz) // as they were given, not rounded
		slices.Sort(rates)
		return slices.Compact(rates)
	case len(o.Fractions) > 0:
		return stepRates(capacity, matched, o.Fractions, 1)
	case a.codec:
		return stepRates(capacity, matched, defaultFractions, minDefaultSteps)
	}
	return stepRates(capacity, 0, shortFractions, 1)
}

// matchedRate is the offered rate common to all compared arms: a round number
// of requests per second, at most matchedFraction of the lowest capacity.
// Capacities are in requests per second and above 0.
func matchedRate(capacities []float64) float64 {
	return roundDown(matchedFraction * slices.Min(capacities))
}

// stepRates is an arm's ladder, rising: the matched rate (0: none) and the
// fractions of its capacity, of those that lie within 10 % of each other only
// one, the matched rate first. A ladder below atLeast steps is filled up.
func stepRates(capacity, matched float64, fractions []float64, atLeast int) []float64 {
	var rates []float64
	add := func(rate float64) {
		near := slices.ContainsFunc(rates, func(r float64) bool {
			return math.Max(r, rate) < stepSpacing*math.Min(r, rate)
		})
		if rate > 0 && !near {
			rates = append(rates, rate)
		}
	}
	add(matched)
	for _, f := range fractions {
		add(roundDown(f * capacity))
	}
	for _, f := range fillFractions {
		if len(rates) >= atLeast {
			break
		}
		add(roundDown(f * capacity))
	}
	slices.Sort(rates)
	return rates
}

// clientShape is how many connections a driver opens to an arm and how many
// requests it keeps in flight at most. HTTP/1.1 carries one request at a time on
// a connection, so both are the same number there; the other protocols share two
// connections. Asked for 0 connections, it chooses.
func clientShape(protocol string, connections, maxInFlight int) (int, int) {
	switch {
	case protocol == "rest-h1" && connections == 0:
		return maxInFlight, maxInFlight
	case protocol == "rest-h1":
		return connections, min(connections, maxInFlight)
	case connections == 0:
		connections = 2
	}
	return min(connections, maxInFlight), maxInFlight
}

// roundDown keeps two significant digits, so that rates can be read and typed.
func roundDown(rate float64) float64 {
	if !(rate > 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(rate))-1)
	// The product may fall a hair short of a whole number of units.
	rounded := math.Floor(rate/unit+1e-9) * unit
	if unit >= 1 {
		return math.Round(rounded)
	}
	return math.Round(rounded/unit) / math.Round(1/unit)
}

func fractionsText(fractions []float64) string {
	text := make([]string, len(fractions))
	for i, f := range fractions {
		text[i] = fmt.Sprint(f)
	}
	return strings.Join(text, ",")
}
