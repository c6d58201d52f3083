//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/arms"
	"github.com/rungprof/rung/arms/loop"
)

// armStopTimeout is how long requests in flight may go on after a signal.
const armStopTimeout = time.Second

type armOptions struct {
	mode        string
	listen      string
	codecPasses int
	plantNs     int64
	workers     int
	lockHold    time.Duration
	downstream  time.Duration
}

func newArmCommand() *cobra.Command {
	var o armOptions
	var modes []string
	for _, m := range arms.Modes() {
		modes = append(modes, string(m))
	}
	cmd := &cobra.Command{
		Use:   "arm --mode MODE",
		Short: "Serve a reference arm for demos, tests and benchmarks",
		Long: `Serve one of the reference arms, which echo a nested payload, until SIGTERM or
SIGINT. When it serves, it prints one line on stdout:

  RUNG-ARM ready HOST:PORT

The rest-* modes, loop and null-h* answer POST /echo and GET /healthz; the
grpc-* modes and null-grpc answer rung.arms.echo.v1.Echo: SayHello, Chat and Repeat.
The null modes answer a request's own bytes without decoding them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runArm(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.mode, "mode", "", "the arm: "+strings.Join(modes, ", "))
	flags.StringVar(&o.listen, "listen", "127.0.0.1:0", "`HOST:PORT` to listen on; port 0 takes a free one")
	flags.IntVar(&o.codecPasses, "codec-passes", 1, "decodes and encodes per request, 1 to 64: n passes cost n times the codec's CPU; not for null modes")
	flags.Int64Var(&o.plantNs, "plant-ns", 0, "`nanoseconds` of CPU to burn per request in a function outside all layers, 0 to 1e9; not for null modes")
	flags.IntVar(&o.workers, "workers", 0, fmt.Sprintf("loop: worker threads, 1 to %d (default %d)", loop.MaxWorkers, loop.DefaultWorkers))
	flags.DurationVar(&o.lockHold, "lock-hold", 0, "loop: how long each request sleeps while it holds the one global lock, 0 to 10s; bounds the arm to one request per that time")
	flags.DurationVar(&o.downstream, "downstream", 0, "loop: how long each request's worker waits for the downstream, 0 to 10s; bounds the arm to WORKERS requests per that time")
	cobra.CheckErr(cmd.MarkFlagRequired("mode"))
	return cmd
}

// runArm serves until the context is done, then ends within armStopTimeout.
func runArm(ctx context.Context, o armOptions, stdout io.Writer) error {
	config, err := o.config()
	if err != nil {
		return exitError{code: exitUsage, err: err}
	}
	server, err := arms.Start(config)
	if err != nil {
		err = fmt.Errorf("start arm %s: %w", config.Mode, err)
		var listening *net.OpError
		if errors.As(err, &listening) && listening.Op == "listen" {
			return exitError{code: exitUsage, err: fmt.Errorf("%w (--listen wants a HOST:PORT of this host that is free)", err)}
		}
		return err
	}
	if _, err := fmt.Fprintf(stdout, "RUNG-ARM ready %s\n", server.Addr()); err != nil {
		return fmt.Errorf("print the ready line: %w", err)
	}
	select {
	case <-server.Done():
		return fmt.Errorf("arm %s stopped serving on %s: %w", config.Mode, server.Addr(), server.Err())
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), armStopTimeout)
	defer cancel()
	return server.Stop(stopping)
}

func (o armOptions) config() (arms.Config, error) {
	mode, err := arms.ParseMode(o.mode)
	if err != nil {
		return arms.Config{}, fmt.Errorf("--mode: %w", err)
	}
	if o.codecPasses < 1 { // arms.Config takes 0 as its default
		return arms.Config{}, fmt.Errorf("--codec-passes %d: must be 1 or more", o.codecPasses)
	}
	config := arms.Config{
		Mode:        mode,
		Listen:      o.listen,
		CodecPasses: o.codecPasses,
		Plant:       time.Duration(o.plantNs),
		Workers:     o.workers,
		LockHold:    o.lockHold,
		Downstream:  o.downstream,
	}
	return config, config.Validate()
}
