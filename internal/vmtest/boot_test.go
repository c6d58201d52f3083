//go:build vm

package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Boots real machines for half a minute, so only on request: go test -tags vm ./internal/vmtest
func TestMachine(t *testing.T) {
	probe := filepath.Join(t.TempDir(), "probe")
	build := exec.Command("go", "build", "-o", probe, "./probe")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{"all capabilities", []string{"--", probe, "-caps", "all"}, 0, "aarch64", ""},
		{"the agent's", []string{"--caps", "agent", "--sysctl", "kernel.kptr_restrict=2", "--append", "lockdown=confidentiality", "--",
			probe, "-caps", "agent", "-sysctl", "kernel.kptr_restrict=2", "-lockdown", "confidentiality"}, 0, "[confidentiality]", ""},
		{"none", []string{"--caps", "none", "--", probe, "-caps", "none"}, 0, "CapBnd       none", ""},
		{"status passed on", []string{"--caps", "none", "--", probe, "-caps", "agent"}, 1, "CapEff       none", "CapEff is none, expected"},
		{"busybox", []string{"--", "/bin/sh", "-c", "cat >/tmp/x <<. && cat /tmp/x && exit 7\nhello\n."}, 7, "hello\n", ""},
		{"nothing to run", []string{"--", "/w/nothing"}, 1, "", "in the guest: start /w/nothing: no such file"},
		{"bad sysctl", []string{"--sysctl", "kernel.nothing=1", "--", probe}, exitNoGuest, "", "sysctl kernel.nothing=1: open"},
		{"panic", []string{"--append", "rdinit=/nothing", "--", probe}, exitNoGuest, "", "Kernel panic"},
		{"timeout", []string{"--timeout", "300ms", "--", probe}, exitTimeout, "", "did not finish within 300ms"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(context.Background(), c.args, &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("exit %d, want %d and %q, %q\nstdout:\n%s\nstderr:\n%s", code, c.code, c.stdout, c.stderr, &stdout, &stderr)
			}
		})
	}
}
