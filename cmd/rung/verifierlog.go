//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/rungprof/rung/bpf"
)

// printVerifierLog writes what the kernel's verifier said, whole, if err holds
// a program that it refused: only with it can such a report be acted on.
func printVerifierLog(w io.Writer, err error) {
	var refused *bpf.LoadError
	if !errors.As(err, &refused) || len(refused.Log()) == 0 {
		return
	}
	fmt.Fprintln(w, "the kernel's verifier said:")
	for _, line := range refused.Log() {
		fmt.Fprintln(w, "\t"+line)
	}
}
