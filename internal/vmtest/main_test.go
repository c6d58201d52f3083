package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
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
		{[]string{"--arch", otherArch(), "--", os.Args[0]}, "build it with GOARCH=" + otherArch()},
		{[]string{"--", "main_test.go"}, "main_test.go: neither an executable nor a script"},
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

// otherArch is one for which this test is not built.
func otherArch() string {
	if runtime.GOARCH == "arm64" {
		return "amd64"
	}
	return "arm64"
}

func executable(t *testing.T) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(p, []byte("#!/bin/false\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}
