//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// newEnterCommand is how an arm of a campaign comes to run in its cgroups from
// its first instruction on, whatever program it is.
func newEnterCommand() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:    "enter --cgroup DIR... -- PROGRAM [ARG...]",
		Short:  "Enter cgroups, then become another program",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return enter(dirs, args) },
	}
	cmd.Flags().StringArrayVar(&dirs, "cgroup", nil, "directory of a cgroup to enter; may be repeated, one per hierarchy")
	return cmd
}

func enter(dirs, argv []string) error {
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return fmt.Errorf("no program %s: %w", argv[0], err)
	}
	for _, dir := range dirs {
		// "0" is the writing process; in v1 too, cgroup.procs moves all its threads.
		if err := writeCgroupFile(dir, "cgroup.procs", "0"); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", dir, err)
		}
	}
	// The wish to die with the campaign belongs to the thread that execs.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("tie to the campaign's life: %w", err)
	}
	return fmt.Errorf("run %s: %w", strings.Join(argv, " "), syscall.Exec(program, argv, os.Environ()))
}
