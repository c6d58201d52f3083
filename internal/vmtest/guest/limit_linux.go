package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/capset"
)

// A program that starts itself again, as `rung demo` starts `rung agent`, finds
// its path in /proc/self/exe. Here that path leads to this guest program,
// mounted over the executable, which gives up capabilities and then becomes
// the real one. The first process is started from below the mount, so what it
// reads in /proc/self/exe is the path all the same.

// limitEnv tells the guest program, standing in for an executable, what to do.
const limitEnv = "RUNG_VMTEST_LIMIT"

// limitRule is its value, in JSON.
type limitRule struct {
	Real    string                // the executable
	Limited map[string]capset.Set // by first argument
	Started string                // folder: a file per first argument that was limited
}

// limited is an executable with this program mounted over it.
type limited struct {
	exe  string // starts the real one, as /proc/self/exe will call it
	env  string
	file *os.File
	path string
	rule limitRule
}

func limit(path string, sets map[string]capset.Set) (*limited, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("/run", "real-")
	if err != nil {
		return nil, err
	}
	rule := limitRule{Real: filepath.Join(dir, filepath.Base(path)), Limited: sets, Started: dir + "/started"}
	l := &limited{file: file, path: path, rule: rule}
	// The descriptor stays open in init alone, so the path names init's.
	l.exe = fmt.Sprintf("/proc/1/fd/%d", file.Fd())
	text, err := json.Marshal(rule)
	if err != nil {
		return nil, err
	}
	l.env = limitEnv + "=" + string(text)
	if err := os.Mkdir(rule.Started, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(rule.Real, nil, 0o755); err != nil {
		return nil, err
	}
	if err := unix.Mount(path, rule.Real, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("keep %s: %w", path, err)
	}
	if err := unix.Mount("/proc/self/exe", path, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("mount over %s: %w", path, err)
	}
	return l, nil
}

// undo takes both mounts off, once nothing runs from them.
func (l *limited) undo() {
	l.file.Close()
	unix.Unmount(l.path, unix.MNT_DETACH)
	unix.Unmount(l.rule.Real, unix.MNT_DETACH)
}

// unused is an error if one of the commands to limit was never started this
// way: it ran with all capabilities, or not at all, and proves nothing.
func (l *limited) unused() error {
	for arg := range l.rule.Limited {
		if _, err := os.Stat(filepath.Join(l.rule.Started, arg)); err != nil {
			return fmt.Errorf("%s never started %q as a child of its own executable, so its capabilities were not limited", l.path, arg)
		}
	}
	return nil
}

// runLimited becomes the real executable, with fewer capabilities if its
// first argument is one of the rule's.
func runLimited(text string) error {
	var rule limitRule
	if err := json.Unmarshal([]byte(text), &rule); err != nil {
		return fmt.Errorf("%s: %w", limitEnv, err)
	}
	argv := append([]string{rule.Real}, os.Args[1:]...)
	if len(os.Args) > 1 {
		if set, ok := rule.Limited[os.Args[1]]; ok {
			if err := os.WriteFile(filepath.Join(rule.Started, os.Args[1]), nil, 0o644); err != nil {
				return err
			}
			return execWith(set.String(), argv)
		}
	}
	return fmt.Errorf("start %s: %w", rule.Real, unix.Exec(rule.Real, argv, os.Environ()))
}
