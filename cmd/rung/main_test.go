//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestMain lets the test binary stand for rung: the demo starts its children
// from its own executable.
func TestMain(m *testing.M) {
	if os.Getenv(asRung) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// asRung in the environment makes the test binary run as rung.
const asRung = "RUNG_TEST_AS_RUNG"

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args       string
		code       int
		stderr     string // part of it
		wantOutput bool
	}{
		{"version", exitOK, "", true},
		{"--help", exitOK, "", true},
		{"demo --help", exitOK, "", true},
		{"", exitUsage, "no command given", false},
		{"dmeo", exitUsage, `unknown command "dmeo"; did you mean demo?`, false},
		{"demo --quotum 1", exitUsage, "unknown flag: --quotum\nusage: rung demo [flags]; 'rung demo --help' lists the flags", false},
		{"demo extra", exitUsage, "usage: rung demo", false},
		{"demo --arms rest-h1,rest-h9", exitUsage, `unknown arm "rest-h9"; the arms are rest-h1, rest-h2c, grpc-unary, grpc-stream, loop`, false},
		{"demo --rate x", exitUsage, "--rate", false},
		{"check extra", exitUsage, "usage: rung check", false},
		{"join --cgroup /nonexistent -- version", exitFailure, "enter cgroup /nonexistent", false},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), newRootCommand(), strings.Fields(c.args), &stdout, &stderr)
		if code != c.code || !strings.Contains(stderr.String(), c.stderr) || (stdout.Len() > 0) != c.wantOutput {
			t.Errorf("rung %s: exit %d, stderr %q, stdout %q; want exit %d, stderr with %q", c.args, code, stderr.String(), stdout.String(), c.code, c.stderr)
		}
		if c.stderr != "" && !strings.Contains(stderr.String(), "rung: ") {
			t.Errorf("rung %s: stderr %q names no program", c.args, stderr.String())
		}
	}
}

func TestExitCodeOfErrors(t *testing.T) {
	plain := errors.New("broken")
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, exitOK},
		{plain, exitFailure},
		{exitError{exitUsage, plain}, exitUsage},
		{&exitError{exitUsage, plain}, exitUsage},
		{errors.Join(plain, exitError{exitUsage, plain}), exitUsage},
	} {
		root := &cobra.Command{Use: "rung", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return c.err }}
		var stdout, stderr bytes.Buffer
		if code := execute(context.Background(), root, nil, &stdout, &stderr); code != c.code {
			t.Errorf("%v: exit %d, want %d", c.err, code, c.code)
		}
		if strings.Contains(stderr.String(), "usage:") {
			t.Errorf("%v: a command that ran must not print its usage: %q", c.err, stderr.String())
		}
	}
}

// long is for tests that take many seconds over processes of their own, whose
// races the detector does not see; what runs in this one has shorter tests.
func long(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run without -short")
	}
}
