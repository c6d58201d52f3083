package attribution

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// maxRuleFile bounds a rule file in bytes; presets have a few thousand.
const maxRuleFile = 1 << 20

// The rule file's form. Presets are its documentation.
type (
	yamlFile struct {
		Order       texts        `yaml:"order"`
		Layers      []yamlLayer  `yaml:"layers"`
		Transparent []yamlClause `yaml:"transparent"`
		Idle        []yamlIdle   `yaml:"idle"`
		Groups      []yamlGroup  `yaml:"thread_groups"`
	}
	yamlGroup struct {
		Name   text  `yaml:"name"`
		Regexp texts `yaml:"regexp"`
	}
	yamlLayer struct {
		Name  text         `yaml:"name"`
		About text         `yaml:"about"`
		Match []yamlClause `yaml:"match"`
	}
	yamlClause struct {
		at position
		clauseKeys
	}
	clauseKeys struct {
		Prefix      texts `yaml:"prefix"`
		Glob        texts `yaml:"glob"`
		Regexp      texts `yaml:"regexp"`
		Mapping     texts `yaml:"mapping"`
		Syscall     texts `yaml:"syscall"`
		Entry       texts `yaml:"entry"`
		ThreadGroup texts `yaml:"thread_group"`
		State       texts `yaml:"state"`
	}
	yamlIdle struct {
		at position
		idleKeys
	}
	idleKeys struct {
		ThreadGroup texts `yaml:"thread_group"`
		Reason      texts `yaml:"reason"`
		Idle        *bool `yaml:"idle"`
		Note        text  `yaml:"note"`
	}
)

// position in a rule file, counted from 1.
type position struct{ line, column int }

// text is a string with its place; texts one string or a list of them.
type (
	text struct {
		at    position
		value string
	}
	texts []text
)

// positionOf is where a node begins; the library has a mapping begin at its
// first colon.
func positionOf(n ast.Node) position {
	switch m := n.(type) {
	case *ast.MappingNode:
		if len(m.Values) > 0 {
			n = m.Values[0].Key
		}
	case *ast.MappingValueNode:
		n = m.Key
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return position{}
	}
	p := n.GetToken().Position
	return position{p.Line, p.Column}
}

// placed is a fault found while decoding, before the file's name is known.
type placed struct {
	at     position
	reason string
}

func (e *placed) Error() string { return e.reason }

func (t *text) UnmarshalYAML(n ast.Node) error {
	switch n := n.(type) {
	case *ast.StringNode:
		t.value = n.Value
	case *ast.LiteralNode:
		t.value = n.Value.Value
	default:
		return &placed{positionOf(n), "want a string (quote it if it is one)"}
	}
	t.at = positionOf(n)
	if t.value == "" {
		return &placed{t.at, "an empty string matches nothing or everything; leave the key out"}
	}
	return nil
}

func (t *texts) UnmarshalYAML(n ast.Node) error {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		var one text
		if err := one.UnmarshalYAML(n); err != nil {
			return err
		}
		*t = texts{one}
		return nil
	}
	if len(seq.Values) == 0 {
		return &placed{positionOf(n), "empty list; leave the key out"}
	}
	for _, v := range seq.Values {
		var one text
		if err := one.UnmarshalYAML(v); err != nil {
			return err
		}
		*t = append(*t, one)
	}
	return nil
}

func (c *yamlClause) UnmarshalYAML(n ast.Node) error {
	c.at = positionOf(n)
	return decodeMapping(n, &c.clauseKeys)
}

func (i *yamlIdle) UnmarshalYAML(n ast.Node) error {
	i.at = positionOf(n)
	return decodeMapping(n, &i.idleKeys)
}

func decodeMapping(n ast.Node, v any) error {
	switch n := n.(type) {
	case *ast.MappingNode:
		return yaml.NodeToValue(n, v, yaml.Strict())
	case *ast.MappingValueNode:
		return yaml.NodeToValue(n, v, yaml.Strict())
	}
	return &placed{positionOf(n), "want keys and values"}
}

// decodeFile reads the form; what it means is not looked at yet.
func decodeFile(data []byte, fail failFunc) (*yamlFile, error) {
	if len(data) > maxRuleFile {
		return nil, fail(position{}, "longer than %d bytes", maxRuleFile)
	}
	file := new(yamlFile)
	dec := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := dec.Decode(file); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fail(position{}, "empty")
		}
		at, reason := explain(err)
		return nil, fail(at, "%s", reason)
	}
	if err := dec.Decode(new(yamlFile)); !errors.Is(err, io.EOF) {
		return nil, fail(position{}, "more than one YAML document")
	}
	return file, nil
}

// explain takes place and reason out of the YAML library's errors.
func explain(err error) (position, string) {
	var p *placed
	if errors.As(err, &p) {
		return p.at, p.reason
	}
	var y yaml.Error
	if errors.As(err, &y) {
		var at position
		if t := y.GetToken(); t != nil && t.Position != nil {
			at = position{t.Position.Line, t.Position.Column}
		}
		return at, strings.ReplaceAll(y.GetMessage(), "unknown field", "unknown key")
	}
	return position{}, strings.TrimSpace(err.Error())
}
