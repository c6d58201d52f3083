//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// requirement is one line of `rung check`: something the host has or lacks.
type requirement struct {
	Name  string `json:"name"`
	Found string `json:"found"`
	// Status is "ok"; "missing", which stops a demo; or "warning", which weakens it.
	Status requirementStatus `json:"status"`
	// Remedy is absent where nothing is to be done.
	Remedy string `json:"remedy,omitempty"`
	cause  error  // that Found tells in one line
}

type requirementStatus string

const (
	statusOK      requirementStatus = "ok"
	statusMissing requirementStatus = "missing"
	statusWarning requirementStatus = "warning"
)

func newCheckCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what Rung needs of this host, and which of it is missing",
		Long: `Print every requirement on a line: status, name, what was found, and what to do
where it is missing. Exit 2 if a required one is missing; a warning weakens the
figures but stops nothing.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCheck(thisHost(), asJSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array of the requirements")
	return cmd
}

func runCheck(h host, asJSON bool, stdout io.Writer) error {
	all := h.requirements()
	var err error
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(all)
	} else {
		err = printRequirements(stdout, all)
	}
	if err != nil {
		return fmt.Errorf("print the requirements: %w", err)
	}
	return missingError(all)
}

func printRequirements(w io.Writer, all []requirement) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, r := range all {
		fmt.Fprintf(table, "%s\t%s\t%s", r.Status, r.Name, r.Found)
		if r.Remedy != "" {
			fmt.Fprintf(table, "; %s", r.Remedy)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// missingError is nil, or an error with exitUsage that names each missing
// requirement and its remedy.
func missingError(all []requirement) error {
	var missing []string
	var causes []error
	for _, r := range all {
		if r.Status == statusMissing {
			missing = append(missing, fmt.Sprintf("%s: %s; %s", r.Name, r.Found, r.Remedy))
			causes = append(causes, r.cause)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exitError{exitUsage, &lackingError{errors.Join(causes...),
		fmt.Sprintf("this host lacks %d of Rung's requirements:\n  %s", len(missing), strings.Join(missing, "\n  "))}}
}

// lackingError has a text of its own, shorter than its causes'.
type lackingError struct {
	error
	text string
}

func (e *lackingError) Error() string { return e.text }
func (e *lackingError) Unwrap() error { return e.error }
