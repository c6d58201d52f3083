// Command vmtest runs programs in throw-away virtual machines with stock Debian
// kernels, so that kernel code is tested on kernels and architectures other
// than this machine's. `vmtest gate` is the check that CI runs; `vmtest matrix`
// holds several kernels side by side.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/internal/vmtest/machine"
)

// Exit codes beside a payload's own.
const (
	exitFailed  = 1
	exitUsage   = 2 // wrong command line, or something missing on this host
	exitTimeout = 124
	exitNoGuest = 125 // the guest panicked or stopped without finishing
)

// exitError carries the exit code that an error asks for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command as a function; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand(stdout, stderr)
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var status payloadStatus
	if errors.As(err, &status) {
		return int(status) // the payload has said why
	}
	fmt.Fprintln(stderr, "vmtest:", err)
	var guest *machine.Error
	var exit *exitError
	switch {
	case errors.As(err, &guest) && guest.Timeout:
		return exitTimeout
	case errors.As(err, &guest):
		return exitNoGuest
	case errors.As(err, &exit):
		return exit.code
	}
	return exitFailed
}

func newCommand(stdout, stderr io.Writer) *cobra.Command {
	cmd := newRunCommand(stdout, stderr)
	cmd.AddCommand(newGateCommand(stdout, stderr), newMatrixCommand(stdout, stderr))
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage(err) })
	return cmd
}
