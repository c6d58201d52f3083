package loadgen

import (
	"context"
	"time"
)

// samplePeriod is how often the host's CPU and the sockets are looked at.
const samplePeriod = 250 * time.Millisecond

// cpuTimes are the host's, in seconds of all CPUs since boot.
type cpuTimes struct{ busy, total float64 }

// sampler watches the host's CPU and the unsent bytes of the connections while
// a step sends. Not safe for concurrent use; its figures are read after run.
type sampler struct {
	conns *dialer
	last  cpuTimes
	from  cpuTimes
	had   bool // last and from are readings

	peak    float64
	samples int

	unsentAbove, unsentSamples int
	unsentMax                  uint64
}

// run samples until ctx is done, and once more then unless it is too early for
// that to mean anything.
func (s *sampler) run(ctx context.Context) {
	if t, err := hostTimes(); err == nil {
		s.last, s.from, s.had = t, t, true
	}
	tick := time.NewTicker(samplePeriod)
	defer tick.Stop()
	for {
		begun := time.Now()
		select {
		case <-tick.C:
			s.sample()
		case <-ctx.Done():
			if s.samples == 0 || time.Since(begun) > samplePeriod/2 {
				s.sample()
			}
			return
		}
	}
}

func (s *sampler) sample() {
	bytes := s.conns.unsent()
	s.unsentSamples++
	s.unsentMax = max(s.unsentMax, bytes)
	if bytes > limitUnsentBytes {
		s.unsentAbove++
	}
	t, err := hostTimes()
	if err != nil || !s.had || t.total <= s.last.total {
		return
	}
	s.peak = max(s.peak, (t.busy-s.last.busy)/(t.total-s.last.total))
	s.last = t
	s.samples++
}

// into writes the figures.
func (s *sampler) into(u *DriverUse) {
	u.UnsentAbove, u.UnsentSamples, u.UnsentBytesMax = s.unsentAbove, s.unsentSamples, s.unsentMax
	u.Host.Samples = s.samples
	if s.samples > 0 {
		mean, peak := (s.last.busy-s.from.busy)/(s.last.total-s.from.total), s.peak
		u.Host.MeanShare, u.Host.PeakShare = &mean, &peak
	}
}
