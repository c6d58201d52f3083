package loadgen

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/apipb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Each slot's ids are its own, the length stays, and the message says the id
// whatever it said before.
func TestRequestIDs(t *testing.T) {
	was, err := proto.Marshal(wrapperspb.UInt64(7))
	if err != nil {
		t.Fatal(err)
	}
	nested, err := proto.Marshal(&apipb.Api{Name: "api", SourceContext: nil, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]func([]byte) (string, error){
		"token": func(b []byte) (string, error) {
			s := &structpb.Struct{}
			err := s.UnmarshalJSON(b)
			return strconv.FormatFloat(s.Fields["id"].GetNumberValue(), 'f', 0, 64), err
		},
		"varint": func(b []byte) (string, error) {
			m := &wrapperspb.UInt64Value{}
			err := proto.Unmarshal(b, m)
			return strconv.FormatUint(m.Value, 10), err
		},
		"nested text": func(b []byte) (string, error) {
			m := &apipb.Api{}
			err := proto.Unmarshal(b, m)
			if m.Name != "api" || m.Version != "v1" {
				t.Errorf("the rest of the message: %v", m)
			}
			return m.GetSourceContext().GetFileName(), err
		},
	}
	for name, tc := range map[string]struct {
		body []byte
		ids  IDConfig
	}{
		"token":       {[]byte(`{"id":@ID@,"again":"@ID@"}`), IDConfig{Token: "@ID@", First: 100, Span: 3}},
		"varint":      {was, IDConfig{Field: []protowire.Number{1}, First: 100, Span: 3}},
		"nested text": {nested, IDConfig{Field: []protowire.Number{5, 1}, Text: true, First: 100, Span: 3}},
	} {
		if err := tc.ids.validate(4, tc.body); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		b := newRequestBody(tc.body, &tc.ids)
		seen := map[string]bool{}
		for slot := range 4 {
			r := b.slotRange(slot)
			for {
				body, err := b.next(&r)
				if err != nil {
					break
				}
				if len(body) != b.length() {
					t.Errorf("%s: %d bytes, want %d", name, len(body), b.length())
				}
				id, err := read[name](body)
				if err != nil || seen[id] {
					t.Errorf("%s: id %q, seen %v, %v in %q", name, id, seen[id], err, body)
				}
				seen[id] = true
			}
		}
		for id := 100; id < 112; id++ {
			if !seen[strconv.Itoa(id)] {
				t.Errorf("%s: %d was not sent", name, id)
			}
		}
		if len(seen) != 12 {
			t.Errorf("%s: %d ids, want 12", name, len(seen))
		}
	}
	for _, c := range []IDConfig{{}, {Token: "x", Field: []protowire.Number{1}}, {Token: "absent"}, {Field: []protowire.Number{0}},
		{Token: "b", First: 1, Span: 9}, {Token: "b", First: 10, Span: 1e17}, {Token: "b", First: 1<<64 - 1}} {
		if err := c.validate(2, []byte("body")); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

// In a run every request that is sent carries an id of its own, and a slot
// without any left defers.
func TestIDsInARun(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		s.keep.Store(true)
		c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 400 * time.Millisecond})
		c.Body, c.ReplyLength = []byte("request @ID@ of the run"), 0
		c.IDs = &IDConfig{Token: "@ID@", First: 1000, Span: 5}
		r := runSteps(t, c, Hooks{})[0].Result
		s.mu.Lock()
		defer s.mu.Unlock()
		seen := map[string]bool{}
		for _, b := range s.bodies {
			if seen[b] || !bytes.HasPrefix([]byte(b), []byte("request 1")) || len(b) != len("request 1000 of the run") {
				t.Errorf("request %q, seen %v", b, seen[b])
			}
			seen[b] = true
		}
		preflight := max(c.Connections, c.Streams)
		if uint64(len(seen)) != r.Sent+uint64(preflight) {
			t.Errorf("%d ids, %d sent and %d in preflight", len(seen), r.Sent, preflight)
		}
		// 4 slots of 5 ids are soon used up.
		if used := r.Deferred[whyNoID]; (p == RestH1 || p == GRPCStream) && used < 50 {
			t.Errorf("deferred %v", r.Deferred)
		}
	})
}
