// Package rundir keeps one run, the ladder of one arm, in a directory:
//
//	DIR/run.json                      Run: plan, provenance, effective config
//	DIR/steps/NN-OFFERED/record.json  what the agent measured (rungv1.StepRecord)
//	DIR/steps/NN-OFFERED/profile.pb.gz
//	DIR/steps/NN-OFFERED/client.json  ClientStep: what the client offered and got
//	DIR/steps/NN-OFFERED/client.hlog  HDR log of response and service time, per second
//	DIR/steps/NN-OFFERED/*.hgrm, *.csv  percentile distributions and the series, to be read by other tools
//	DIR/steps/NN-OFFERED/others/NAME  record.json and profile.pb.gz of a further target
//
// A run directory is written once: nothing in it is ever replaced. A step
// appears whole or not at all, because it is built under a temporary name and
// renamed; that holds when the writing process dies, not when the host loses
// power (no fsync: it would disturb the next step's measurement).
//
// The package answers what was recorded. What it means is package report's.
package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Names inside a run directory.
const (
	RunFile     = "run.json"
	StepsDir    = "steps"
	RecordFile  = "record.json"
	ProfileFile = "profile.pb.gz"
	ClientFile  = "client.json"
	HlogFile    = "client.hlog"
	OthersDir   = "others"

	tempPrefix = ".tmp-"
)

// Dir is an open run directory. Its methods may be called concurrently; two
// writers of the same step exclude each other.
type Dir struct {
	path string
	run  Run
}

// Path is the directory as it was named to Create or Open.
func (d *Dir) Path() string { return d.path }

// Run is what run.json holds.
func (d *Dir) Run() Run { return d.run }

// StepPath is the directory of a step, whether or not it exists.
func (d *Dir) StepPath(name string) string { return filepath.Join(d.path, StepsDir, name) }

// Create makes dir, with its parents, as the directory of run. A dir that
// exists and is not empty is refused. run.SchemaVersion 0 is filled in.
func Create(dir string, run Run) (*Dir, error) {
	if run.SchemaVersion == 0 {
		run.SchemaVersion = SchemaVersion
	}
	if err := run.Validate(); err != nil {
		return nil, fmt.Errorf("create run directory %s: %w", dir, err)
	}
	if err := Claim(dir); err != nil {
		return nil, err
	}
	// Mkdir excludes a second process that found dir empty at the same moment.
	if err := os.Mkdir(filepath.Join(dir, StepsDir), 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, taken(dir)
		}
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	data, err := encodeJSON(run)
	if err != nil {
		return nil, fmt.Errorf("create run directory %s: %w", dir, err)
	}
	if err := writeOnce(filepath.Join(dir, RunFile), data); err != nil {
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	return &Dir{path: dir, run: run}, nil
}

// Claim makes dir with its parents and refuses one that exists and is not
// empty. It serves whoever writes several runs below one directory.
func Claim(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	if len(entries) > 0 {
		return taken(dir)
	}
	return nil
}

func taken(dir string) error {
	return fmt.Errorf("create run directory: %s exists and is not empty; name a new directory, or move this one away (a run is never overwritten): %w",
		dir, fs.ErrExist)
}

// Open opens a directory that Create made.
func Open(dir string) (*Dir, error) {
	path := filepath.Join(dir, RunFile)
	run, err := readFile(path, MaxRunBytes, ReadRun)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is not a run directory: it has no %s: %w", dir, RunFile, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	return &Dir{path: dir, run: run}, nil
}

// ErrNoRun is OpenAll's error for a directory that holds no run. It is an
// [fs.ErrNotExist].
var ErrNoRun = fmt.Errorf("no run: %w", fs.ErrNotExist)

// OpenAll opens dir when it is a run, else every run directly below it, in the
// order the runs were started. No run at all is an error.
func OpenAll(dir string) ([]*Dir, error) {
	d, err := Open(dir)
	if err == nil {
		return []*Dir{d}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open runs: %w", err)
	}
	var dirs []*Dir
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if fi, err := os.Stat(sub); err != nil || !fi.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		d, err := Open(sub)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, d)
	}
	if len(dirs) == 0 {
		return nil, fmt.Errorf("no run in %s: neither it nor a directory directly below it has a %s; name a directory that rung load or rung demo wrote: %w",
			dir, RunFile, ErrNoRun)
	}
	sort.SliceStable(dirs, func(i, j int) bool { return dirs[i].run.Started.Before(dirs[j].run.Started) })
	return dirs, nil
}

// writeOnce writes a file that must not exist, under a temporary name first so
// that a reader never sees a part of it.
func writeOnce(path string, data []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("%s exists and is never overwritten: %w", path, fs.ErrExist)
	}
	temp := filepath.Join(filepath.Dir(path), tempPrefix+filepath.Base(path))
	if err := writeNew(temp, data); err != nil {
		return err
	}
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

// writeNew writes a file that must not exist.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		os.Remove(path)
	}
	return err
}
