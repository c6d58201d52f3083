//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes of every subcommand.
const (
	exitOK      = 0
	exitFailure = 1 // the work failed, or a step of it is void
	exitLimited = 3 // all steps are sound, but the driver was the limit of one
	exitUsage   = 2 // wrong command line, or a requirement of the host is missing
)

// exitError gives an error the exit code of the process. Any other error that
// reaches [execute] exits with exitFailure, or exitUsage when the command line
// was refused before the command ran.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

// newRootCommand is the whole command tree.
func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "rung",
		Short: "Where each request's time goes, at every step of a load ladder",
		Long: `Rung drives a service up a ladder of rising offered load and says, for every
step, where each request's time goes, on the CPU and off it.

Start with 'rung check', which says what this host lacks, and 'rung demo'.`,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			text := fmt.Sprintf("unknown command %q", args[0])
			if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
				text += "; did you mean " + strings.Join(near, " or ") + "?"
			}
			return errors.New(text)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.SetOut(cmd.ErrOrStderr())
			return exitError{exitUsage, errors.Join(errors.New("no command given"), cmd.Help())}
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.AddCommand(
		newDemoCommand(),
		newRunCommand(),
		newCheckCommand(),
		newLoadCommand(),
		newStepCommand(),
		newAgentCommand(),
		newArmCommand(),
		newProfileCommand(),
		newAttributeCommand(),
		newReportCommand(),
		newVersionCommand(),
		newJoinCommand(),
		newEnterCommand(),
	)
	return root
}

// execute runs one command line and answers the exit code. Errors go to stderr
// as `rung: …`; one that arose before the command itself started is a usage
// error and carries a hint.
func execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	started := false
	noteStart(root, &started)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	code := exitFailure
	var coded exitError
	var codedPointer *exitError
	switch {
	case errors.As(err, &coded):
		code = coded.code
	case errors.As(err, &codedPointer):
		code = codedPointer.code
	case !started:
		code = exitUsage
	}
	fmt.Fprintf(stderr, "rung: %v\n", err)
	printVerifierLog(stderr, err)
	if !started {
		fmt.Fprintf(stderr, "usage: %s; '%s --help' lists the flags\n", cmd.UseLine(), cmd.CommandPath())
	}
	return code
}

// noteStart wraps the commands' functions, so that an error from cobra's own
// checks of the command line (unknown flag, missing argument) can be told from
// an error of the command: cobra gives both as plain errors.
func noteStart(cmd *cobra.Command, started *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*started = true
			return run(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		noteStart(sub, started)
	}
}
