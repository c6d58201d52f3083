package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungprof/rung/internal/vmtest/gate"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

func TestParseKernels(t *testing.T) {
	got, err := parseKernels(" 5.10 6.1,6.18  newest ")
	want := []series{
		{"5.10", "5.10.*-cloud", []string{"bullseye"}},
		{"6.1", "6.1.*-cloud", nil},
		{"6.18", "6.18.*-cloud", []string{"trixie-backports"}},
		{"newest", "*-cloud", []string{"trixie-backports"}},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(series{})); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{"", " , ", "6", "6.12.1", "latest", "6.*"} {
		if _, err := parseKernels(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAtLeastFloor(t *testing.T) {
	for release, want := range map[string]bool{
		"5.10.0-32-cloud-arm64": false, "6.0.12": false, "6.1.0-57-cloud-arm64": true,
		"6.12.117+deb12-cloud-arm64": true, "7.0-rc1": true, "10.2": true,
	} {
		if got, err := atLeastFloor(release); got != want || err != nil {
			t.Errorf("%s: %v, %v", release, got, err)
		}
	}
	for _, bad := range []string{"", "6", "6.x", "six.one"} {
		if _, err := atLeastFloor(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestAgentRefusal(t *testing.T) {
	s := agentRefusalStage()
	const right = "rung: kernel 6.1 or newer: found 5.10.0-32; boot a newer kernel"
	for _, c := range []struct {
		code   int
		stderr string
		ok     bool
	}{{exitUsage, right, true}, {1, right, false}, {0, right, false}, {exitUsage, "rung: load BPF programs: invalid argument", false}} {
		if note, err := s.verdict(wire.Exit{Code: c.code}, []byte(c.stderr)); (err == nil) != c.ok {
			t.Errorf("exit %d of %q: %q, %v", c.code, c.stderr, note, err)
		}
	}
}

// A failed test, or a guest that cannot be booted at all, is no reason to try again.
func TestAtMostTwice(t *testing.T) {
	panicked := errors.Join(&machine.Error{Reason: "the guest stopped"}, errors.New("bpf did not end"))
	for _, c := range []struct {
		ends  []error
		boots int
		err   error
	}{
		{[]error{nil}, 1, nil},
		{[]error{errors.New("2 tests failed")}, 1, errors.New("2 tests failed")},
		{[]error{panicked, nil}, 2, nil},
		{[]error{panicked, panicked}, 2, panicked},
	} {
		calls := 0
		row, err := atMostTwice(func() (gate.Row, error) {
			calls++
			return gate.Row{Boots: 1}, c.ends[calls-1]
		})
		if calls != c.boots || row.Boots != c.boots || fmt.Sprint(err) != fmt.Sprint(c.err) {
			t.Errorf("%v: %d boots, %+v, %v", c.ends, calls, row, err)
		}
	}
}

// The table's place is looked for before any machine is booted.
func TestMarkdownWithoutMarkers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "README.md")
	if err := os.WriteFile(file, []byte("<!-- kernels amd64 -->\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--arch", "arm64"}, {"--arch", "amd64"}, {"--arch", "arm64", "--markdown", file + "x"}} {
		var stdout, stderr bytes.Buffer
		args = append([]string{"matrix", "--kernels", "6.12", "--markdown", file}, args...)
		if code := run(context.Background(), args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "--markdown: ") {
			t.Errorf("%q: exit %d, %s", args, code, &stderr)
		}
	}
}

// A kernel below the floor passes only if it is refused for its age, with the
// exit status of a missing requirement.
func TestRefusal(t *testing.T) {
	const old = `[{"name":"kernel 6.1 or newer","found":"5.10.0-32","status":"missing"}]`
	const other = `[{"name":"kernel type information (BTF)","found":"none","status":"missing"}]`
	s := refusalStage()
	for _, c := range []struct {
		code   int
		stdout string
		ok     bool
	}{{exitUsage, old, true}, {0, old, false}, {1, old, false}, {exitUsage, other, false}, {exitUsage, "", false}} {
		if note, err := s.verdict(wire.Exit{Code: c.code}, []byte(c.stdout)); (err == nil) != c.ok {
			t.Errorf("exit %d of %q: %q, %v", c.code, c.stdout, note, err)
		}
	}
}
