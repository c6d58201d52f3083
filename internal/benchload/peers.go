//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/rungprof/rung/loadgen"
)

// generator is another load generator as its users start it: eight connections
// with one request in flight on each, as fast as it goes.
type generator struct {
	name  string
	tool  string
	mode  string // of the arm
	args  func(address string, seconds int, dir string) []string
	count *regexp.Regexp // of the requests it made, in its output
}

const sayHello = "rung.arms.echo.v1.Echo/SayHello"

var generators = []generator{
	{name: "wrk, HTTP/1.1", tool: "wrk", mode: "null-h1", count: regexp.MustCompile(`(\d+) requests in`),
		args: func(a string, s int, dir string) []string {
			return []string{"-t1", "-c8", "-d" + strconv.Itoa(s) + "s", "-s", filepath.Join(dir, "post.lua"), "http://" + a + "/echo"}
		}},
	{name: "h2load, HTTP/1.1", tool: "h2load", mode: "null-h1", count: regexp.MustCompile(`(\d+) succeeded`),
		args: func(a string, s int, dir string) []string {
			return []string{"--h1", "-t1", "-c8", "-D", strconv.Itoa(s), "-d", filepath.Join(dir, "body"), "http://" + a + "/echo"}
		}},
	{name: "h2load, HTTP/2", tool: "h2load", mode: "null-h2c", count: regexp.MustCompile(`(\d+) succeeded`),
		args: func(a string, s int, dir string) []string {
			return []string{"-t1", "-c8", "-m1", "-D", strconv.Itoa(s), "-d", filepath.Join(dir, "body"), "http://" + a + "/echo"}
		}},
	{name: "h2load, gRPC unary", tool: "h2load", mode: "null-grpc", count: regexp.MustCompile(`(\d+) succeeded`),
		args: func(a string, s int, dir string) []string {
			return []string{"-t1", "-c8", "-m1", "-D", strconv.Itoa(s), "-d", filepath.Join(dir, "grpc-body"), "-H", "content-type: application/grpc", "-H", "te: trailers",
				"http://" + a + "/" + sayHello}
		}},
	{name: "vegeta, HTTP/1.1", tool: "vegeta", mode: "null-h1", count: regexp.MustCompile(`Requests\s+\[total[^\]]*\]\s+(\d+)`),
		args: func(a string, s int, dir string) []string {
			return []string{"sh", "-c", fmt.Sprintf("echo 'POST http://%s/echo' | vegeta attack -rate 0 -max-workers 8 -workers 8 -connections 8 -duration %ds -body %s | vegeta report", a, s, filepath.Join(dir, "body"))}
		}},
	{name: "fortio, HTTP/1.1", tool: "fortio", mode: "null-h1", count: regexp.MustCompile(`Code 200 : (\d+)`),
		args: func(a string, s int, dir string) []string {
			return []string{"load", "-qps", "0", "-c", "8", "-t", strconv.Itoa(s) + "s", "-payload-file", filepath.Join(dir, "body"), "http://" + a + "/echo"}
		}},
	{name: "ghz, gRPC unary", tool: "ghz", mode: "grpc-unary", count: regexp.MustCompile(`Count:\s+(\d+)`),
		args: func(a string, s int, dir string) []string {
			return []string{"--insecure", "--call", sayHello, "-c", "8", "--connections", "8", "-z", strconv.Itoa(s) + "s", "-B", filepath.Join(dir, "message"), "--disable-template-functions", "--disable-template-data", a}
		}},
}

// own is the driver in the same shape.
var own = []struct{ name, protocol, mode string }{
	{"rung, HTTP/1.1", "rest-h1", "null-h1"},
	{"rung, HTTP/2", "rest-h2c", "null-h2c"},
	{"rung, gRPC unary", "grpc-unary", "null-grpc"},
	{"rung, gRPC server stream", "grpc-server-stream", "null-grpc"},
	{"rung, gRPC bidi message", "grpc-stream", "null-grpc"},
}

// peers states the client's CPU per request of each generator, this driver's
// first. A generator that is not installed is named as missing.
func (b *bench) peers() error {
	seconds := pick(b, 4, 1)
	dir, err := os.MkdirTemp("", "rung-benchload")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, body := range map[string]string{
		"body": "sixteen bytes ..", "message": "\n\x05hello", "grpc-body": "\x00\x00\x00\x00\x07\n\x05hello",
		"post.lua": "wrk.method = 'POST'\nwrk.body = 'sixteen bytes ..'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			return err
		}
	}
	for _, o := range own {
		us, rate, err := b.ownCPU(o.protocol, o.mode, seconds)
		if err != nil {
			b.missing(o.name+", CPU per request", "µs", "", err)
			continue
		}
		b.state(o.name+", CPU per request", us, "µs", fmt.Sprintf("at %.0f/s", rate))
	}
	for _, g := range generators {
		us, rate, err := b.peerCPU(g, seconds, dir)
		if err != nil {
			b.missing(g.name+", CPU per request", "µs", "", err)
			continue
		}
		b.state(g.name+", CPU per request", us, "µs", fmt.Sprintf("at %.0f/s; its start is in it", rate))
	}
	return nil
}

func (b *bench) ownCPU(protocol, mode string, seconds int) (us, rateHz float64, err error) {
	arm, address, err := b.arm("--mode", mode)
	if err != nil {
		return 0, 0, err
	}
	defer arm.end()
	d, err := b.drive(nil, "--protocol", protocol, "--address", address, "--connections", "8", "--streams", pick2(protocol == "grpc-stream", "8", "0"),
		"--closed", "8", "--duration", (time.Duration(seconds) * time.Second).String())
	if err != nil {
		return 0, 0, err
	}
	var got struct {
		Steps []loadgen.ClosedResult
		Error string
	}
	if err := d.result(&got); err != nil {
		return 0, 0, err
	}
	if len(got.Steps) != 1 || got.Steps[0].Sent == 0 {
		return 0, 0, fmt.Errorf("%s: %+v", protocol, got)
	}
	r := got.Steps[0]
	return float64(r.ClientCPUNs) / float64(r.Sent) / 1e3, r.DeliveredHz, nil
}

func pick2(first bool, a, c string) string {
	if first {
		return a
	}
	return c
}

func (b *bench) peerCPU(g generator, seconds int, dir string) (us, rateHz float64, err error) {
	path, err := exec.LookPath(g.tool)
	if err != nil {
		return 0, 0, fmt.Errorf("not installed: %s", g.tool)
	}
	arm, address, err := b.arm("--mode", g.mode)
	if err != nil {
		return 0, 0, err
	}
	defer arm.end()
	argv := g.args(address, seconds, dir)
	if argv[0] != "sh" {
		argv = append([]string{path}, argv...)
	}
	cmd := exec.CommandContext(b.ctx, argv[0], argv[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	err = cmd.Run()
	elapsed := time.Since(began)
	m := g.count.FindSubmatch(out.Bytes())
	if m == nil {
		return 0, 0, fmt.Errorf("%s: %v, and no count in its output: %.300s", g.tool, err, out.String())
	}
	n, convErr := strconv.ParseFloat(string(m[1]), 64)
	if convErr != nil || n == 0 {
		return 0, 0, fmt.Errorf("%s made %q requests: %.300s", g.tool, m[1], out.String())
	}
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return float64(cpu.Microseconds()) / n, n / elapsed.Seconds(), nil
}
