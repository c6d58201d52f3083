package loadgen

import (
	"math"
	"math/rand/v2"
	"time"
)

// Schedule says when the requests of a step are due, relative to the step's
// origin. It is a pure function of its fields: no clock, no state.
//
// Constant: request i at i/RateHz, as many as fit below Duration. Computing
// each instant from i, not from the one before, keeps rounding from adding up.
//
// Poisson: arrivals of a process of intensity RateHz, as many as fall below
// Duration: the gaps are exponential draws of a PCG generator seeded by Seed.
type Schedule struct {
	RateHz   float64
	Duration time.Duration
	Poisson  bool
	Seed     uint64
}

// Cursor walks a schedule in order of time. The zero value is not usable.
type Cursor struct {
	s       Schedule
	i       int
	n       int
	skip    int // requests passed over after each one given
	rng     *rand.Rand
	elapsed float64 // seconds, Poisson only
}

// Cursor starts a walk at the first request.
func (s Schedule) Cursor() *Cursor { return s.Part(0, 1) }

// Part starts a walk of the requests k, k + of, k + 2·of, …: the parts of 0 to
// of - 1 are disjoint and together the whole schedule.
func (s Schedule) Part(k, of int) *Cursor {
	c := s.whole()
	for range k {
		c.next()
	}
	c.skip = of - 1
	return c
}

func (s Schedule) whole() *Cursor {
	c := &Cursor{s: s}
	if s.Poisson {
		c.rng = rand.New(rand.NewPCG(s.Seed, 0))
		return c
	}
	// The nudge keeps 0.3 s at 10/s from becoming 2 requests by rounding.
	c.n = int(math.Ceil(s.RateHz*s.Duration.Seconds() - 1e-6))
	return c
}

// Next gives the instant of the next request, and false after the last.
func (c *Cursor) Next() (offset time.Duration, ok bool) {
	offset, ok = c.next()
	if c.rng == nil {
		c.i += c.skip
		return offset, ok
	}
	for i := 0; i < c.skip && ok; i++ {
		c.elapsed += c.rng.ExpFloat64() / c.s.RateHz
	}
	return offset, ok
}

func (c *Cursor) next() (offset time.Duration, ok bool) {
	if c.rng != nil {
		c.elapsed += c.rng.ExpFloat64() / c.s.RateHz
		offset = time.Duration(c.elapsed * 1e9)
		return offset, offset < c.s.Duration
	}
	if c.i >= c.n {
		return 0, false
	}
	offset = time.Duration(float64(c.i) / c.s.RateHz * 1e9)
	c.i++
	return offset, true
}

// Bounds walks the whole schedule: how many requests it has and when the first
// and the last are due.
func (s Schedule) Bounds() (n int, first, last time.Duration) {
	c := s.Cursor()
	if !s.Poisson {
		if c.n > 0 {
			last = time.Duration(float64(c.n-1) / s.RateHz * 1e9)
		}
		return max(c.n, 0), 0, last
	}
	for off, ok := c.Next(); ok; off, ok = c.Next() {
		if n == 0 {
			first = off
		}
		last = off
		n++
	}
	return n, first, last
}
