package loadgen

import (
	"math"
	"time"
)

// Count is the Duration with which a schedule has exactly n requests, whatever
// its own: n/RateHz of even arrivals, just past the n-th of Poisson ones. It
// walks the n requests of the latter.
func (s Schedule) Count(n int) time.Duration {
	if !s.Poisson {
		return time.Duration(float64(n) / s.RateHz * 1e9) // rounded down: up would be one more
	}
	s.Duration = math.MaxInt64
	c := s.Cursor()
	var last time.Duration
	for range n {
		last, _ = c.Next()
	}
	return last + 1
}

// countSteps gives the steps without a duration the one in which they send
// IterationsPerSlot requests for each slot. MaxInFlight is filled in before.
func (c *Config) countSteps() {
	if c.IterationsPerSlot <= 0 {
		return
	}
	for i := range c.Steps {
		if c.Steps[i].Duration == 0 {
			c.Steps[i] = c.counted(c.Steps[i])
		}
	}
}

// counted is a step of that rate and index that is bounded by count. One that
// cannot be driven keeps its duration of 0, which Validate refuses.
func (c *Config) counted(s Step) Step {
	n := c.IterationsPerSlot * c.MaxInFlight
	seconds := float64(n) / s.OfferedHz
	if !(s.OfferedHz > 0) || n <= 0 || n > maxCounted || seconds > (24*time.Hour).Seconds() {
		return s
	}
	s.Duration = c.schedule(s).Count(n)
	return s
}

// maxCounted bounds the requests of a step that is bounded by count: it is walked
// ahead. It keeps 10 s at the highest rate.
const maxCounted = 100_000_000
