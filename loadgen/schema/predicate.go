package schema

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Predicate makes a test of the method's replies out of conditions that must all
// hold:
//
//	a.b          the field is set
//	a.b=VALUE    it is set along the path and has this value
//	a.b!=VALUE   it is set along the path and has another value
//
// A field of a message that is there but does not say it has its default value. A
// value is a number, true or false, the text of a string, the base64 of bytes, or
// an enum's name. The test may be called concurrently; a reply that is no such
// message fulfils no predicate.
func (m *Method) Predicate(conditions []string) (func(message []byte) bool, error) {
	var all []condition
	for _, text := range conditions {
		c, err := m.condition(text)
		if err != nil {
			return nil, fmt.Errorf("condition %q: %w", text, err)
		}
		all = append(all, c)
	}
	output := m.desc.Output()
	return func(b []byte) bool {
		msg := dynamicpb.NewMessage(output)
		if proto.Unmarshal(b, msg) != nil {
			return false
		}
		for _, c := range all {
			if !c.holds(msg) {
				return false
			}
		}
		return true
	}, nil
}

type condition struct {
	path  []protoreflect.FieldDescriptor
	value *protoreflect.Value // nil: only that the field is set
	not   bool
}

func (m *Method) condition(text string) (condition, error) {
	path, value, compares := strings.Cut(text, "=")
	c := condition{}
	path, c.not = strings.CutSuffix(path, "!")
	if c.not && !compares {
		return c, fmt.Errorf("want FIELD, FIELD=VALUE or FIELD!=VALUE")
	}
	var err error
	if c.path, err = resolve(m.desc.Output(), strings.TrimSpace(path)); err != nil {
		return c, err
	}
	if compares {
		v, err := parseValue(c.path[len(c.path)-1], strings.TrimSpace(value))
		if err != nil {
			return c, err
		}
		c.value = &v
	}
	return c, nil
}

func (c *condition) holds(msg protoreflect.Message) bool {
	last := len(c.path) - 1
	for _, f := range c.path[:last] {
		if !msg.Has(f) {
			return false
		}
		msg = msg.Get(f).Message()
	}
	f := c.path[last]
	if c.value == nil {
		return msg.Has(f)
	}
	return msg.Get(f).Equal(*c.value) != c.not
}

// parseValue reads a value of a field's kind.
func parseValue(f protoreflect.FieldDescriptor, text string) (protoreflect.Value, error) {
	var v protoreflect.Value
	var err error
	switch f.Kind() {
	case protoreflect.BoolKind:
		var b bool
		b, err = strconv.ParseBool(text)
		v = protoreflect.ValueOfBool(b)
	case protoreflect.StringKind:
		v = protoreflect.ValueOfString(text)
	case protoreflect.BytesKind:
		var b []byte
		b, err = base64.StdEncoding.DecodeString(text)
		v = protoreflect.ValueOfBytes(b)
	case protoreflect.EnumKind:
		if ev := f.Enum().Values().ByName(protoreflect.Name(text)); ev != nil {
			return protoreflect.ValueOfEnum(ev.Number()), nil
		}
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		v = protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 32)
		v = protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		v = protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 32)
		v = protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		var n uint64
		n, err = strconv.ParseUint(text, 10, 64)
		v = protoreflect.ValueOfUint64(n)
	case protoreflect.FloatKind:
		var n float64
		n, err = strconv.ParseFloat(text, 32)
		v = protoreflect.ValueOfFloat32(float32(n))
	case protoreflect.DoubleKind:
		var n float64
		n, err = strconv.ParseFloat(text, 64)
		v = protoreflect.ValueOfFloat64(n)
	default:
		return v, fmt.Errorf("a %s has no value to compare with; name one of its fields", f.Kind())
	}
	if err != nil {
		return v, fmt.Errorf("%q is no %s: %w", text, f.Kind(), err)
	}
	return v, nil
}
