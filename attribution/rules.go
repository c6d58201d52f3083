package attribution

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

// Rules assign frames to layers and threads' waits to idle. They are immutable
// once made, and then safe for concurrent use.
type Rules struct {
	names       []string // layers in display order, Other last
	about       []string // beside names
	clauses     []layerClause
	transparent []clause
	idle        []idleRule
	groups      Grouper
}

// layerClause sends the frames that clause holds for to a layer. The first
// clause that holds wins.
type layerClause struct {
	clause
	layer int
}

// idleRule takes blocked time of a thread group for a reason as waiting for work.
type idleRule struct {
	groups, reasons []string // globs; nil: any
	idle            bool
	note            string
}

// RuleError is a rule file's fault at a place. Line and Column count from 1; they
// are 0 when the fault is of the whole file.
type RuleError struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *RuleError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

//go:embed presets/*.yaml
var presets embed.FS

// Presets lists the names of the embedded rule files.
func Presets() []string {
	entries, err := presets.ReadDir("presets")
	if err != nil {
		panic(err) // the directory is compiled in
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// PresetSource returns an embedded rule file for a user to read or copy.
func PresetSource(name string) ([]byte, error) {
	data, err := presets.ReadFile("presets/" + name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("preset %q: unknown; there is %s", name, strings.Join(Presets(), ", "))
	}
	return data, nil
}

// Preset returns the rules of an embedded rule file.
func Preset(name string) (*Rules, error) {
	data, err := PresetSource(name)
	if err != nil {
		return nil, err
	}
	return ParseRules(Source{File: "preset " + name, Data: data})
}

// Source is a rule file's content. File names it in errors.
type Source struct {
	File string
	Data []byte
}

// ParseRules reads rule files that build upon each other: clauses of a later
// file are tried before those of an earlier one, a layer that an earlier file
// declared gains clauses, a new layer is shown after the earlier ones unless
// `order` says otherwise. Errors are *RuleError.
func ParseRules(sources ...Source) (*Rules, error) {
	r := &Rules{}
	for _, src := range sources {
		if err := r.add(src); err != nil {
			return nil, err
		}
	}
	if len(r.names) == 0 && len(r.groups.rules) == 0 {
		return nil, &RuleError{File: fileNames(sources), Reason: "no layer is declared; declare at least one under `layers`"}
	}
	r.names = append(r.names, Other)
	r.about = append(r.about, "frames that no rule names")
	return r, nil
}

// Layers returns the layers in display order, Other last.
func (r *Rules) Layers() []string { return slices.Clone(r.names) }

// Grouper gives the thread groups that the rule files name; it may hold no rule.
func (r *Rules) Grouper() *Grouper {
	if r == nil {
		return nil
	}
	return &r.groups
}

// Check returns an error that lists the known layers unless name is one of them.
func (r *Rules) Check(name string) error {
	if slices.Contains(r.names, name) {
		return nil
	}
	return fmt.Errorf("layer %q: unknown; there is %s", name, strings.Join(r.names, ", "))
}

// layerOf returns the display index of the frame's layer; Other's if no clause holds.
func (r *Rules) layerOf(f subject) int {
	for i := range r.clauses {
		if r.clauses[i].holds(f) {
			return r.clauses[i].layer
		}
	}
	return len(r.names) - 1
}

func (r *Rules) isTransparent(f subject) bool {
	for i := range r.transparent {
		if r.transparent[i].holds(f) {
			return true
		}
	}
	return false
}

// isIdle reports whether the wait is one for work, and the note of the rule that
// decided. A rule on thread groups means the thread's own and, so that other
// groups change nothing about what is idle, its name with digits folded.
func (r *Rules) isIdle(group, comm, reason string) (bool, string) {
	for _, rule := range r.idle {
		if (matchAny(rule.groups, group) || comm != "" && matchAny(rule.groups, ThreadGroup(comm))) && matchAny(rule.reasons, reason) {
			return rule.idle, rule.note
		}
	}
	return false, ""
}

// matchAny reports whether any glob matches; no globs match everything.
func matchAny(globs []string, s string) bool {
	if globs == nil {
		return true
	}
	for _, g := range globs {
		if matchGlob(g, s) {
			return true
		}
	}
	return false
}

func fileNames(sources []Source) string {
	names := make([]string, len(sources))
	for i, s := range sources {
		names[i] = s.File
	}
	if len(names) == 0 {
		return "rules"
	}
	return strings.Join(names, ",")
}
