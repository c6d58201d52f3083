package debian

import (
	"fmt"
	"path"
	"strings"
)

// targetFormat is what sources reads, for `apt-get indextargets --format`.
const targetFormat = "$(SITE) $(RELEASE) $(COMPONENT)"

// source is one suite of a Debian archive.
type source struct{ site, suite string }

// sources picks the Debian suites out of a machine's apt targets (lines of
// targetFormat) and adds more suites of the same archives: those whose name
// ends in "-security" from the security archive, the others from the main one.
func sources(targets string, more []string) ([]source, error) {
	var list []source
	seen := map[source]bool{}
	add := func(s source) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	sites := map[string]string{} // by last element: debian, debian-security
	for _, line := range strings.Split(targets, "\n") {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "main" {
			continue
		}
		site := strings.TrimRight(f[0], "/")
		if base := path.Base(site); base == "debian" || base == "debian-security" {
			if sites[base] == "" {
				sites[base] = site
			}
			add(source{site, f[1]})
		}
	}
	main := sites["debian"]
	if main == "" {
		return nil, fmt.Errorf("no Debian archive among this machine's apt sources (see: apt-get indextargets); " +
			"add one whose address ends in /debian, or run on a Debian machine")
	}
	for _, suite := range more {
		site := main
		if strings.HasSuffix(suite, "-security") {
			if site = sites["debian-security"]; site == "" {
				site = main + "-security"
			}
		}
		add(source{site, suite})
	}
	return list, nil
}
