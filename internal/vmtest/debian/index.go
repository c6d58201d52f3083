package debian

import (
	"bufio"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// pkg is one package of an index, at its candidate version.
type pkg struct {
	name, version string
	size          int64 // of the .deb, bytes
}

// parseIndex reads paragraphs as `apt-cache dumpavail` prints them:
//
//	Package: linux-image-6.12.117+deb12-cloud-arm64
//	Version: 6.12.117-1~deb12u1
//	Size: 29360128
//	Description: …
//	 continued
//
// and keeps those whose name starts with one of the prefixes.
func parseIndex(r io.Reader, prefixes ...string) ([]pkg, error) {
	var (
		list []pkg
		p    pkg
		line int
	)
	end := func() error {
		if p.name != "" && (p.version == "" || p.size == 0) {
			return fmt.Errorf("package index, line %d: %s without Version or Size", line, p.name)
		}
		if p.name != "" {
			list = append(list, p)
		}
		p = pkg{}
		return nil
	}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line++
		text := lines.Text()
		if text == "" {
			if err := end(); err != nil {
				return nil, err
			}
			continue
		}
		key, value, _ := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Package":
			if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(value, prefix) }) {
				p.name = value
			}
		case "Version":
			p.version = value
		case "Size":
			size, err := strconv.ParseInt(value, 10, 64)
			if err != nil || size <= 0 {
				return nil, fmt.Errorf("package index, line %d: bad Size %q", line, value)
			}
			p.size = size
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("package index, after line %d: %w", line, err)
	}
	if err := end(); err != nil {
		return nil, err
	}
	return list, nil
}

// candidate is one kernel that can be fetched: its release and the packages
// that together hold its image and modules.
type candidate struct {
	release string // uname -r, as "6.12.117+deb12-cloud-arm64"
	pkgs    []pkg
}

// candidates lists the kernels whose release without "-ARCH" matches the
// pattern (path.Match), the highest version first.
func candidates(index []pkg, pattern, arch string) ([]candidate, error) {
	byName := map[string]pkg{}
	for _, p := range index {
		if have, ok := byName[p.name]; !ok || compareVersions(p.version, have.version) > 0 {
			byName[p.name] = p
		}
	}
	var list []candidate
	for name, p := range byName {
		release, isImage := strings.CutPrefix(name, "linux-image-")
		short, isArch := strings.CutSuffix(release, "-"+arch)
		if !isImage || !isArch {
			continue
		}
		ok, err := path.Match(pattern, short)
		if err != nil {
			return nil, fmt.Errorf("kernel pattern %q: %w", pattern, err)
		}
		if !ok {
			continue
		}
		c := candidate{release: release}
		if binary, split := byName["linux-binary-"+release]; split { // Debian's kernels from 6.19
			c.pkgs = []pkg{binary}
			for _, prefix := range []string{"linux-modules-", "linux-base-"} { // the last has modules.builtin
				if p, ok := byName[prefix+release]; ok {
					c.pkgs = append(c.pkgs, p)
				}
			}
		} else if p.size > 1<<20 { // else a metapackage, as linux-image-6.12-cloud-arm64
			c.pkgs = []pkg{p}
		} else {
			continue
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b candidate) int {
		if c := compareVersions(b.pkgs[0].version, a.pkgs[0].version); c != 0 {
			return c
		}
		return compareVersions(b.release, a.release)
	})
	return list, nil
}
