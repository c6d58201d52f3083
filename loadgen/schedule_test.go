package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"
)

func offsets(s Schedule) []time.Duration {
	var all []time.Duration
	c := s.Cursor()
	for off, ok := c.Next(); ok; off, ok = c.Next() {
		all = append(all, off)
	}
	return all
}

func TestConstantSchedule(t *testing.T) {
	for _, tc := range []struct {
		rate float64
		d    time.Duration
		n    int
		last time.Duration
	}{
		{100, time.Second, 100, 990 * time.Millisecond},
		{10, 300 * time.Millisecond, 3, 200 * time.Millisecond},
		{3, time.Second, 3, 666666666 * time.Nanosecond},
		{0.5, 3 * time.Second, 2, 2 * time.Second},
		{2.5, time.Second, 3, 800 * time.Millisecond},
		{1000, 500 * time.Microsecond, 1, 0},
	} {
		s := Schedule{RateHz: tc.rate, Duration: tc.d}
		n, first, last := s.Bounds()
		if n != tc.n || first != 0 || last != tc.last {
			t.Errorf("%g/s for %s: n %d, first %s, last %s; want %d, 0, %s", tc.rate, tc.d, n, first, last, tc.n, tc.last)
		}
		checkBounds(t, s)
	}
}

func checkBounds(t *testing.T, s Schedule) {
	t.Helper()
	all := offsets(s)
	n, first, last := s.Bounds()
	if len(all) != n || n > 0 && (all[0] != first || all[n-1] != last) {
		t.Errorf("%+v: bounds %d, %s, %s do not fit the walk of %d", s, n, first, last, len(all))
	}
	if !slices.IsSorted(all) {
		t.Errorf("%+v: not in order of time", s)
	}
}

// Rounding must not add up over a long step.
func TestConstantScheduleDoesNotDrift(t *testing.T) {
	s := Schedule{RateHz: 30000.0 / 7, Duration: time.Hour}
	n, _, last := s.Bounds()
	if want := float64(n-1) * 7 / 30000; math.Abs(last.Seconds()-want) > 1e-8 {
		t.Errorf("last of %d at %v s, want %v s", n, last.Seconds(), want)
	}
}

func TestPoissonSchedule(t *testing.T) {
	s := Schedule{RateHz: 1000, Duration: 20 * time.Second, Poisson: true, Seed: 42}
	all := offsets(s)
	if !slices.Equal(all, offsets(s)) {
		t.Error("the same seed gave two schedules")
	}
	other := s
	other.Seed++
	if slices.Equal(all, offsets(other)) {
		t.Error("another seed gave the same schedule")
	}
	checkBounds(t, s)
	// 20,000 expected, standard deviation 141; the seed is fixed.
	if len(all) < 19_500 || len(all) > 20_500 {
		t.Errorf("%d arrivals, want about 20000", len(all))
	}
	// Exponential gaps: their standard deviation is their mean.
	var sum, squares float64
	for i := 1; i < len(all); i++ {
		gap := (all[i] - all[i-1]).Seconds()
		sum += gap
		squares += gap * gap
	}
	mean := sum / float64(len(all)-1)
	sd := math.Sqrt(squares/float64(len(all)-1) - mean*mean)
	if ratio := sd / mean; ratio < 0.97 || ratio > 1.03 {
		t.Errorf("standard deviation of the gaps is %v of their mean, want 1", ratio)
	}
}

func TestWaiter(t *testing.T) {
	w, err := newWaiter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	for range 5 {
		want := monoNow() + int64(2*time.Millisecond)
		if err := w.until(want); err != nil {
			t.Fatal(err)
		}
		if now := monoNow(); now < want {
			t.Errorf("woke %s early", time.Duration(want-now))
		}
	}
	if err := w.until(monoNow() - 1); err != nil {
		t.Error(err)
	}
}

func TestMonoClockIsTheKernels(t *testing.T) {
	before := readMonotonic()
	now := monoNow()
	after := readMonotonic()
	// The calibration's spread is far below this, unless every try was preempted.
	const slack = int64(100 * time.Microsecond)
	if now < before-slack || now > after+slack {
		t.Errorf("%d is not between %d and %d", now, before, after)
	}
}
