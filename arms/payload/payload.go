// Package payload answers which bytes a request carries: the two body tiers
// that ladders are driven with, as JSON and as protobuf, and the Go types a
// JSON arm decodes them into.
//
// Both encodings of a tier carry the same content. Their sizes are those of
// the ladders Rung's tables are compared with, and a test fixes them:
//
//	tier       JSON     protobuf
//	tiny       16 B     7 B
//	realistic  1,309 B  1,025 B
//
// The bytes are the same in every process: JSON map keys are sorted by
// encoding/json, protobuf ones by deterministic marshalling.
package payload

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// Tier names a body.
type Tier string

const (
	Tiny      Tier = "tiny"      // a name: 16 B of JSON, 7 B of protobuf
	Realistic Tier = "realistic" // a name and a nested order: 1,309 B and 1,025 B
)

// Tiers lists the tiers, smallest first.
func Tiers() []Tier { return []Tier{Tiny, Realistic} }

// ParseTier reads a tier's name as it stands in flags and plans.
func ParseTier(name string) (Tier, error) {
	for _, t := range Tiers() {
		if name == string(t) {
			return t, nil
		}
	}
	return "", fmt.Errorf("unknown body tier %q: it is one of %s", name, tierNames())
}

// JSON is the tier's body for the REST arms. The caller owns the bytes. A tier
// that ParseTier would refuse is a programmer's error and panics.
func JSON(t Tier) []byte {
	b, err := json.Marshal(Of(t))
	if err != nil {
		panic(fmt.Sprintf("encode tier %s as JSON: %v", t, err))
	}
	return b
}

// Proto is the tier's body for the gRPC arms, without gRPC's five-byte prefix.
// The caller owns the bytes. It panics where JSON does.
func Proto(t Tier) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(Of(t).Proto())
	if err != nil {
		panic(fmt.Sprintf("encode tier %s as protobuf: %v", t, err))
	}
	return b
}

func tierNames() string {
	var names []string
	for _, t := range Tiers() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}
