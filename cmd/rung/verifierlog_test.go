//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/spf13/cobra"

	"github.com/rungprof/rung/bpf"
)

// refusal is a program that the verifier refused, as the loader gives it.
func refusal() error {
	verifier := &ebpf.VerifierError{Cause: errors.New("invalid argument"), Log: []string{"0: R1=ctx()", "1: exit", "R1 is bad"}}
	return &bpf.LoadError{Err: fmt.Errorf("program on_switch: %w", verifier)}
}

func TestVerifierLogIsPrinted(t *testing.T) {
	const log = "the kernel's verifier said:\n\t0: R1=ctx()\n\t1: exit\n\tR1 is bad\n"
	root := &cobra.Command{Use: "rung", SilenceErrors: true, SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error { return fmt.Errorf("agent: %w", refusal()) }}
	var stdout, stderr bytes.Buffer
	if code := execute(context.Background(), root, nil, &stdout, &stderr); code != exitFailure {
		t.Errorf("exit %d", code)
	}
	if !strings.HasSuffix(stderr.String(), "\n"+log) {
		t.Errorf("stderr is %q, want the log at its end", stderr.String())
	}

	h := soundHost().host(t)
	h.loadBPF = func() (error, error) { return nil, refusal() }
	stdout.Reset()
	err := runCheck(h, false, &stdout)
	var coded exitError
	if !errors.As(err, &coded) || coded.code != exitUsage || strings.Contains(err.Error(), "R1=ctx") {
		t.Errorf("check answers %v, want exit %d in few lines", err, exitUsage)
	}
	var printed bytes.Buffer
	printVerifierLog(&printed, err)
	if printed.String() != log {
		t.Errorf("check gives %q, want %q", printed.String(), log)
	}
}
