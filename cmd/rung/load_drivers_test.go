//go:build linux

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/loadgen"
	"github.com/rungprof/rung/rundir"
)

// Several processes are one load, with one run directory; each one's own stays
// below it.
func TestLoadDrivers(t *testing.T) {
	t.Setenv(asRung, "1")
	for _, protocol := range []loadgen.Protocol{loadgen.RestH1, loadgen.GRPCStream} {
		address, _ := startTestArm(t, nullMode(protocol))
		dir := filepath.Join(t.TempDir(), "new", "run")
		stdout, stderr, code := runLoadCommand(t, "--drivers", "3", "--protocol", string(protocol), "--address", address, "--connections", "5", "--streams", "7",
			"--rates", "100,200.5", "--duration", "600ms", "--settle", "100ms", "--header", "x-a: b, c", "--out", dir, "--json")
		if code != exitOK {
			t.Fatalf("%s: exit %d: %s", protocol, code, stderr)
		}
		var result loadResult
		if _, body, _ := strings.Cut(stdout, "\n{"); json.Unmarshal([]byte("{"+body), &result) != nil || len(result.Steps) != 2 {
			t.Fatalf("%s: %s", protocol, stdout)
		}
		for i, want := range []uint64{60, 121} {
			r := result.Steps[i]
			if r.Scheduled != want || r.Delivered != r.Sent || r.ConnectionsOpen != 5 || r.Check() != nil || r.ResponseMs == nil {
				t.Errorf("%s, step %d: %+v", protocol, i, r)
			}
		}
		if n := strings.Count(stdout, loadgen.MarkerPrefix); n != 4 || strings.Contains(stdout, driverPrefix) {
			t.Errorf("%s: %d markers, want 4:\n%s", protocol, n, stdout)
		}
		d, err := rundir.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := d.Steps()
		if err != nil || len(steps) != 2 || steps[1].Client.Scheduled != 121 || len(steps[1].Hlog) == 0 {
			t.Errorf("%s: %v, %d steps", protocol, err, len(steps))
		}
		for i := range 3 {
			if _, err := rundir.Open(filepath.Join(dir, "drivers", string(rune('0'+i)))); err != nil {
				t.Errorf("%s: driver %d: %v", protocol, i, err)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".rung-drivers-*")); len(left) > 0 {
			t.Errorf("%s: left behind: %q", protocol, left)
		}
	}
}

func TestLoadDriversFail(t *testing.T) {
	t.Setenv(asRung, "1")
	good := []string{"--protocol", "grpc-unary", "--address", "127.0.0.1:1", "--rates", "100", "--duration", "1s", "--connections", "2"}
	for _, tc := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--drivers", "2"}, exitFailure, "driver 0: preflight of grpc-unary"},
		{[]string{"--drivers", "3"}, exitUsage, "--drivers 3: want 1 to 64, and at least a connection"},
		{[]string{"--drivers", "0"}, exitUsage, "--drivers 0: want 1 to 64"},
		{[]string{"--drivers", "2", "--extend", "2"}, exitUsage, "need one driver"},
		{[]string{"--drivers", "2", "--closed", "4"}, exitUsage, "want a ladder of --rates"},
		{[]string{"--share", "two"}, exitUsage, `--share "two": want INDEX/OF`},
		{[]string{"--share", "2/2"}, exitUsage, `--share 2/2: want INDEX/OF`},
	} {
		began := time.Now()
		_, stderr, code := runLoadCommand(t, append(append([]string{}, good...), tc.args...)...)
		if code != tc.code || !strings.Contains(stderr, tc.want) || time.Since(began) > 20*time.Second {
			t.Errorf("%q after %v: exit %d, %q; want %d and %q", tc.args, time.Since(began), code, stderr, tc.code, tc.want)
		}
	}
	// A service that dies in a step voids the whole, and every driver comes to its end.
	address, stop := startTestArm(t, "null-grpc")
	time.AfterFunc(1500*time.Millisecond, stop)
	dir := filepath.Join(t.TempDir(), "run")
	_, stderr, code := runLoadCommand(t, "--drivers", "2", "--protocol", "grpc-unary", "--address", address, "--connections", "2", "--rates", "100,100", "--duration", "4s",
		"--connect-timeout", "200ms", "--out", dir)
	if code != exitFailure || !strings.Contains(stderr, "void step 01-100: driver ") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	if d, err := rundir.Open(dir); err != nil {
		t.Error(err)
	} else if steps, err := d.Steps(); err != nil || len(steps) != 2 || steps[0].Client.Void == "" || steps[1].Client.Void == "" {
		t.Errorf("%v: %d steps", err, len(steps))
	}
}
