package loadgen

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestCount: a schedule bounded by count has exactly so many requests, at rates
// whose periods no nanosecond divides too.
func TestCount(t *testing.T) {
	for _, hz := range []float64{0.1, 1, 3, 7, 99.9, 400, 30000.0 / 7, 1e6, 1e7} {
		for _, poisson := range []bool{false, true} {
			for _, n := range []int{1, 2, 3, 10, 997, 20_000} {
				s := Schedule{RateHz: hz, Poisson: poisson, Seed: 5}
				s.Duration = s.Count(n)
				if got, _, _ := s.Bounds(); got != n {
					t.Errorf("%g/s, Poisson %v: %d requests, want %d", hz, poisson, got, n)
				}
			}
		}
	}
}

func TestCountedSteps(t *testing.T) {
	c := Config{
		Protocol: RestH1, Address: "127.0.0.1:1", Connections: 4, IterationsPerSlot: 25,
		Steps: []Step{{OfferedHz: 50, Duration: time.Second, Warmup: true}, {Index: 1, OfferedHz: 100}, {Index: 2, OfferedHz: 1000}},
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{50, 100, 100} {
		if n, _, _ := c.schedule(c.Steps[i]).Bounds(); n != want {
			t.Errorf("step %d: %d requests, want %d", i, n, want)
		}
	}
	if d := c.Steps[2].Duration; d != 100*time.Millisecond {
		t.Errorf("100 requests at 1,000/s take %s", d)
	}
	for name, change := range map[string]func(*Config){
		"iterations-per-slot -1: want": func(c *Config) { c.IterationsPerSlot = -1 },
		"iterations-per-slot 1000000: want a count that ends within 24h": func(c *Config) {
			c.IterationsPerSlot, c.Steps = 1_000_000, []Step{{Index: 1, OfferedHz: 1}}
		},
		"duration": func(c *Config) {
			c.IterationsPerSlot, c.Steps = 1, []Step{{Index: 1, OfferedHz: 100}}
			c.Settle = time.Second
		},
	} {
		bad := c
		change(&bad)
		err := bad.Validate()
		var wrong *ConfigError
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v; want %q", err, name)
		}
	}
}
