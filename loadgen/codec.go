package loadgen

import (
	"errors"

	"google.golang.org/grpc/mem"
)

// rawCodec sends bytes as they are, and of a reply keeps what its *reply asks
// for, so that the driver spends nothing on encoding. It names itself "proto"
// because that is what the bytes are to the service.
type rawCodec struct{}

var errNotRaw = errors.New("raw codec: want rawBody to send and *reply to receive")

// rawBody is an encoded message. gRPC only reads it.
type rawBody []byte

// reply is one message received: its length, and its bytes if keep is set, which
// the next message into the same reply overwrites.
type reply struct {
	keep   bool
	length int
	bytes  []byte
}

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(rawBody)
	if !ok {
		return nil, errNotRaw
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*reply)
	if !ok {
		return errNotRaw
	}
	r.length = data.Len()
	if r.keep {
		r.bytes = r.bytes[:0]
		for _, b := range data {
			r.bytes = append(r.bytes, b.ReadOnlyData()...)
		}
	}
	return nil
}

func (rawCodec) Name() string { return "proto" }
