package debian

import (
	"fmt"
	"path"
	"strings"
)

// source is one suite of a Debian archive.
type source struct{ site, suite string }

// sources picks the Debian suites out of what `apt-get update --print-uris`
// says, which asks nothing of the network and needs no lists to be there:
//
//	'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0
//	'http://mirror.example/debian/dists/bookworm/main/binary-amd64/Packages.xz' …
//
// and adds more suites of the same archives: those whose name
// ends in "-security" from the security archive, the others from the main one.
func sources(uris string, more []string) ([]source, error) {
	var list []source
	seen := map[source]bool{}
	add := func(s source) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	sites := map[string]string{} // by last element: debian, debian-security
	for _, line := range strings.Split(uris, "\n") {
		uri, _, _ := strings.Cut(strings.TrimPrefix(line, "'"), "'")
		uri, isRelease := strings.CutSuffix(uri, "/InRelease")
		site, suite, ok := strings.Cut(uri, "/dists/")
		if !isRelease || !ok {
			continue
		}
		if base := path.Base(site); base == "debian" || base == "debian-security" {
			if sites[base] == "" {
				sites[base] = site
			}
			add(source{site, suite})
		}
	}
	main := sites["debian"]
	if main == "" {
		return nil, fmt.Errorf("no Debian archive among this machine's apt sources (see: apt-get update --print-uris); " +
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
