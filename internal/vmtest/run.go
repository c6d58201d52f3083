package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/machine"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// payloadStatus is a payload's exit code, not 0, as an error.
type payloadStatus int

func (s payloadStatus) Error() string { return fmt.Sprintf("payload: exit status %d", int(s)) }

// runOptions are one payload and its machine.
type runOptions struct {
	machineFlags
	files, sysctls, env []string
	caps                string
	argv                []string
}

func newRunCommand(stdout, stderr io.Writer) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "vmtest [flags] -- PAYLOAD [ARG...]",
		Short: "Run a static program as root in a virtual machine with a stock Debian kernel",
		Long: `Run a static program as root in a virtual machine with a stock Debian kernel,
and pass on what it prints and its exit status. The guest has no network and no
disk. PAYLOAD is a file of this host, copied to ` + wire.PayloadDir + ` in the guest, or the absolute
path of something that --file put there, or of busybox (/bin/sh).

Exit status: the payload's; 124 when --timeout ended it; 125 when the guest
panicked; 2 when the command line is wrong or the host lacks something.
(Under "go run" these show as "exit status N", and go itself exits with 1.)`,
		Example: `  vmtest --append lockdown=confidentiality --caps agent -- ./bpf.test -test.v`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usage(fmt.Errorf("no payload; want: vmtest [flags] -- PAYLOAD [ARG...]"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.argv = args
			return o.run(cmd.Context(), stdout, stderr)
		},
	}
	f := cmd.Flags()
	o.register(f)
	f.SetInterspersed(false)
	f.StringArrayVar(&o.files, "file", nil, "copy HOST[:GUEST], a file or folder, into the guest; repeatable")
	f.StringArrayVar(&o.sysctls, "sysctl", nil, "set NAME=VALUE in the guest; repeatable")
	f.StringArrayVar(&o.env, "env", nil, "set NAME=VALUE in the payload's environment; repeatable")
	f.StringVar(&o.caps, "caps", "all", "the payload's capabilities: all, none, agent, or names as bpf,sys_ptrace")
	return cmd
}

func (o *runOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	plan, files, err := o.plan()
	if err != nil {
		return usage(err)
	}
	shop, err := o.open(ctx, stderr)
	if err != nil {
		return err
	}
	defer shop.close()
	shop.config.Files = files
	res, err := machine.Run(ctx, shop.config, plan, machine.Observer{
		Output: func(int) (io.Writer, io.Writer) { return stdout, stderr },
	})
	if o.verbose {
		shop.logTimes(res)
	}
	if err != nil {
		return err
	}
	exit := res.Exits[0]
	if exit.Error != "" {
		return fmt.Errorf("in the guest: %s", exit.Error)
	}
	if exit.Code != 0 {
		return payloadStatus(exit.Code)
	}
	return nil
}

// plan checks the command line and makes one payload of it.
func (o *runOptions) plan() (wire.Plan, []machine.File, error) {
	var (
		plan  wire.Plan
		files []machine.File
	)
	for _, text := range o.files {
		f, err := parseFile(text)
		if err != nil {
			return plan, nil, err
		}
		files = append(files, f)
	}
	for _, text := range o.sysctls {
		s, err := parseSysctl(text)
		if err != nil {
			return plan, nil, err
		}
		plan.Sysctls = append(plan.Sysctls, s)
	}
	caps, err := capset.Parse(o.caps)
	if err != nil {
		return plan, nil, fmt.Errorf("--caps: %w", err)
	}
	argv := append([]string(nil), o.argv...)
	switch info, err := os.Stat(argv[0]); {
	case err == nil && info.Mode().IsRegular():
		files = append(files, machine.File{Host: argv[0]})
		argv[0] = wire.PayloadDir + "/" + filepath.Base(argv[0])
	case !filepath.IsAbs(argv[0]):
		return plan, nil, fmt.Errorf("payload %s: no such file here, and not an absolute path in the guest", argv[0])
	}
	plan.Payloads = []wire.Payload{{Name: filepath.Base(argv[0]), Argv: argv, Env: o.env, Caps: caps}}
	return plan, files, nil
}
