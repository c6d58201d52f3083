package arms

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

// newNullGRPC serves Echo's methods over messages that stay bytes: the
// transport, the dispatch and the stream machinery of grpc-unary and
// grpc-stream, without their codec. (grpc.UnknownServiceHandler would be
// shorter, but takes unary calls down the stream's path.)
func newNullGRPC(listener net.Listener) *grpcBackend {
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}))
	server.RegisterService(&rawEcho, nil)
	return &grpcBackend{server: server, listener: listener}
}

var rawEcho = grpc.ServiceDesc{
	ServiceName: echov1.Echo_ServiceDesc.ServiceName,
	Methods:     []grpc.MethodDesc{{MethodName: "SayHello", Handler: rawSayHello}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Chat", Handler: rawChat, ServerStreams: true, ClientStreams: true},
		{StreamName: "Repeat", Handler: rawRepeat, ServerStreams: true},
	},
	Metadata: echov1.Echo_ServiceDesc.Metadata,
}

func rawSayHello(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	message := new(rawMessage)
	if err := decode(message); err != nil {
		return nil, err
	}
	return message, nil
}

func rawChat(_ any, stream grpc.ServerStream) error {
	for {
		message := new(rawMessage)
		err := stream.RecvMsg(message)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
}

func rawRepeat(_ any, stream grpc.ServerStream) error {
	message := new(rawMessage)
	if err := stream.RecvMsg(message); err != nil {
		return err
	}
	for range repeats {
		if err := stream.SendMsg(message); err != nil {
			return err
		}
	}
	return nil
}

// rawMessage is a message as it came off the wire.
type rawMessage struct{ bytes []byte }

// rawCodec passes *rawMessage through. Its name is proto's, so that clients
// need not know.
type rawCodec struct{}

func (rawCodec) Name() string { return protocodec.Name }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	message, ok := v.(*rawMessage)
	if !ok {
		return nil, fmt.Errorf("encode %T: the null arm sends raw messages only", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(message.bytes)}, nil
}

// Unmarshal copies: the data's buffers go back to gRPC's pool when it returns.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	message, ok := v.(*rawMessage)
	if !ok {
		return fmt.Errorf("decode into %T: the null arm receives raw messages only", v)
	}
	message.bytes = data.Materialize()
	return nil
}
