package campaign

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// PlanError is a plan's fault at a place. Line and Column count from 1; they are
// 0 when the fault is of the whole file.
type PlanError struct {
	File         string
	Line, Column int
	Reason       string
}

func (e *PlanError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Reason
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Reason)
}

// Known is what a plan may name that this package does not define.
type Known struct {
	Protocols []string
	Bodies    []string
	// Slots is the driver's cap of requests in flight for a load, its defaults
	// filled in. It is asked where steps are bounded by count.
	Slots func(Load) (int, error)
}

// Limits of a plan's file: its size in bytes, and how many values are read from
// it, aliases counted each time.
const (
	maxPlanBytes = 1 << 20
	maxValues    = 50_000
	maxDepth     = 16
)

// Parse reads a plan, fills defaults in and validates it. file names it in
// errors, which are *PlanError unless r itself failed.
func Parse(file string, r io.Reader, known Known) (*Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxPlanBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	d := &decoder{file: file, anchors: map[string]ast.Node{}, places: map[string]place{}}
	if len(data) > maxPlanBytes {
		return nil, d.fail(place{}, "longer than %d bytes", maxPlanBytes)
	}
	root, err := d.root(data)
	if err != nil {
		return nil, err
	}
	p := defaultPlan()
	if err := d.plan(root, &p, known); err != nil {
		return nil, err
	}
	if path, err := p.validate(known); err != nil {
		return nil, d.fail(d.placeOf(path), "%v", err)
	}
	return &p, nil
}

// decoder walks the tree of a YAML file. It does not decode into tagged structs,
// because an error shall name what is allowed at its place.
type decoder struct {
	file    string
	anchors map[string]ast.Node
	// places of the values by path, for what is validated later: "arms[1].quota".
	places map[string]place
	values int
}

type place struct{ line, column int }

func (d *decoder) fail(at place, format string, args ...any) error {
	return &PlanError{File: d.file, Line: at.line, Column: at.column, Reason: fmt.Sprintf(format, args...)}
}

// placeOf finds the nearest place to a path that the file has.
func (d *decoder) placeOf(path string) place {
	for path != "" {
		if at, ok := d.places[path]; ok {
			return at
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			break
		}
		path = path[:cut]
	}
	return place{}
}

// root is the file's one mapping.
func (d *decoder) root(data []byte) (ast.Node, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var y yaml.Error
		if errors.As(err, &y) {
			var at place
			if t := y.GetToken(); t != nil && t.Position != nil {
				at = place{t.Position.Line, t.Position.Column}
			}
			return nil, d.fail(at, "%s", y.GetMessage())
		}
		return nil, d.fail(place{}, "%s", strings.TrimSpace(err.Error()))
	}
	var bodies []ast.Node
	for _, doc := range file.Docs {
		if doc.Body != nil && doc.Body.Type() != ast.CommentType {
			bodies = append(bodies, doc.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return nil, d.fail(place{}, "empty; a plan names at least one arm under arms, and rates or a knee search under ladder")
	case 1:
		return bodies[0], nil
	}
	return nil, d.fail(placeOfNode(bodies[1]), "more than one YAML document")
}

// placeOfNode is where a node begins; the library has a mapping begin at its
// first colon.
func placeOfNode(n ast.Node) place {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			return placeOfNode(m.Values[0])
		}
	case *ast.MappingValueNode:
		return placeOfNode(m.Key)
	case *ast.AnchorNode:
		return placeOfNode(m.Value)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return place{}
	}
	p := n.GetToken().Position
	return place{p.Line, p.Column}
}

// resolve follows anchors and aliases.
func (d *decoder) resolve(n ast.Node) (ast.Node, error) {
	for range maxDepth {
		if d.values++; d.values > maxValues {
			return nil, d.fail(placeOfNode(n), "more than %d values, aliases counted each time", maxValues)
		}
		switch v := n.(type) {
		case *ast.AnchorNode:
			d.anchors[v.Name.String()] = v.Value
			n = v.Value
		case *ast.AliasNode:
			target, ok := d.anchors[v.Value.String()]
			if !ok {
				return nil, d.fail(placeOfNode(n), "alias *%s: no such anchor above", v.Value)
			}
			n = target
		case *ast.TagNode:
			return nil, d.fail(placeOfNode(n), "a YAML tag; a plan has none")
		default:
			return n, nil
		}
	}
	return nil, d.fail(placeOfNode(n), "aliases of aliases")
}

// key is one key of a mapping and what reads its value.
type key struct {
	name string
	read func(path string, n ast.Node) error
}

// mapping reads a mapping whose keys are known. Unknown keys are refused with
// what is allowed.
func (d *decoder) mapping(path string, n ast.Node, keys ...key) error {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	return d.pairs(path, n, "want keys: "+strings.Join(names, ", "), func(at place, name string, value ast.Node) error {
		i := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if i < 0 {
			where := "here"
			if path != "" {
				where = "in " + path
			}
			return d.fail(at, "unknown key %q%s; allowed %s: %s", name, strings.TrimSuffix(didYouMean(name, names), "?"), where, strings.Join(names, ", "))
		}
		return keys[i].read(join(path, name), value)
	})
}

// pairs hands out a mapping's keys and values in their order.
func (d *decoder) pairs(path string, n ast.Node, want string, each func(at place, name string, value ast.Node) error) error {
	if path != "" {
		d.places[path] = placeOfNode(n)
	}
	n, err := d.resolve(n)
	if err != nil {
		return err
	}
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		return d.fail(placeOfNode(n), "%s: %s", orRoot(path), want)
	}
	seen := map[string]bool{}
	for _, v := range values {
		at := placeOfNode(v.Key)
		if _, merge := v.Key.(*ast.MergeKeyNode); merge {
			return d.fail(at, "a merge (<<); write the keys out, or use an alias for a whole value")
		}
		name, ok := scalarText(v.Key)
		if !ok {
			return d.fail(at, "a key must be text")
		}
		if seen[name] {
			return d.fail(at, "key %q is there twice", name)
		}
		seen[name] = true
		d.places[join(path, name)] = at
		if err := each(at, name, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// list hands out the items of a sequence.
func (d *decoder) list(path string, n ast.Node, want string, each func(path string, n ast.Node) error) error {
	n, err := d.resolve(n)
	if err != nil {
		return err
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		return d.fail(placeOfNode(n), "%s: want a list: %s", path, want)
	}
	if len(seq.Values) == 0 {
		return d.fail(placeOfNode(n), "%s: an empty list; want %s", path, want)
	}
	for i, v := range seq.Values {
		item := fmt.Sprintf("%s[%d]", path, i)
		d.places[item] = placeOfNode(v)
		if err := each(item, v); err != nil {
			return err
		}
	}
	return nil
}

// scalar reads one plain value by a function of its text.
func (d *decoder) scalar(set func(text string) error) func(string, ast.Node) error {
	return func(path string, n ast.Node) error {
		n, err := d.resolve(n)
		if err != nil {
			return err
		}
		text, ok := scalarText(n)
		if !ok {
			return d.fail(placeOfNode(n), "%s: want one plain value", path)
		}
		if err := set(text); err != nil {
			return d.fail(placeOfNode(n), "%s: %v", path, err)
		}
		return nil
	}
}

func (d *decoder) isScalar(n ast.Node) bool {
	n, err := d.resolve(n)
	if err != nil {
		return false
	}
	_, ok := scalarText(n)
	return ok
}

// scalarText is a plain value as it was written, without quotes.
func scalarText(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.MappingNode:
		if len(v.Values) == 1 {
			return joined(v.Values[0])
		}
	case *ast.MappingValueNode:
		return joined(v)
	}
	return "", false
}

// joined undoes what the library makes of a plain a:b in a list in braces, as in
// {run: [-p, 127.0.0.1:80:80]}: a mapping, though no space follows the colon.
func joined(m *ast.MappingValueNode) (string, bool) {
	left, ok := scalarText(m.Key)
	right, okRight := scalarText(m.Value)
	if !ok || !okRight {
		return "", false
	}
	a, b := placeOfNode(m.Key), placeOfNode(m.Value)
	if a.line != b.line || b.column != a.column+utf8.RuneCountInString(left)+1 {
		return "", false
	}
	return left + ":" + right, true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orRoot(path string) string {
	if path == "" {
		return "the plan"
	}
	return path
}
