//go:build linux

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/rungprof/rung/campaign"
)

// disk writes a campaign's state so that a crash at any instant, of the process
// or of the host, leaves each file whole or absent: temporary name, fsync,
// rename, fsync of the directory. It writes between steps, never within one.
type disk struct {
	// cut is called before and after every change of the disk; tests let it end
	// the run there.
	cut func(what string)
}

func (d disk) at(what string) {
	if d.cut != nil {
		d.cut(what)
	}
}

// newPrefix begins the names of what is not finished. A run directory's own
// unfinished steps begin with it too.
const newPrefix = ".tmp-"

// writeFile writes a whole file, new or in another's place.
func (d disk) writeFile(path string, data []byte) error {
	temp := filepath.Join(filepath.Dir(path), newPrefix+filepath.Base(path))
	d.at("before writing " + path)
	if err := writeSynced(temp, data); err != nil {
		os.Remove(temp)
		return diskError(fmt.Errorf("write %s: %w", path, err))
	}
	d.at("before renaming to " + path)
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return diskError(fmt.Errorf("write %s: %w", path, err))
	}
	d.at("after renaming to " + path)
	return syncDir(filepath.Dir(path))
}

func (d disk) writeState(path string, v any) error {
	data, err := campaign.EncodeState(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return d.writeFile(path, data)
}

func writeSynced(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// publish gives a finished directory its name, once all of it is on the disk.
func (d disk) publish(from, to string) error {
	d.at("before publishing " + to)
	if err := syncTree(from); err != nil {
		return diskError(fmt.Errorf("publish %s: %w", to, err))
	}
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("publish %s: it exists and is never overwritten: %w", to, fs.ErrExist)
	}
	if err := os.Rename(from, to); err != nil {
		return diskError(fmt.Errorf("publish %s: %w", to, err))
	}
	d.at("after publishing " + to)
	return errors.Join(syncDir(filepath.Dir(to)), syncDir(filepath.Dir(from)))
}

// removeAll takes away what is not finished, or no longer needed.
func (d disk) removeAll(path string) error {
	d.at("before removing " + path)
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	d.at("after removing " + path)
	return nil
}

// removeUnfinished takes away what an earlier session began in a directory and
// did not finish.
func (d disk) removeUnfinished(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) {
			if err := d.removeAll(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path)
	})
}

// syncDir also serves files.
func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	// Some file systems have nothing to sync of a directory and say so.
	if errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// fullDiskError stops a campaign: what is finished is whole, and goes on from
// there once there is room.
type fullDiskError struct {
	dir string
	err error
}

func (e *fullDiskError) Error() string {
	text := "the disk is full"
	if e.dir != "" {
		text += " under " + e.dir
	}
	return fmt.Sprintf("%s (%v): what is finished is whole; free some space, then run the same command again to go on", text, e.err)
}

func (e *fullDiskError) Unwrap() error { return e.err }

// diskError makes the error of a full disk one that stops the campaign.
func diskError(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &fullDiskError{err: err}
	}
	return err
}

// spaceNeeded is what a step must find free: its files are some 100 KB, with a
// profile up to a few megabytes.
const spaceNeeded = 256 << 10

// checkSpace tries to write as much as a step may need.
func checkSpace(dir string) error {
	probe := filepath.Join(dir, newPrefix+"space")
	defer os.Remove(probe)
	err := writeSynced(probe, make([]byte, spaceNeeded))
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &fullDiskError{dir: dir, err: err}
	}
	if err != nil {
		return fmt.Errorf("write below %s: %w", dir, err)
	}
	return nil
}
