package loadgen

import (
	"errors"

	"google.golang.org/grpc/mem"
)

// rawCodec sends bytes as they are and looks at a reply's length only, so that
// the driver spends nothing on encoding. It names itself "proto" because that is
// what the bytes are to the service.
type rawCodec struct{}

var errNotRaw = errors.New("raw codec: want rawBody to send and *int to receive")

// rawBody is an encoded message. gRPC only reads it.
type rawBody []byte

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.(rawBody)
	if !ok {
		return nil, errNotRaw
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	n, ok := v.(*int)
	if !ok {
		return errNotRaw
	}
	*n = data.Len()
	return nil
}

func (rawCodec) Name() string { return "proto" }
