package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

func newGateCommand(stdout, stderr io.Writer) *cobra.Command {
	var m machineFlags
	var only []string
	cmd := &cobra.Command{
		Use:   "gate",
		Short: "Run the kernel tests and a small demo on a locked-down arm64 kernel, with the agent's capabilities",
		Long: `Build the kernel tests and rung for the guest, boot a stock kernel the way a
hardened node boots, and run there: the checks of the machine and of the agent's
capabilities, the kernel tests (a skipped test fails the gate, and so does a run
without tests), and a small demo with and without visible kernel symbols.

Exit status: 0 when all passed; 1 when one did not; 124 after --timeout; 125 when
the guest panicked; 2 when the command line is wrong or the host lacks something.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return usage(err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runGate(cmd.Context(), &m, only, stdout, stderr)
		},
	}
	m.register(cmd.Flags())
	cmd.Flags().StringSliceVar(&only, "only", nil, "run these stages alone, by name or first part of it: machine, capabilities, check, bpf, agent, demo")
	return cmd
}

// runGate runs all stages in one machine and judges each.
func runGate(ctx context.Context, m *machineFlags, only []string, stdout, stderr io.Writer) error {
	begin := time.Now()
	shop, err := m.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer shop.close()
	shop.config.Append = append(shop.config.Append, hardenedBoot...)
	stages, err := gateStages(ctx, shop, only)
	if err != nil {
		return err
	}
	shop.logf("built everything after %.1f s", time.Since(begin).Seconds())

	results, res, err := runStages(ctx, shop, stages, hardenedSysctls, stdout, stderr)
	failed := 0
	fmt.Fprintf(stdout, "=== GATE %s %s\n", shop.config.Arch, res.Boot.Release)
	for i, s := range stages {
		if !results[i].passed() {
			failed++
		}
		fmt.Fprintln(stdout, results[i].line(s.payload.Name))
	}
	shop.logTimes(res)
	shop.logf("gate took %.1f s", time.Since(begin).Seconds())
	if err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d stages failed", failed, len(stages))
	}
	return nil
}

// runStages runs stages one after another in one machine and judges each. The
// results are there also beside an error of the machine.
func runStages(ctx context.Context, shop *workshop, stages []stage, sysctls []wire.Sysctl, stdout, stderr io.Writer) ([]stageResult, machine.Result, error) {
	plan := wire.Plan{Sysctls: sysctls}
	for _, s := range stages {
		plan.Payloads = append(plan.Payloads, s.payload)
	}
	results := make([]stageResult, len(stages))
	var started time.Time
	res, err := machine.Run(ctx, shop.config, plan, machine.Observer{
		Start: func(i int) {
			started, results[i].started = time.Now(), true
			fmt.Fprintf(stdout, "=== STAGE %s\n", stages[i].payload.Name)
		},
		Output: func(i int) (io.Writer, io.Writer) {
			if stages[i].errors {
				return stdout, io.MultiWriter(stderr, &results[i].stdout)
			}
			if stages[i].quiet {
				return &results[i].stdout, stderr
			}
			return io.MultiWriter(stdout, &results[i].stdout), stderr
		},
		Exit: func(i int, exit wire.Exit) {
			results[i].ended = true
			results[i].note, results[i].err = stages[i].verdict(exit, results[i].stdout.Bytes())
			results[i].took = time.Since(started)
		},
	})
	return results, res, err
}

// stage is one payload and how its end is judged.
type stage struct {
	payload wire.Payload                                 // Argv[0] is what pkg is built into
	pkg     string                                       // relative to the module's root
	test    bool                                         // build the package's tests instead of a command
	judge   func(stdout []byte) (note string, err error) // beside the exit status; may be nil
	code    int                                          // exit status to expect
	quiet   bool                                         // its stdout is for judge alone
	errors  bool                                         // judge reads stderr instead
}

func (s stage) verdict(exit wire.Exit, stdout []byte) (note string, err error) {
	var judged error
	if s.judge != nil {
		note, judged = s.judge(stdout)
	}
	switch {
	case exit.Error != "":
		return note, errors.New(exit.Error)
	case exit.Code == wire.TimeoutCode:
		return note, fmt.Errorf("did not end within %v", time.Duration(s.payload.TimeoutMs)*time.Millisecond)
	case exit.Code != s.code && judged == nil && s.code != 0:
		return note, fmt.Errorf("exit status %d, expected %d", exit.Code, s.code)
	case exit.Code != s.code && judged == nil:
		return note, fmt.Errorf("exit status %d", exit.Code)
	case exit.Code != s.code:
		return note, fmt.Errorf("exit status %d: %w", exit.Code, judged)
	}
	return note, judged
}

// stageResult is what came of a stage.
type stageResult struct {
	stdout  bytes.Buffer // or stderr, what judge reads
	started bool
	ended   bool
	took    time.Duration
	note    string
	err     error
}

func (r *stageResult) passed() bool { return r.ended && r.err == nil }

func (r *stageResult) line(name string) string {
	text := fmt.Sprintf("--- ok       %-14s %6.1f s", name, r.took.Seconds())
	switch {
	case !r.started:
		return fmt.Sprintf("--- not run  %s", name)
	case !r.ended:
		return fmt.Sprintf("--- CUT OFF  %s", name)
	case r.err != nil:
		text = fmt.Sprintf("--- FAIL     %-14s %6.1f s  %v", name, r.took.Seconds(), r.err)
	}
	if r.note != "" {
		text += "\n             " + strings.ReplaceAll(r.note, "\n", "\n             ")
	}
	return text
}
