//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/agent"
	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/bpf"
)

// defaultAgentAddress is below /run, which only root can write: no other user
// can put a socket of his own there first.
const defaultAgentAddress = "unix:///run/rung.sock"

// agentOptions are the flags of `rung agent`.
type agentOptions struct {
	listen  string
	targets []string
	rateHz  uint32
	limits  limitOptions
	groups  []string
	clock   string
}

func newAgentCommand() *cobra.Command {
	options := agentOptions{limits: defaultLimits()}
	cmd := &cobra.Command{
		Use:   "agent --target NAME=cgroup:/path [--target …]",
		Short: "Measure targets of this host over windows that a load driver opens",
		Long: `Measures cgroups and process trees of this host over windows that 'rung load'
or another driver opens and closes through the agent's API, and keeps the
records of the last 64 steps until they are fetched.

A target is a cgroup with all its descendants, by its path below the root of
the v2 hierarchy, or a process with all its descendants:

  NAME=cgroup:/kubepods/pod1234
  NAME=pid:4711

A process tree has no CPU, quota or memory counters of its own: name its
cgroup where there is one. Targets must not share threads.

Needs Linux 6.1 with BTF, and the capabilities BPF, PERFMON, SYS_PTRACE,
DAC_READ_SEARCH, CHECKPOINT_RESTORE and SYSLOG, or root; 'rung check' says what
is missing. Stops cleanly at SIGTERM and SIGINT.`,
		Example: `  rung agent --target web=cgroup:/system.slice/web.service
  rung agent --listen unix:///tmp/rung.sock --rate 999 --target jvm=pid:4711`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runAgent(cmd.Context(), options, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&options.listen, "listen", defaultAgentAddress,
		"address of the API: unix:///path (a socket of mode 0600) or tcp://127.0.0.1:port (open to every user of this host)")
	cmd.Flags().StringArrayVar(&options.targets, "target", nil,
		"target to measure, as NAME=cgroup:/path or NAME=pid:N; may be repeated, up to 64 times")
	cmd.Flags().Uint32Var(&options.rateHz, "rate", agent.DefaultRateHz,
		"on-CPU samples per second of CPU time, 1 to 9999; each costs the target about 3 µs")
	cmd.Flags().StringVar(&options.clock, "clock", bpf.ClockPerCPU.String(),
		"where the sampling clock ticks: cpu, on every CPU while a window is open; or cgroup, only where a target cgroup runs, which leaves other CPUs asleep and costs the target some µs at each switch to or from another cgroup")
	addGroupFlag(cmd.Flags(), &options.groups)
	options.limits.addTo(cmd.Flags())
	return cmd
}

// runAgent serves until the context ends, and says on stderr when it is ready.
func runAgent(ctx context.Context, options agentOptions, stderr io.Writer) error {
	if os.Getenv("GOGC") == "" {
		// An agent rests between windows, and lives on the node of its target: memory
		// is dearer than the time of its collector.
		debug.SetGCPercent(20)
	}
	if err := options.limits.Validate(); err != nil {
		return exitError{exitUsage, err}
	}
	groups, err := threadGroups(options.groups, nil)
	if err != nil {
		return exitError{exitUsage, err}
	}
	loaded := options.limits.kernel(options.rateHz)
	if loaded.Clock, err = bpf.ParseClock(options.clock); err != nil {
		return exitError{exitUsage, err}
	}
	if loaded.Clock == bpf.ClockPerCgroup {
		roots, err := cgroup.Detect("/proc")
		if err != nil {
			return exitError{exitUsage, err}
		}
		loaded.CgroupMount = roots.V2
	}
	config := agent.Config{
		Loaded: loaded, MaxThreads: options.limits.maxThreads, Groups: groups,
		Log: slog.New(slog.NewTextHandler(stderr, nil)),
	}
	for _, text := range options.targets {
		target, err := agent.ParseTarget(text)
		if err != nil {
			return exitError{exitUsage, err}
		}
		config.Targets = append(config.Targets, target)
	}
	if err := config.Validate(); err != nil {
		return exitError{exitUsage, err}
	}
	listener, err := agent.Listen(options.listen)
	if err != nil {
		return exitError{exitUsage, err}
	}
	defer listener.Close()

	kernel, err := bpf.Load(config.Loaded)
	if err != nil {
		var missing *bpf.MissingError
		if errors.As(err, &missing) {
			return exitError{exitUsage, err}
		}
		return err
	}
	defer kernel.Close()
	a, err := agent.New(config, kernel)
	if err != nil {
		return err
	}
	fmt.Fprintf(stderr, "rung agent: listening on %s\n", agent.Address(listener))
	if err := agent.Serve(ctx, listener, a); err != nil {
		return fmt.Errorf("serve %s: %w", options.listen, err)
	}
	return nil
}
