package payload

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

func TestSizes(t *testing.T) {
	for _, want := range []struct {
		tier        Tier
		json, proto int
	}{
		{Tiny, 16, 7},
		{Realistic, 1309, 1025},
	} {
		if got := len(JSON(want.tier)); got != want.json {
			t.Errorf("%s: %d B of JSON, want %d", want.tier, got, want.json)
		}
		if got := len(Proto(want.tier)); got != want.proto {
			t.Errorf("%s: %d B of protobuf, want %d", want.tier, got, want.proto)
		}
	}
}

// TestSameContent reads both encodings with protobuf's own decoders, so that
// neither this package's types nor its conversion vouches for itself.
func TestSameContent(t *testing.T) {
	for _, tier := range Tiers() {
		var fromJSON, fromProto echov1.Hello
		if err := protojson.Unmarshal(JSON(tier), &fromJSON); err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		if err := proto.Unmarshal(Proto(tier), &fromProto); err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		if !proto.Equal(&fromJSON, &fromProto) {
			t.Errorf("%s: JSON carries %v, protobuf %v", tier, &fromJSON, &fromProto)
		}
	}
}

// TestRoundTrip: a JSON arm's types lose nothing, so an echo is byte-equal.
func TestRoundTrip(t *testing.T) {
	for _, tier := range Tiers() {
		var h Hello
		if err := json.Unmarshal(JSON(tier), &h); err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		again, err := json.Marshal(&h)
		if err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		if !bytes.Equal(again, JSON(tier)) {
			t.Errorf("%s: decoded and encoded again:\n%s\nwant\n%s", tier, again, JSON(tier))
		}
	}
}

func TestSameBytesEveryTime(t *testing.T) {
	for _, tier := range Tiers() {
		j, p := JSON(tier), Proto(tier)
		for range 100 {
			if !bytes.Equal(JSON(tier), j) || !bytes.Equal(Proto(tier), p) {
				t.Fatalf("%s: two calls gave different bytes", tier)
			}
		}
	}
}

func TestParseTier(t *testing.T) {
	for _, tier := range Tiers() {
		if got, err := ParseTier(string(tier)); got != tier || err != nil {
			t.Errorf("ParseTier(%q) = %q, %v", tier, got, err)
		}
	}
	for _, bad := range []string{"", "Tiny", "huge", "tiny "} {
		_, err := ParseTier(bad)
		if err == nil || !strings.Contains(err.Error(), "tiny, realistic") {
			t.Errorf("ParseTier(%q): error %v does not list the tiers", bad, err)
		}
	}
}
