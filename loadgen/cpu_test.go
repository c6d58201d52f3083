package loadgen

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// serveEnv makes the test binary serve a protocol instead of testing, so that a
// benchmark's CPU time is the client's alone.
const serveEnv = "RUNG_LOADGEN_TEST_SERVE"

func TestMain(m *testing.M) {
	p := os.Getenv(serveEnv)
	if p == "" {
		os.Exit(m.Run())
	}
	b := &testing.B{}
	fmt.Println(startService(b, Protocol(p), "127.0.0.1:0").address)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent is gone
}

// BenchmarkClient gives the driver's own CPU time per request: at 1,000/s, where
// each request pays for its wake-ups, and with all slots busy, where it does not.
func BenchmarkClient(b *testing.B) {
	for _, p := range Protocols() {
		b.Run(string(p)+"/1000-per-second", func(b *testing.B) {
			c := benchConfig(b, p)
			c.Steps = []Step{{Index: 1, OfferedHz: 1000, Duration: 2 * time.Second}}
			var cpu, sent uint64
			for b.Loop() {
				r := runSteps(b, c, Hooks{})[0].Result
				cpu, sent = cpu+r.ClientCPUNs, sent+r.Sent
			}
			b.ReportMetric(float64(cpu)/float64(sent)/1e3, "cpu-µs/request")
		})
		b.Run(string(p)+"/closed", func(b *testing.B) {
			c := benchConfig(b, p)
			var cpu time.Duration
			var sent float64
			for b.Loop() {
				before := ownCPU()
				got, err := Calibrate(b.Context(), c, time.Second)
				if err != nil {
					b.Fatal(err)
				}
				cpu, sent = cpu+ownCPU()-before, sent+got.CapacityHz // for one second
			}
			b.ReportMetric(float64(cpu.Microseconds())/sent, "cpu-µs/request")
			b.ReportMetric(sent/float64(b.N), "requests/s")
		})
	}
}

func benchConfig(b *testing.B, p Protocol) Config {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+string(p))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	c := testConfig(&service{protocol: p, address: strings.TrimSpace(address)})
	c.Body, c.ReplyLength = make([]byte, 1025), 1025
	if p == RestH1 {
		c.Connections = 16
	}
	return c
}
