//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/arms"
	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// runLoadCommand runs one command line of rung load, without the command's name.
func runLoadCommand(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	// A loaded machine may well be the limit of a short step; the tests of that say so.
	args = append([]string{"load", "--client-limited", "warn"}, args...)
	code = execute(t.Context(), newRootCommand(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// startArm serves a mode inside the test.
func startTestArm(t *testing.T, mode arms.Mode) (address string, stop func()) {
	t.Helper()
	s, err := arms.Start(arms.Config{Mode: mode, Listen: "127.0.0.1:0", CodecPasses: 1})
	if err != nil {
		t.Fatal(err)
	}
	stop = func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = s.Stop(ctx)
	}
	t.Cleanup(stop)
	return s.Addr(), stop
}

func TestLoadBadAlso(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--also b:1=db", `--also "b:1=db": it goes with --agent`},
		{"--agent a:1 --also b:1", `--also "b:1": want ADDRESS=TARGET`},
		{"--agent a:1 --agent-target x --also a:1=x", "this target is named twice"},
		{"--agent a:1 --also b:1=db --also b:1=db", "this target is named twice"},
	} {
		args := append([]string{"--protocol", "rest-h1", "--address", "127.0.0.1:9", "--rates", "100"}, strings.Fields(c.flags)...)
		if _, stderr, code := runLoadCommand(t, args...); code != exitUsage || !strings.Contains(stderr, c.want) {
			t.Errorf("%s: exit %d: %s", c.flags, code, stderr)
		}
	}
}

// TestLoadCountBounded: a step ends after so many requests per slot.
func TestLoadCountBounded(t *testing.T) {
	address, _ := startTestArm(t, arms.RestH1)
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--connections", "4", "--iterations-per-slot", "25",
		"--rates", "150,300", "--settle", "50ms", "--gap", "0s", "--out", dir)
	if code == exitUsage || code == exitFailure {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	d, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 2 || d.Run().Plan.IterationsPerSlot != 25 || d.Run().Plan.Duration != 0 {
		t.Fatalf("%d steps, %v, plan %+v", len(steps), err, d.Run().Plan)
	}
	for _, s := range steps {
		if s.Client.Scheduled != 100 {
			t.Errorf("%s: %d requests, want 25 for each of 4 slots", s.Name, s.Client.Scheduled)
		}
	}
	_, stderr, code = runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--iterations-per-slot", "5", "--duration", "1s", "--rates", "10")
	if code != exitUsage || !strings.Contains(stderr, "give one") {
		t.Errorf("both bounds: exit %d: %s", code, stderr)
	}
}

func TestLoadWritesARun(t *testing.T) {
	for _, protocol := range loadgen.Protocols() {
		t.Run(string(protocol), func(t *testing.T) {
			mode := arms.Mode(protocol)
			if protocol == loadgen.GRPCServerStream {
				mode = arms.GRPCUnary // the service has all its methods
			}
			address, _ := startTestArm(t, mode)
			dir := filepath.Join(t.TempDir(), "run")
			args := []string{"--protocol", string(protocol), "--address", address, "--arm", "my-arm", "--connections", "2",
				"--rates", "50,100.5", "--duration", "400ms", "--settle", "100ms", "--gap", "0s", "--warmup", "300ms", "--warmup-rate", "40",
				"--out", dir, "--json"}
			stdout, stderr, code := runLoadCommand(t, args...)
			if code != exitOK {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			d, err := rundir.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			run := d.Run()
			if run.Arm != "my-arm" || run.Protocol != string(protocol) || run.Plan.WarmupHz != 40 || len(run.Plan.RatesHz) != 2 || run.Plan.RequestBytes < 1000 {
				t.Errorf("run: %+v", run)
			}
			steps, err := d.Steps()
			if err != nil {
				t.Fatal(err)
			}
			names := []string{"00-40", "01-50", "02-100.5"}
			if len(steps) != len(names) {
				t.Fatalf("%d steps", len(steps))
			}
			for i, s := range steps {
				scheduled, sent := s.Client.Unbalanced()
				if s.Name != names[i] || s.Warmup != (i == 0) || s.Client.Delivered == 0 || len(s.Hlog) == 0 || scheduled != 0 || sent != 0 {
					t.Errorf("step %d: %+v", i, s)
				}
			}
			if n := strings.Count(stdout, loadgen.MarkerPrefix); n != 6 {
				t.Errorf("%d markers on stdout, want 6:\n%s", n, stdout)
			}
			var result loadResult
			if _, body, _ := strings.Cut(stdout, "\n{"); json.Unmarshal([]byte("{"+body), &result) != nil || len(result.Steps) != 3 {
				t.Errorf("--json: %s", stdout)
			}
			if strings.Count(stderr, "step ") < 3 {
				t.Errorf("stderr: %s", stderr)
			}

			// A second run into the same directory is refused before anything is sent.
			if _, stderr, code := runLoadCommand(t, args...); code != exitUsage || !strings.Contains(stderr, "--out "+dir) {
				t.Errorf("again: exit %d: %s", code, stderr)
			}
		})
	}
}

func TestLoadCalibrates(t *testing.T) {
	address, _ := startTestArm(t, "null-grpc")
	stdout, stderr, code := runLoadCommand(t, "--protocol", "grpc-stream", "--address", address, "--calibrate", "200ms", "--max-in-flight", "4", "--body", "tiny")
	var got struct {
		CapacityHz float64 `json:"capacityHz"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil || got.CapacityHz <= 0 {
		t.Errorf("exit %d, %v: %q, %s", code, err, stdout, stderr)
	}
}

func TestLoadBadFlags(t *testing.T) {
	good := []string{"--protocol", "rest-h1", "--address", "127.0.0.1:1", "--rates", "100"}
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--protocol", "http3"}, `--protocol "http3": want one of`},
		{[]string{"--address", "here"}, `--address "here": want HOST:PORT`},
		{[]string{"--body", "huge"}, `--body: unknown body tier "huge"`},
		{[]string{"--body-file", "/nonexistent"}, `--body-file: open /nonexistent`},
		{[]string{"--rates", "fast"}, `--rates "fast": want requests per second`},
		{[]string{"--rates", "0"}, `--rates 0: want above 0`},
		{[]string{"--duration", "-1s"}, `--duration -1s: want above 0`},
		{[]string{"--settle", "10s"}, `--duration 10s: want long enough that sends remain after --settle 10s`},
		{[]string{"--connections", "0"}, `--connections 0: want 1 to 10000`},
		{[]string{"--timeout", "0s"}, `--timeout 0: want 1ms to 5m0s`},
		{[]string{"--connections", "-3"}, `--connections -3: want 1 to 10000`},
		{[]string{"--max-in-flight", "9"}, `--max-in-flight 9: want 1 to 1 with --protocol rest-h1`},
		{[]string{"--on-void", "retry"}, `--on-void "retry": want continue or stop`},
		{[]string{"--workers", "65"}, `--workers 65: want 1 to 64`},
		{[]string{"--client-limited", "maybe"}, `--client-limited "maybe": want fail or warn`},
		{[]string{"--calibrate", "1ms"}, `--calibrate 1ms: want 100ms to 1h`},
		{[]string{"--out", used}, "it exists and is not empty"},
		{[]string{"--arm", "a/b", "--out", filepath.Join(used, "new")}, `arm "a/b"`},
		{[]string{"--no-such-flag"}, "unknown flag: --no-such-flag"},
		{[]string{"argument"}, `unknown command "argument"`},
	} {
		_, stderr, code := runLoadCommand(t, append(append([]string{}, good...), tc.args...)...)
		if code != exitUsage || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit %d, %q; want 2 and %q", tc.args, code, stderr, tc.want)
		}
	}
	if _, stderr, code := runLoadCommand(t, good[:4]...); code != exitUsage || !strings.Contains(stderr, "neither --rates nor --calibrate nor --closed") {
		t.Errorf("no rates: exit %d, %s", code, stderr)
	}
}

func TestLoadWithoutService(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := runLoadCommand(t, "--protocol", "rest-h2c", "--address", address, "--rates", "100", "--out", dir)
	if code != exitFailure || !strings.Contains(stderr, address) || !strings.Contains(stderr, "start the service") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a run that never began left %s: %v", dir, err)
	}
}

func TestLoadVoidStepExits1(t *testing.T) {
	address, stop := startTestArm(t, "rest-h1")
	dir := filepath.Join(t.TempDir(), "run")
	time.AfterFunc(800*time.Millisecond, stop)
	_, stderr, code := runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--connections", "2", "--rates", "100,100",
		"--duration", "20s", "--on-void", "stop", "--out", dir)
	if code != exitFailure || !strings.Contains(stderr, "void step 01-100: the service is gone") || !strings.Contains(stderr, "stopped after 1 of 2 steps") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	d, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 1 || steps[0].Client.Void == "" {
		t.Errorf("%v: %+v", err, steps)
	}
}

// The two types have the same shape in JSON, field for field.
func TestClientStepShape(t *testing.T) {
	var r loadgen.StepResult
	fill(reflect.ValueOf(&r).Elem(), new(int))
	c, err := clientStep(r)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(r)
	got, _ := json.Marshal(c)
	if !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A driver that cannot keep its schedule ends with an exit code of its own, says
// why in the result, and is taken at its word by a campaign.
func TestLoadClientLimited(t *testing.T) {
	address, _ := startTestArm(t, "null-grpc")
	dir := filepath.Join(t.TempDir(), "run")
	// No driver decides about ten million requests per second.
	args := []string{"--protocol", "grpc-unary", "--address", address, "--body", "tiny", "--max-in-flight", "4", "--rates", "1e7", "--duration", "600ms",
		"--settle", "100ms", "--drain", "500ms", "--client-limited", "fail"}
	_, stderr, code := runLoadCommand(t, append(args, "--out", dir)...)
	if code != exitLimited || !strings.Contains(stderr, "client-limited step 01-10000000: ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	d, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 1 {
		t.Fatalf("%d steps, %v", len(steps), err)
	}
	c := steps[0].Client
	if len(c.ClientLimited) == 0 || clientLimited(c) == "" || c.Driver.Cores == 0 || c.Driver.AllowanceCPUs == 0 {
		t.Errorf("limits %v, driver %+v", c.ClientLimited, c.Driver)
	}
	if h := c.Driver.Host; h.Samples == 0 || h.MeanShare == nil || *h.MeanShare <= 0 || *h.PeakShare < *h.MeanShare {
		t.Errorf("host CPU: %+v", h)
	}
	if _, stderr, code := runLoadCommand(t, append(args, "--client-limited", "warn")...); code != exitOK {
		t.Errorf("--client-limited warn: exit %d: %s", code, stderr)
	}
	if _, stderr, code := runLoadCommand(t, append(args[:len(args)-2], "--first-index", "3")...); code != exitOK {
		t.Errorf("as a campaign drives it: exit %d: %s", code, stderr)
	}
}

// fill gives every field a value of its own.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), n)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n))
	}
}

// TestLoadExtends adds one step, and no more, to a ladder whose last step keeps up.
func TestLoadExtends(t *testing.T) {
	address, _ := startTestArm(t, arms.RestH1)
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--connections", "2", "--rates", "20,40",
		"--duration", "500ms", "--settle", "100ms", "--gap", "0s", "--extend", "2.5", "--out", dir)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	run, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := run.Steps()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range steps {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "01-20 02-40 03-100" {
		t.Errorf("steps %s", got)
	}
	for _, factor := range []string{"1", "10.5", "-2", "NaN"} {
		if _, stderr, code := runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--rates", "20", "--extend", factor); code != exitUsage || !strings.Contains(stderr, "want above 1 to 10, or 0") {
			t.Errorf("--extend %s: exit %d, %s", factor, code, stderr)
		}
	}
	// One that does not keep up is followed by none: its agent-free step has overflow.
	if hz := higherStep(2)(loadgen.Outcome{Step: loadgen.Step{OfferedHz: 100}, Result: loadgen.StepResult{
		Name: "01-100", OfferedHz: 100, Scheduled: 100, Sent: 50, Overflow: 50, Delivered: 50, DeliveredInWindow: 50, WindowStartMonoNs: 1, WindowEndMonoNs: 1e9,
	}}); hz != 0 {
		t.Errorf("past the knee, one more at %g/s", hz)
	}
}
