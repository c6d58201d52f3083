package loadgen

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*Config)
		want string // substring of the error, which begins with the flag's name
	}{
		{"protocol", func(c *Config) { c.Protocol = "http3" }, `"http3": want one of [rest-h1 rest-h2c grpc-unary grpc-server-stream grpc-stream]`},
		{"address", func(c *Config) { c.Address = "localhost" }, `"localhost": want HOST:PORT`},
		{"address", func(c *Config) { c.Address = "localhost:0" }, `want HOST:PORT of a running service`},
		{"method", func(c *Config) { c.Protocol, c.Method = GRPCUnary, "Echo" }, `"Echo": want a gRPC method`},
		{"connections", func(c *Config) { c.Connections = -1 }, `-1: want 1 to 10000`},
		{"connections", func(c *Config) { c.Connections = 10001 }, `10001: want 1 to 10000`},
		{"max-in-flight", func(c *Config) { c.MaxInFlight = 3 }, `3: want 1 to 2 with --protocol rest-h1`},
		{"max-in-flight", func(c *Config) { c.Protocol, c.MaxInFlight = RestH2C, 1 }, `1: want 2 to 100000`},
		{"max-in-flight", func(c *Config) { c.Protocol, c.Streams, c.MaxInFlight = GRPCStream, 4, 3 }, `3: want 4 to 100000`},
		{"streams", func(c *Config) { c.Protocol, c.Streams = GRPCStream, 1 }, `1: want 2 to 10000`},
		{"timeout", func(c *Config) { c.Timeout = time.Microsecond }, `1µs: want 1ms to 5m0s`},
		{"drain", func(c *Config) { c.Drain = -1 }, `-1ns: want 0s to 5m0s`},
		{"lead", func(c *Config) { c.Lead = time.Millisecond }, `1ms: want 300ms to 1m0s`},
		{"on-void", func(c *Config) { c.OnVoid = "retry" }, `"retry": want continue or stop`},
		{"rates", func(c *Config) { c.Steps[0].OfferedHz = 0 }, `0: want above 0 to 1e+07`},
		{"warmup-rate", func(c *Config) { c.Steps[0].Warmup, c.Steps[0].OfferedHz = true, -5 }, `-5: want above 0`},
		{"duration", func(c *Config) { c.Steps[0].Duration = 0 }, `0s: want above 0 to 24h`},
		{"duration", func(c *Config) { c.Settle = time.Second }, `1s: want long enough that sends remain after --settle 1s`},
		{"warmup", func(c *Config) { c.Steps[0].Warmup, c.Steps[0].OfferedHz = true, 0.5 }, `want long enough`},
		{"agent", func(c *Config) { c.Agent = &AgentConfig{Targets: []string{"a"}} }, `want unix:///PATH`},
		{"agent-target", func(c *Config) { c.Agent = &AgentConfig{Address: "unix:///a"} }, `want the name`},
		{"reply-length", func(c *Config) { c.ReplyLength = -1 }, `-1: want 0 (any)`},
	} {
		c := Config{
			Protocol: RestH1, Address: "127.0.0.1:80", Method: "/a.B/C", Connections: 2,
			Steps: []Step{{Index: 1, OfferedHz: 100, Duration: time.Second}},
		}
		tc.set(&c)
		err := c.Validate()
		var bad *ConfigError
		if !errors.As(err, &bad) || bad.Name != tc.name || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	for p, want := range map[Protocol]int{RestH1: 3, RestH2C: DefaultMaxInFlight, GRPCUnary: DefaultMaxInFlight, GRPCStream: DefaultMaxInFlight} {
		c := Config{Protocol: p, Address: "127.0.0.1:80", Method: "/a.B/C", Connections: 3}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
		if c.MaxInFlight != want || c.Timeout != DefaultTimeout || c.OnVoid != OnVoidContinue {
			t.Errorf("%s: %+v", p, c)
		}
		if p == GRPCStream && c.Streams != 3 {
			t.Errorf("streams %d, want one per connection", c.Streams)
		}
	}
}

func TestStepName(t *testing.T) {
	for want, s := range map[string]Step{
		"00-300": {OfferedHz: 300}, "01-12.5": {Index: 1, OfferedHz: 12.5}, "100-1000000": {Index: 100, OfferedHz: 1e6},
	} {
		if got := s.Name(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
