// Package debian gets stock Debian kernels for any architecture out of the
// archives that this machine's apt already uses, and keeps them in a folder.
package debian

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// Store is a folder of kernels and of the private apt states that fetched
// them. Several processes may use one at the same time.
type Store struct {
	Dir    string                           // absolute
	Arch   string                           // Debian's name: arm64, amd64
	Suites []string                         // beside those of the machine, as "trixie-backports"
	Logf   func(format string, args ...any) // told before anything slow
}

// Kernel is one unpacked kernel.
type Kernel struct {
	Release string // uname -r
	Image   string // path of vmlinuz
	modules string // path of lib/modules/RELEASE
}

// Kernel returns the newest kernel whose package name, without "linux-image-"
// and "-ARCH", matches the pattern, as '6.12.*-cloud'. What a pattern meant the
// first time is kept; update asks the archives again.
func (s Store) Kernel(ctx context.Context, pattern string, update bool) (*Kernel, error) {
	if err := os.MkdirAll(s.kernels(), 0o755); err != nil {
		return nil, err
	}
	unlock, err := lock(filepath.Join(s.Dir, "lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	answer := filepath.Join(s.kernels(), s.key(pattern)+".release")
	if release, err := os.ReadFile(answer); err == nil && !update {
		if k, err := s.open(strings.TrimSpace(string(release))); err == nil {
			return k, nil
		}
	}
	k, err := s.resolve(ctx, pattern, update)
	if err != nil {
		return nil, err
	}
	return k, os.WriteFile(answer, []byte(k.Release+"\n"), 0o644)
}

func (s Store) kernels() string { return filepath.Join(s.Dir, "kernels", s.Arch) }

var unsafeChars = regexp.MustCompile(`[^A-Za-z0-9.+~-]`)

// key names what was asked for: pattern and suites.
func (s Store) key(pattern string) string {
	sum := sha256.Sum256([]byte(pattern + "\n" + strings.Join(s.Suites, " ")))
	return fmt.Sprintf("%s-%x", unsafeChars.ReplaceAllString(pattern, "_"), sum[:4])
}

// apt is the state that holds the lists of these suites.
func (s Store) apt() apt {
	sum := sha256.Sum256([]byte(strings.Join(s.Suites, " ")))
	return apt{dir: filepath.Join(s.Dir, fmt.Sprintf("apt-%s-%x", s.Arch, sum[:4])), arch: s.Arch}
}

// resolve asks the archives, fetching lists when there are none, and once more
// when they name nothing that can still be had.
func (s Store) resolve(ctx context.Context, pattern string, update bool) (*Kernel, error) {
	a := s.apt()
	fresh := update || !a.ready()
	for {
		if fresh {
			s.Logf("fetching package lists for %s", s.Arch)
			if err := a.update(ctx, s.Suites); err != nil {
				return nil, err
			}
		}
		k, err := s.fetch(ctx, a, pattern)
		if err == nil || fresh || ctx.Err() != nil {
			return k, err
		}
		fresh = true
	}
}

// maxTries bounds how many vanished packages are passed over.
const maxTries = 8

// fetch takes the best kernel that is here or can be downloaded.
func (s Store) fetch(ctx context.Context, a apt, pattern string) (*Kernel, error) {
	index, err := a.index(ctx)
	if err != nil {
		return nil, err
	}
	list, err := candidates(index, pattern, s.Arch)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no package linux-image-%s-%s in the archives of %s; --suite adds one, as trixie-backports",
			pattern, s.Arch, filepath.Join(a.dir, "sources.list"))
	}
	var failed error
	for _, c := range list[:min(len(list), maxTries)] {
		if k, err := s.open(c.release); err == nil {
			return k, nil
		}
		if err := s.unpack(ctx, a, c); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		return s.open(c.release)
	}
	return nil, failed
}

func (s Store) unpack(ctx context.Context, a apt, c candidate) error {
	var bytes int64
	for _, p := range c.pkgs {
		bytes += p.size
	}
	s.Logf("fetching kernel %s, %d MB", c.release, bytes>>20)
	return a.unpackInto(ctx, filepath.Join(s.kernels(), c.release), c.pkgs)
}

// open finds image and modules in an unpacked kernel; both have moved between
// Debian's releases.
func (s Store) open(release string) (*Kernel, error) {
	dir := filepath.Join(s.kernels(), release)
	k := &Kernel{Release: release}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Type().IsRegular() && strings.HasPrefix(d.Name(), "vmlinuz"):
			k.Image = p
		case d.IsDir() && d.Name() == release && filepath.Base(filepath.Dir(p)) == "modules":
			k.modules = p
		case d.IsDir() && d.Name() == "kernel" && filepath.Dir(p) == k.modules:
			return filepath.SkipDir // thousands of files, none of them asked for here
		}
		return nil
	})
	if err == nil && (k.Image == "" || k.modules == "") {
		err = fmt.Errorf("no vmlinuz or no modules below %s", dir)
	}
	if err != nil {
		return nil, err
	}
	return k, nil
}

// lock takes an exclusive lock on a file for as long as this process holds it.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
