//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
	"github.com/spf13/cobra"

	"github.com/rungprof/rung/attribution"
)

// maxProfileBytes bounds what `rung attribute` reads.
const maxProfileBytes = 1 << 30

type attributeOptions struct {
	profile    string // path, "-" is standard input
	presets    []string
	rules      []string
	charge     string
	kernel     string
	sampleType string
	layer      string
	perRequest uint64
	top        int
	json       bool
}

func newAttributeCommand() *cobra.Command {
	var o attributeOptions
	cmd := &cobra.Command{
		Use:   "attribute PROFILE",
		Short: "Charge any CPU profile to layers",
		Long: `Charge a profile to layers by a rule file and print the table.

PROFILE is a pprof (gzipped or not; of Rung or of any other tool) or folded
stacks ("main;work 42", a line each); "-" reads standard input.

Intervals need samples with the label "block", as Rung's own profiles have.
Exit code: 0, 1 when the profile cannot be read, 2 for flags and rule files.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.profile = args[0]
			return runAttribute(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.presets, "preset", []string{"go"},
		"rules to start from: presets ("+strings.Join(attribution.Presets(), ", ")+") or files; a later one is tried before an earlier one")
	f.StringArrayVar(&o.rules, "rules", nil, "rule file on top of the presets, or instead of them with --preset ''; may be repeated")
	f.StringVar(&o.charge, "charge", string(attribution.Leaf), "leaf: self time; owner: copying, allocation, locks and other helpers go to their caller")
	f.StringVar(&o.kernel, "kernel", "self", "self: kernel time is a layer of its own; owner: it goes to the caller of the syscall (with --charge owner)")
	f.Uint64Var(&o.perRequest, "per-request", 0, "number of requests the profile covers; adds a column in ms per request")
	f.StringVar(&o.sampleType, "sample-type", "", "sample type of the pprof (default: cpu, else the profile's own default)")
	f.StringVar(&o.layer, "layer", "", "list the functions of this layer only")
	f.IntVar(&o.top, "top", 3, "functions per layer, 0 for none")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return cmd
}

func runAttribute(ctx context.Context, o attributeOptions, stdin io.Reader, stdout io.Writer) error {
	rules, opts, err := o.prepare()
	if err != nil {
		return exitError{exitUsage, err}
	}
	data, err := readProfile(o.profile, stdin)
	if err != nil {
		return exitError{exitFailure, err}
	}
	p, err := parseProfile(data, o.sampleType)
	if err != nil {
		return exitError{exitFailure, fmt.Errorf("%s: %w", o.profile, err)}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	table, err := attribution.Attribute(p, rules, opts)
	if err != nil {
		return exitError{exitFailure, fmt.Errorf("%s: %w", o.profile, err)}
	}
	if o.layer != "" {
		keepFunctionsOf(table, o.layer)
	}
	if o.json {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(table)
	}
	return printTable(stdout, table)
}

// prepare reads everything but the profile.
func (o attributeOptions) prepare() (*attribution.Rules, attribution.Options, error) {
	var opts attribution.Options
	rules, err := loadRules(o.presets, o.rules)
	if err != nil {
		return nil, opts, err
	}
	if opts.Charge, err = attribution.ParseCharge(o.charge); err != nil {
		return nil, opts, fmt.Errorf("--%w", err)
	}
	switch o.kernel {
	case "self":
	case "owner":
		opts.KernelToOwner = true
	default:
		return nil, opts, fmt.Errorf("--kernel %q: want self or owner", o.kernel)
	}
	if opts.KernelToOwner && opts.Charge != attribution.Owner {
		return nil, opts, errors.New("--kernel owner needs --charge owner")
	}
	if o.layer != "" {
		if err := rules.Check(o.layer); err != nil {
			return nil, opts, fmt.Errorf("--%w", err)
		}
	}
	switch {
	case o.top < 0:
		return nil, opts, fmt.Errorf("--top %d: want 0 or more", o.top)
	case o.top == 0:
		opts.TopFunctions = -1
	default:
		opts.TopFunctions = o.top
	}
	opts.Requests = o.perRequest
	return rules, opts, nil
}

// loadRules composes presets and rule files, in the order of the command line. An
// element of presets that is no preset's name is a file; an empty one is nothing.
func loadRules(presets, files []string) (*attribution.Rules, error) {
	var sources []attribution.Source
	for _, name := range slices.Concat(presets, files) {
		if name == "" {
			continue
		}
		src, err := ruleSource(name)
		if err != nil {
			return nil, err
		}
		sources = append(sources, src)
	}
	return attribution.ParseRules(sources...)
}

func ruleSource(name string) (attribution.Source, error) {
	if slices.Contains(attribution.Presets(), name) {
		data, err := attribution.PresetSource(name)
		return attribution.Source{File: "preset " + name, Data: data}, err
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return attribution.Source{}, fmt.Errorf("rules %q: neither a preset (%s) nor a file",
			name, strings.Join(attribution.Presets(), ", "))
	}
	if err != nil {
		return attribution.Source{}, fmt.Errorf("read rules: %w", err)
	}
	return attribution.Source{File: name, Data: data}, nil
}

func readProfile(path string, stdin io.Reader) ([]byte, error) {
	in := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read profile: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxProfileBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read profile: %w", err)
	case len(data) > maxProfileBytes:
		return nil, fmt.Errorf("%s: longer than %d bytes", path, maxProfileBytes)
	case len(data) == 0:
		return nil, fmt.Errorf("%s: empty; want a pprof profile or folded stacks", path)
	}
	return data, nil
}

// parseProfile tells a pprof from folded stacks: a pprof is gzipped or has
// control bytes, text has none but tabs and line ends.
func parseProfile(data []byte, sampleType string) (*attribution.Profile, error) {
	binary := slices.ContainsFunc(data[:min(len(data), 4096)], func(b byte) bool {
		return b < ' ' && b != '\t' && b != '\n' && b != '\r'
	})
	if !binary {
		if sampleType != "" {
			return nil, errors.New("folded stacks have no sample types; leave --sample-type out")
		}
		return attribution.ParseFolded(bytes.NewReader(data))
	}
	p, err := profile.ParseData(data)
	if err != nil {
		return nil, fmt.Errorf("neither a pprof profile nor folded stacks: %w", err)
	}
	return attribution.FromPprof(p, sampleType)
}

func keepFunctionsOf(t *attribution.Table, layer string) {
	for i := range t.Rows {
		if t.Rows[i].Layer != layer {
			t.Rows[i].Functions = nil
		}
	}
}
