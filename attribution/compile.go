package attribution

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// failFunc makes a RuleError of the file at hand.
type failFunc func(at position, format string, args ...any) error

// add reads one file on top of what r holds.
func (r *Rules) add(src Source) error {
	fail := func(at position, format string, args ...any) error {
		return &RuleError{File: src.File, Line: at.line, Column: at.column, Reason: fmt.Sprintf(format, args...)}
	}
	file, err := decodeFile(src.Data, fail)
	if err != nil {
		return err
	}
	if err := r.addLayers(file.Layers, fail); err != nil {
		return err
	}
	transparent, err := compileAll(file.Transparent, fail)
	if err != nil {
		return err
	}
	r.transparent = append(transparent, r.transparent...)
	if err := r.addIdle(file.Idle, fail); err != nil {
		return err
	}
	if err := r.addGroups(file.Groups, fail); err != nil {
		return err
	}
	return r.reorder(file.Order, fail)
}

func (r *Rules) addGroups(in []yamlGroup, fail failFunc) error {
	var own []groupRule
	for _, y := range in {
		if y.Name.value == "" {
			return fail(position{}, "a thread group has no name")
		}
		if len(y.Regexp) == 0 {
			return fail(y.Name.at, "thread group %q has no regexp", y.Name.value)
		}
		for _, t := range y.Regexp {
			rule, err := newGroupRule(y.Name.value, t.value)
			if err != nil {
				return fail(t.at, "thread group %q: %v", y.Name.value, err)
			}
			rule.at = t.at
			own = append(own, rule)
		}
	}
	r.groups.rules = append(own, r.groups.rules...)
	if i := r.groups.hidden(); i >= 0 {
		return fail(r.groups.rules[i-1].at, "thread group %q takes every thread, so that %q behind it can never match", r.groups.rules[i-1], r.groups.rules[i])
	}
	return nil
}

func (r *Rules) addLayers(layers []yamlLayer, fail failFunc) error {
	var own []layerClause
	declared := map[string]bool{}
	for _, l := range layers {
		name := l.Name.value
		switch {
		case name == "":
			return fail(position{}, "a layer has no name")
		case name == Other:
			return fail(l.Name.at, "layer %q is implicit: what no rule names", Other)
		case declared[name]:
			return fail(l.Name.at, "layer %q is declared twice", name)
		case len(l.Match) == 0:
			return fail(l.Name.at, "layer %q has no match clause", name)
		}
		declared[name] = true
		clauses, err := compileAll(l.Match, fail)
		if err != nil {
			return err
		}
		if isCatchAll(clauses) {
			return fail(l.Name.at, "the clauses of layer %q together match every frame, which would hide `%s`", name, Other)
		}
		i := r.declare(name, l.About.value)
		for _, c := range clauses {
			own = append(own, layerClause{c, i})
		}
	}
	r.clauses = append(own, r.clauses...)
	all := make([]clause, len(r.clauses))
	for i, c := range r.clauses {
		all[i] = c.clause
	}
	if isCatchAll(all) {
		return fail(position{}, "the layers together match every frame, which would hide `%s`", Other)
	}
	return nil
}

// declare returns the layer's display index, a new one behind the others if it
// is not known yet.
func (r *Rules) declare(name, about string) int {
	i := slices.Index(r.names, name)
	if i < 0 {
		i = len(r.names)
		r.names = append(r.names, name)
		r.about = append(r.about, "")
	}
	if about != "" {
		r.about[i] = about
	}
	return i
}

func compileAll(in []yamlClause, fail failFunc) ([]clause, error) {
	var out []clause
	for _, y := range in {
		c, err := compile(y, fail)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func compile(y yamlClause, fail failFunc) (clause, error) {
	c := clause{
		prefixes:     values(y.Prefix),
		globs:        values(y.Glob),
		mappings:     values(y.Mapping),
		syscalls:     values(y.Syscall),
		entries:      values(y.Entry),
		threadGroups: values(y.ThreadGroup),
		states:       values(y.State),
	}
	for _, t := range y.Regexp {
		// First alone: "a)|(b" would be balanced between the anchors.
		if _, err := regexp.Compile(t.value); err != nil {
			return c, fail(t.at, "bad regexp: %v", err)
		}
		re, err := regexp.Compile(`^(?s:` + t.value + `)$`)
		if err != nil {
			return c, fail(t.at, "bad regexp: %v", err)
		}
		c.regexps = append(c.regexps, re)
	}
	known := []string{strings.TrimSuffix(EntrySyscall, ":"), EntryFault, EntryInterrupt, EntryKernel}
	for _, t := range y.Entry {
		if !slices.Contains(known, t.value) {
			return c, fail(t.at, "entry %q: unknown; there is %s", t.value, strings.Join(known, ", "))
		}
	}
	if c.looksAtCode() && c.looksAtKernel() {
		return c, fail(y.at, "a clause on functions or mappings and on kernel entries can never match; make two")
	}
	if isCatchAll([]clause{c}) {
		return c, fail(y.at, "the clause matches every frame, which would hide `%s`", Other)
	}
	return c, nil
}

func values(ts texts) []string {
	var out []string
	for _, t := range ts {
		out = append(out, t.value)
	}
	return out
}

func (r *Rules) addIdle(in []yamlIdle, fail failFunc) error {
	var own []idleRule
	for _, y := range in {
		rule := idleRule{
			groups:  values(y.ThreadGroup),
			reasons: values(y.Reason),
			idle:    y.Idle == nil || *y.Idle,
			note:    y.Note.value,
		}
		if rule.idle && matchAny(rule.groups, "probe~*") && matchAny(rule.reasons, "probe~") {
			return fail(y.at, "the idle rule takes every wait of every thread; name a thread group or a reason")
		}
		own = append(own, rule)
	}
	r.idle = append(own, r.idle...)
	return nil
}

// reorder shows the layers that order names first, in its order, and the rest
// behind them as they were.
func (r *Rules) reorder(order texts, fail failFunc) error {
	if len(order) == 0 {
		return nil
	}
	var perm []int // new position -> old
	for _, t := range order {
		i := slices.Index(r.names, t.value)
		if i < 0 {
			return fail(t.at, "layer %q: unknown; there is %s", t.value, strings.Join(r.names, ", "))
		}
		if slices.Contains(perm, i) {
			return fail(t.at, "layer %q stands twice in the order", t.value)
		}
		perm = append(perm, i)
	}
	for i := range r.names {
		if !slices.Contains(perm, i) {
			perm = append(perm, i)
		}
	}
	names, about, place := make([]string, len(perm)), make([]string, len(perm)), make([]int, len(perm))
	for pos, old := range perm {
		names[pos], about[pos], place[old] = r.names[old], r.about[old], pos
	}
	r.names, r.about = names, about
	for i := range r.clauses {
		r.clauses[i].layer = place[r.clauses[i].layer]
	}
	return nil
}
