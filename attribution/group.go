package attribution

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Grouper decides which thread group a thread belongs to: that of the first rule
// that matches its name, else the name with its digits folded. nil folds every
// name. It is immutable, and safe for concurrent use.
type Grouper struct {
	rules  []groupRule
	single bool
}

// groupRule takes the threads whose whole name the regexp matches.
type groupRule struct {
	name, pattern string
	re            *regexp.Regexp
	at            position // in a rule file
}

func (r groupRule) String() string { return r.name + "=" + r.pattern }

// SingleThreads makes each thread a group of its own: "worker-3 (4711)".
func SingleThreads() *Grouper { return &Grouper{single: true} }

// NewGrouper reads rules in the form NAME=REGEXP, in the order in which they are
// tried. A regexp (RE2) is of the whole name, of which the kernel keeps 15 bytes.
// Several rules may name one group. A rule behind one that takes every thread is
// an error.
func NewGrouper(texts ...string) (*Grouper, error) {
	g := &Grouper{}
	for _, text := range texts {
		name, pattern, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("thread group %q: write NAME=REGEXP, as in gc=G1.*", text)
		}
		rule, err := newGroupRule(name, pattern)
		if err != nil {
			return nil, fmt.Errorf("thread group %q: %w", text, err)
		}
		g.rules = append(g.rules, rule)
	}
	if i := g.hidden(); i >= 0 {
		return nil, fmt.Errorf("thread group %q can never match: %q before it takes every thread; put it last", g.rules[i], g.rules[i-1])
	}
	return g, nil
}

// maxGroupName bounds a group's name in bytes: it heads a column.
const maxGroupName = 64

func newGroupRule(name, pattern string) (groupRule, error) {
	r := groupRule{name: name, pattern: pattern}
	switch {
	case strings.TrimSpace(name) == "" || name != strings.TrimSpace(name):
		return r, fmt.Errorf("the name is empty, or begins or ends with a space")
	case len(name) > maxGroupName:
		return r, fmt.Errorf("the name is longer than %d bytes", maxGroupName)
	case strings.ContainsFunc(name, func(c rune) bool { return c == unicode.ReplacementChar || !unicode.IsPrint(c) }):
		return r, fmt.Errorf("the name has characters that cannot be printed")
	case pattern == "":
		return r, fmt.Errorf("the regexp is empty, which no thread's name matches")
	}
	// First alone: "a)|(b" would be balanced between the anchors.
	if _, err := regexp.Compile(pattern); err != nil {
		return r, fmt.Errorf("bad regexp: %w", err)
	}
	var err error
	if r.re, err = regexp.Compile(`^(?s:` + pattern + `)$`); err != nil {
		return r, fmt.Errorf("bad regexp: %w", err)
	}
	return r, nil
}

// takesAll tells whether a rule matches every name, by names that have nothing
// in common.
func (r groupRule) takesAll() bool {
	for _, name := range []string{"a", "7", "~probe ~ 0", "Ж", "#.................."} {
		if !r.re.MatchString(name) {
			return false
		}
	}
	return true
}

// hidden is the first rule that stands behind one that takes every thread, -1 for none.
func (g *Grouper) hidden() int {
	for i := 1; i < len(g.rules); i++ {
		if g.rules[i-1].takesAll() {
			return i
		}
	}
	return -1
}

// Group is the thread group of a thread of the name given; tid tells single
// threads apart. A thread without a name has none.
func (g *Grouper) Group(comm string, tid uint32) string {
	switch {
	case g == nil:
		return ThreadGroup(comm)
	case g.single:
		return fmt.Sprintf("%s (%d)", comm, tid)
	case comm == "":
		return ""
	}
	for i := range g.rules {
		if g.rules[i].re.MatchString(comm) {
			return g.rules[i].name
		}
	}
	return ThreadGroup(comm)
}

// Single tells whether each thread is a group of its own.
func (g *Grouper) Single() bool { return g != nil && g.single }

// Folds tells whether there are no rules, so that every name is folded.
func (g *Grouper) Folds() bool { return g == nil || !g.single && len(g.rules) == 0 }

// Rules gives the rules in the form that [NewGrouper] reads.
func (g *Grouper) Rules() []string {
	if g == nil {
		return nil
	}
	var out []string
	for _, r := range g.rules {
		out = append(out, r.String())
	}
	return out
}

// Warnings says which rules took none, or all, of the threads whose names are
// given.
func (g *Grouper) Warnings(comms []string) []string {
	if g == nil || len(comms) == 0 {
		return nil
	}
	taken := make([]int, len(g.rules))
	for _, comm := range comms {
		if i := slices.IndexFunc(g.rules, func(r groupRule) bool { return r.re.MatchString(comm) }); i >= 0 {
			taken[i]++
		}
	}
	var out []string
	for i, n := range taken {
		switch {
		case n == 0:
			out = append(out, fmt.Sprintf("thread group %q took none of %d threads (a regexp is of the whole name, which the kernel cuts to 15 bytes; the first match wins)", g.rules[i], len(comms)))
		case n == len(comms) && n > 1:
			out = append(out, fmt.Sprintf("thread group %q took all of %d threads: nothing is told apart", g.rules[i], n))
		}
	}
	return out
}
