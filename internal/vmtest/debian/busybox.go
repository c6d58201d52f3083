package debian

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Busybox returns the path of a static busybox for the guest: its shell and
// small tools, for tests whose workloads are shell commands.
func (s Store) Busybox(ctx context.Context) (string, error) {
	dir := filepath.Join(s.Dir, "packages", s.Arch)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(s.Dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	const name = "busybox-static"
	final := filepath.Join(dir, name)
	if file, err := findBusybox(final); err == nil {
		return file, nil
	}
	a := s.apt()
	index, err := a.index(ctx)
	if err != nil {
		return "", err
	}
	var best pkg
	for _, p := range index {
		if p.name == name && compareVersions(p.version, best.version) > 0 {
			best = p
		}
	}
	if best.name == "" {
		return "", fmt.Errorf("no package %s for %s in the archives", name, s.Arch)
	}
	s.Logf("fetching %s", name)
	if err := a.unpackInto(ctx, final, []pkg{best}); err != nil {
		return "", err
	}
	return findBusybox(final)
}

// findBusybox finds the program in the unpacked package; bin has moved below usr.
func findBusybox(dir string) (string, error) {
	found := ""
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasSuffix(p, "/bin/busybox") {
			found = p
		}
		return err
	})
	if err == nil && found == "" {
		err = fmt.Errorf("no bin/busybox below %s", dir)
	}
	return found, err
}
