//go:build linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLoadClosed(t *testing.T) {
	address, _ := startTestArm(t, "null-grpc")
	lines := filepath.Join(t.TempDir(), "lines")
	args := []string{"--protocol", "grpc-unary", "--address", address, "--body", "tiny", "--closed", "1,3", "--iterations-per-slot", "20", "--id-field", "2.1s", "--json"}
	stdout, stderr, code := runLoadCommand(t, append(args, "--lines", lines)...)
	var got closedResult
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil || len(got.Steps) != 2 || got.Steps[1].Delivered != 60 {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	text, err := os.ReadFile(lines)
	if err != nil || strings.Count(string(text), " ok -\n") != 80 {
		t.Errorf("%v: %d lines", err, strings.Count(string(text), "\n"))
	}
	if !strings.Contains(stderr, "closed loop of 3: delivered ") {
		t.Error(stderr)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--lines", lines}, "file exists"},
		{[]string{"--closed", "0"}, `--closed "0": want`},
		{[]string{"--closed", "many"}, `--closed "many": want`},
		{[]string{"--iterations-per-slot", "-1"}, "--iterations-per-slot -1: want 0 (none) to 1000000"},
		{[]string{"--watchdog", "1ms"}, "--watchdog 1ms: want 100ms to"},
	} {
		if _, stderr, code := runLoadCommand(t, append(append([]string{}, args...), tc.args...)...); code != exitUsage || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit %d, %s", tc.args, code, stderr)
		}
	}
}
