package attribution

import (
	"regexp"
	"strings"
)

// subject is what a clause looks at: a frame and the sample it stands in.
type subject struct {
	function, mapping  string
	threadGroup, state string
}

func (s subject) isEntry() bool { return s.mapping == MappingEntry }

// clause holds for a subject when every condition that is given holds; a
// condition holds when one of its values matches. All values match whole names:
// globs and regexps are anchored at both ends, only `prefix` is open.
type clause struct {
	prefixes []string
	globs    []string
	regexps  []*regexp.Regexp
	mappings []string // globs

	syscalls []string // globs
	entries  []string // "syscall", "page fault", "interrupt", "kernel"

	threadGroups []string // globs
	states       []string
}

// looksAtCode: the clause has a condition on a function or mapping, so that it
// never holds for a kernel entry.
func (c *clause) looksAtCode() bool {
	return c.prefixes != nil || c.globs != nil || c.regexps != nil || c.mappings != nil
}

// looksAtKernel: the clause has a condition on the kernel entry, so that it
// never holds for code.
func (c *clause) looksAtKernel() bool { return c.syscalls != nil || c.entries != nil }

func (c *clause) holds(s subject) bool {
	if s.isEntry() {
		if c.looksAtCode() || !c.holdsEntry(s.function) {
			return false
		}
	} else if c.looksAtKernel() || !c.holdsCode(s) {
		return false
	}
	return matchAny(c.threadGroups, s.threadGroup) && containsOrNil(c.states, s.state)
}

func (c *clause) holdsCode(s subject) bool {
	if c.prefixes != nil && !hasAnyPrefix(s.function, c.prefixes) {
		return false
	}
	if c.globs != nil && !matchAny(c.globs, s.function) {
		return false
	}
	if c.regexps != nil && !matchAnyRegexp(c.regexps, s.function) {
		return false
	}
	return matchAny(c.mappings, s.mapping)
}

func (c *clause) holdsEntry(name string) bool {
	syscall, isSyscall := strings.CutPrefix(name, EntrySyscall)
	if c.syscalls != nil && (!isSyscall || !matchAny(c.syscalls, syscall)) {
		return false
	}
	if isSyscall {
		name = strings.TrimSuffix(EntrySyscall, ":")
	}
	return containsOrNil(c.entries, name)
}

func hasAnyPrefix(s string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}

func matchAnyRegexp(res []*regexp.Regexp, s string) bool {
	for _, re := range res {
		if re.MatchString(s) {
			return true
		}
	}
	return false
}

func containsOrNil(values []string, s string) bool {
	if values == nil {
		return true
	}
	for _, v := range values {
		if v == s {
			return true
		}
	}
	return false
}

// matchGlob matches the whole of s: `*` stands for any run of characters,
// slashes and dots included, `?` for one byte, and everything else, brackets
// too, for itself, since Go's names are full of brackets. It takes O(len(glob) ×
// len(s)) at worst.
func matchGlob(glob, s string) bool {
	g, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, mark = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g++
			i++
		case star >= 0:
			mark++
			g, i = star+1, mark
		default:
			return false
		}
	}
	for g < len(glob) && glob[g] == '*' {
		g++
	}
	return g == len(glob)
}
