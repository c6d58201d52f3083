package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

func TestBadCommandLines(t *testing.T) {
	payload := executable(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no payload"},
		{[]string{"--arch", "arm64", "--"}, "no payload"},
		{[]string{"--bogus"}, "unknown flag: --bogus"},
		{[]string{"--timeout", "3", "--", payload}, "invalid argument \"3\""},
		{[]string{"--arch", "riscv64", "--", payload}, "unknown architecture \"riscv64\""},
		{[]string{"--cpus", "0", "--", payload}, "--cpus 0: want 1 to 64"},
		{[]string{"--timeout", "-1s", "--", payload}, "--timeout -1s"},
		{[]string{"--caps", "bpf,root", "--", payload}, "--caps: unknown capability \"root\""},
		{[]string{"--sysctl", "kernel.kptr_restrict", "--", payload}, "want NAME=VALUE"},
		{[]string{"--file", payload + ":w/a", "--", payload}, "GUEST an absolute path"},
		{[]string{"--file", "no-such-file", "--", payload}, "--file no-such-file"},
		{[]string{"--", "no-such-payload"}, "no-such-payload: no such file here"},
		{[]string{"gate", "extra"}, "unknown command \"extra\""},
		{[]string{"gate", "--arch", "mips"}, "unknown architecture"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), c.args, &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), c.want) || stdout.Len() > 0 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want exit %d and %q", c.args, code, &stdout, &stderr, exitUsage, c.want)
		}
	}
}

func TestMissingTools(t *testing.T) {
	payload := executable(t)
	t.Setenv("PATH", t.TempDir())
	var stdout, stderr bytes.Buffer
	code := run(context.Background(), []string{"--", payload}, &stdout, &stderr)
	want := "install --no-install-recommends qemu-system-arm apt dpkg xz-utils\n"
	if code != exitUsage || !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("exit %d, stderr %q; want exit %d and %q", code, &stderr, exitUsage, want)
	}
}

func TestPlan(t *testing.T) {
	payload := executable(t)
	o := runOptions{
		files:   []string{payload + ":/etc/thing"},
		sysctls: []string{"kernel.kptr_restrict=2", "net.core.bpf_jit_harden=2"},
		env:     []string{"A=b"},
		caps:    "agent",
		argv:    []string{payload, "-v", "--flag=x"},
	}
	plan, files, err := o.plan()
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Plan{
		Sysctls: []wire.Sysctl{{Name: "kernel.kptr_restrict", Value: "2"}, {Name: "net.core.bpf_jit_harden", Value: "2"}},
		Payloads: []wire.Payload{{
			Name: "payload", Argv: []string{"/w/payload", "-v", "--flag=x"}, Env: []string{"A=b"}, Caps: capset.Agent,
		}},
	}
	if diff := cmp.Diff(want, plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]machine.File{{Host: payload, Guest: "/etc/thing"}, {Host: payload}}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	o.argv = []string{"/etc/thing-of-the-guest"}
	if plan, _, err := o.plan(); err != nil || plan.Payloads[0].Argv[0] != o.argv[0] {
		t.Errorf("a path of the guest: %+v, %v", plan, err)
	}
}

func executable(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(p, []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// Boots real machines, so only on request: RUNG_VM=1 go test ./internal/vmtest
func TestMachine(t *testing.T) {
	if os.Getenv("RUNG_VM") != "1" {
		t.Skip("boots virtual machines for half a minute; set RUNG_VM=1")
	}
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
