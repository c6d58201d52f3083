//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/agent"
	"github.com/rungprof/rung/attribution"
	"github.com/rungprof/rung/bpf"
	"github.com/rungprof/rung/rundir"
)

// profileOptions are the flags of `rung profile`.
type profileOptions struct {
	pid      int
	hasPid   bool
	cgroup   string
	command  []string
	duration time.Duration
	// hasDuration: without it, the window of a command ends with the command.
	hasDuration bool
	rateHz      int
	threads     string
	groups      []string
	limits      limitOptions
	presets     []string
	rules       []string
	top         int
	output      string
	json        bool
}

// How threads are put into rows.
const (
	threadsGrouped = "groups" // by name, digits folded
	threadsSingle  = "single"
)

// Bounds of a window. The agent gives no longer one.
const (
	shortestProfile = 10 * time.Millisecond
	longestProfile  = 24 * time.Hour
)

// commandPlan sizes the bootstrap blocks where nobody knows how long a command
// will run: 64 of them in this time, a second each.
const commandPlan = 64 * time.Second

func newProfileCommand() *cobra.Command {
	o := profileOptions{duration: 10 * time.Second, rateHz: agent.DefaultRateHz, threads: threadsGrouped, limits: defaultLimits(), top: 10}
	cmd := &cobra.Command{
		Use:   "profile {--pid PID | --cgroup PATH | -- COMMAND [ARG...]}",
		Short: "Say where the threads of any process spend their time, on the CPU and off it",
		Long: `Measure a process with all its descendants, a cgroup, or a command that is
started for it, over one window, and print where the time of its threads went:
on-CPU, run-queue wait, throttled, blocked by reason; then the functions and
stacks that took it, and what was lost. No load generator is needed.

A command is stopped at its first instruction until the window is open. Its
window ends when it exits, or after --duration; then it gets SIGTERM, and SIGKILL
5 s later. Ctrl-C ends any window early. With --json, the standard output of the
command goes to standard error.

Nothing counts as idle unless an idle rule says so: see --preset. Goroutines and
virtual threads are invisible to the scheduler: the rows are threads.

Exit 0: measured. 1: the window is void, or the command failed. 2: wrong flags, no
such target, or this host lacks a requirement ('rung check' lists them).`,
		Example: `  rung profile --pid 4711
  rung profile --cgroup /system.slice/web.service --duration 1m
  rung profile --output build.profile -- make build`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.command = args
			o.hasPid = cmd.Flags().Changed("pid")
			o.hasDuration = cmd.Flags().Changed("duration")
			return runProfile(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.SetInterspersed(false) // flags after the command's name are the command's
	f.IntVar(&o.pid, "pid", 0, "process to measure, with all its descendants")
	f.StringVar(&o.cgroup, "cgroup", "", "cgroup to measure, with all below it: its path below the root of the v2 hierarchy")
	f.DurationVar(&o.duration, "duration", o.duration, "length of the window, 10ms to 24h")
	f.Lookup("duration").DefValue += ", of a command until it exits"
	f.IntVar(&o.rateHz, "rate", o.rateHz, "on-CPU samples per second of CPU time, 1 to 9999; each costs the target about 3 µs")
	f.StringVar(&o.threads, "threads", o.threads, "rows of the account: groups (threads of one name, digits folded to *, or of one --group) or single (each thread)")
	addGroupFlag(f, &o.groups)
	f.StringSliceVar(&o.presets, "preset", nil,
		"rules whose idle waits are taken out of blocked: presets ("+strings.Join(attribution.Presets(), ", ")+") or files; a later one is tried before an earlier one")
	f.StringArrayVar(&o.rules, "rules", nil, "rule file on top of --preset; may be repeated")
	f.IntVar(&o.top, "top", o.top, "rows of each list: thread groups, functions, stacks; 0 for all")
	f.StringVar(&o.output, "output", "", "directory to make for record.json and profile.pb.gz; it must not hold anything (default rung-profile-YYYYMMDD-HHMMSS here)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	o.limits.addTo(f)
	return cmd
}

// Validate says what is wrong with the first wrong option, and what would be right.
func (o profileOptions) Validate() error {
	var named []string
	if o.hasPid {
		named = append(named, "--pid")
	}
	if o.cgroup != "" {
		named = append(named, "--cgroup")
	}
	if len(o.command) > 0 {
		named = append(named, "a command")
	}
	switch {
	case len(named) == 0:
		return errors.New("nothing to measure: name --pid PID, --cgroup PATH, or a command after --")
	case len(named) > 1:
		return fmt.Errorf("%s exclude each other: one target is measured at a time", strings.Join(named, " and "))
	case o.hasPid && o.pid <= 0:
		return fmt.Errorf("--pid %d is not a process id", o.pid)
	case o.duration < shortestProfile || o.duration > longestProfile:
		return fmt.Errorf("--duration %v is outside %v to %v", o.duration, shortestProfile, longestProfile)
	case o.rateHz < 1 || o.rateHz > bpf.MaxRateHz:
		return fmt.Errorf("--rate %d is outside 1 to %d", o.rateHz, bpf.MaxRateHz)
	case o.threads != threadsGrouped && o.threads != threadsSingle:
		return fmt.Errorf("--threads %q: give %s or %s", o.threads, threadsGrouped, threadsSingle)
	case o.threads == threadsSingle && len(o.groups) > 0:
		return errors.New("--threads single and --group exclude each other")
	case o.top < 0:
		return fmt.Errorf("--top %d: give 0 or more", o.top)
	}
	return o.limits.Validate()
}

// grouper decides on the threads' groups: nil folds the digits of their names.
func (o profileOptions) grouper(rules *attribution.Rules) (*attribution.Grouper, error) {
	if o.threads == threadsSingle {
		return attribution.SingleThreads(), nil
	}
	return threadGroups(o.groups, rules)
}

// idleRules are the rules that the flags name, nil for none.
func (o profileOptions) idleRules() (*attribution.Rules, error) {
	if strings.Join(o.presets, "")+strings.Join(o.rules, "") == "" {
		return nil, nil
	}
	return loadRules(o.presets, o.rules)
}

// untilExit: the window is a command's and ends with it.
func (o profileOptions) untilExit() bool { return len(o.command) > 0 && !o.hasDuration }

// runProfile measures one window and prints it. Everything that can be refused
// is refused before a command is started.
func runProfile(ctx context.Context, o profileOptions, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return exitError{exitUsage, err}
	}
	rules, err := o.idleRules()
	if err != nil {
		return exitError{exitUsage, err}
	}
	groups, err := o.grouper(rules)
	if err != nil {
		return exitError{exitUsage, err}
	}
	target, err := findProfileTarget(o)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer target.close()
	if o.output == "" {
		o.output = "rung-profile-" + time.Now().Format("20060102-150405")
	}
	discard, err := claimOutput(o.output)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer discard()
	kernel, err := loadForProfile(o)
	if err != nil {
		return err
	}
	defer kernel.Close()

	if len(o.command) > 0 {
		out := stdout
		if o.json {
			out = stderr
		}
		if err := target.start(o.command, stdin, out, stderr); err != nil {
			return exitError{exitUsage, err}
		}
		defer target.command.stop()
	}
	measured, err := measureProfile(ctx, o, groups, target, kernel, stderr)
	if err != nil {
		return err
	}
	target.command.stop() // names were read: it may go
	result, err := newProfileResult(o, target, measured, rules)
	if err != nil {
		return err
	}
	if err := writeProfile(o.output, measured, result); err != nil {
		return err
	}
	if err := result.print(stdout, o.json); err != nil {
		return err
	}
	return result.verdict()
}

// claimOutput makes the output directory. What it answers takes it away again if
// nothing was written.
func claimOutput(dir string) (discard func(), err error) {
	_, err = os.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist)
	if err := rundir.Claim(dir); err != nil {
		return nil, err
	}
	return func() {
		if made {
			os.Remove(dir) // fails where it holds something
		}
	}, nil
}

// loadForProfile loads the kernel side, or says what the host lacks for it.
func loadForProfile(o profileOptions) (*bpf.Profiler, error) {
	h := thisHost()
	if err := missingError([]requirement{h.kernel(), h.typeInfo(), h.capabilities(), h.perfEvents()}); err != nil {
		return nil, err
	}
	kernel, err := bpf.Load(o.limits.kernel(uint32(o.rateHz)))
	var missing *bpf.MissingError
	if errors.As(err, &missing) {
		return nil, exitError{exitUsage, err}
	}
	return kernel, err
}
