package loadgen

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// IDConfig makes each request differ by an id: slot s (of a stream protocol,
// stream s) sends First + s·Span, First + s·Span + 1, … and never one of another
// slot's. Exactly one of Token and Field says where the id stands.
type IDConfig struct {
	// Token is a text in the body that the id's decimal digits replace. All ids
	// have the same number of digits, so a body's length does not change.
	Token string
	// Field is the path of a scalar field of the message by numbers, which the id
	// is set to. The message's encoding is appended to: of a scalar the last value
	// counts, and embedded messages are merged.
	Field []protowire.Number
	// Text: Field is a string, or bytes, and gets the digits.
	Text bool
	// First is the first id of slot 0, and Span the number of ids of a slot.
	First, Span uint64
}

// Defaults of IDConfig: ten digits, which an int32 holds for 1,147 slots.
const (
	DefaultFirstID = 1_000_000_000
	DefaultIDSpan  = 1_000_000
)

// validate fills in the defaults and checks the ids of a number of slots.
func (c *IDConfig) validate(slots int, body []byte) error {
	c.First, c.Span = or(c.First, DefaultFirstID), or(c.Span, DefaultIDSpan)
	if (c.Token == "") == (len(c.Field) == 0) {
		return bad("id-token", strconv.Quote(c.Token), "either this or --id-field")
	}
	if c.Token != "" && !bytes.Contains(body, []byte(c.Token)) {
		return bad("id-token", strconv.Quote(c.Token), "a text that is in the body")
	}
	for _, n := range c.Field {
		if !n.IsValid() {
			return bad("id-field", c.Field, "field numbers from 1 up")
		}
	}
	last := c.First - 1 + uint64(slots)*c.Span
	if c.Span > 1e15 || last < c.First || last > 1e18 || len(strconv.FormatUint(last, 10)) != len(strconv.FormatUint(c.First, 10)) {
		return bad("id-first", c.First, "an id with as many digits as %d, the last of %d slots of %d ids each", last, slots, c.Span)
	}
	return nil
}

// requestBody makes the bodies of requests. It is read concurrently.
type requestBody struct {
	raw []byte
	ids *IDConfig
	// at are the offsets of the digits (or of the varint) in raw.
	at     []int
	digits int
	varint bool
}

// paddedVarint is how many bytes an id takes as a varint, more than it needs:
// decoders accept that, and the length stays the same.
const paddedVarint = 10

func newRequestBody(raw []byte, ids *IDConfig) *requestBody {
	b := &requestBody{raw: raw, ids: ids}
	if ids == nil {
		return b
	}
	b.digits = len(strconv.FormatUint(ids.First, 10))
	blank := bytes.Repeat([]byte("0"), b.digits)
	if ids.Token != "" {
		parts := bytes.Split(raw, []byte(ids.Token))
		b.raw = parts[0]
		for _, part := range parts[1:] {
			b.at = append(b.at, len(b.raw))
			b.raw = append(append(bytes.Clone(b.raw), blank...), part...)
		}
		return b
	}
	// Inside out: the field, then the messages around it.
	var field []byte
	last := len(ids.Field) - 1
	if ids.Text {
		field = protowire.AppendString(protowire.AppendTag(nil, ids.Field[last], protowire.BytesType), string(blank))
	} else {
		field = append(protowire.AppendTag(nil, ids.Field[last], protowire.VarintType), make([]byte, paddedVarint)...)
		b.varint = true
	}
	for i := last - 1; i >= 0; i-- {
		field = protowire.AppendBytes(protowire.AppendTag(nil, ids.Field[i], protowire.BytesType), field)
	}
	b.raw = append(bytes.Clone(raw), field...)
	width := b.digits
	if b.varint {
		width = paddedVarint
	}
	b.at = []int{len(b.raw) - width}
	return b
}

func (b *requestBody) length() int { return len(b.raw) }

// idRange is one slot's ids. The slot's goroutine only.
type idRange struct{ next, end uint64 }

func (b *requestBody) slotRange(slot int) idRange {
	if b.ids == nil {
		return idRange{}
	}
	from := b.ids.First + uint64(slot)*b.ids.Span
	return idRange{from, from + b.ids.Span}
}

var errIDsUsedUp = errors.New("all ids of the slot are used up")

// next is the body of a slot's next request, which the caller may keep but not
// change. It is a copy of its own where ids make it one.
func (b *requestBody) next(r *idRange) ([]byte, error) {
	if b.ids == nil {
		return b.raw, nil
	}
	if r.next == r.end {
		return nil, errIDsUsedUp
	}
	id := r.next
	r.next++
	out := bytes.Clone(b.raw)
	for _, at := range b.at {
		if b.varint {
			putPaddedVarint(out[at:at+paddedVarint], id)
			continue
		}
		copy(out[at:], fmt.Appendf(nil, "%0*d", b.digits, id))
	}
	return out, nil
}

func putPaddedVarint(to []byte, v uint64) {
	for i := range to {
		to[i] = byte(v&0x7f) | 0x80
		v >>= 7
	}
	to[len(to)-1] &= 0x7f
}
