//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// newJoinCommand is how a child comes to run in its cgroups from its first
// instruction on: it joins them, then becomes another rung command. clone3's
// CLONE_INTO_CGROUP would serve the v2 hierarchy alone.
func newJoinCommand() *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use:    "join --cgroup DIR... -- COMMAND [ARG...]",
		Short:  "Enter cgroups, then become another rung command",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return join(dirs, args) },
	}
	cmd.Flags().StringArrayVar(&dirs, "cgroup", nil, "directory of a cgroup to enter; may be repeated, one per hierarchy")
	return cmd
}

func joinArgs(c armCgroup, args ...string) []string {
	joined := []string{"join"}
	for _, dir := range c.dirs {
		joined = append(joined, "--cgroup", dir)
	}
	return append(append(joined, "--"), args...)
}

func join(dirs, args []string) error {
	for _, dir := range dirs {
		// "0" is the writing process; in v1 too, cgroup.procs moves all its threads.
		if err := writeCgroupFile(dir, "cgroup.procs", "0"); err != nil {
			return fmt.Errorf("enter cgroup %s: %w", dir, err)
		}
	}
	self, err := executable()
	if err != nil {
		return err
	}
	// The wish to die with the demo belongs to the thread that execs.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("tie to the demo's life: %w", err)
	}
	argv := append([]string{filepath.Base(self)}, args...)
	return fmt.Errorf("run %s: %w", strings.Join(argv, " "), syscall.Exec(self, argv, os.Environ()))
}

// executable is the path of this binary. Its base name is the children's comm,
// so /proc/self/exe, which would name them "exe", is only for a binary that was
// replaced while it runs.
func executable() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this binary: %w", err)
	}
	if _, err := os.Stat(self); err != nil {
		return "/proc/self/exe", nil
	}
	return self, nil
}
