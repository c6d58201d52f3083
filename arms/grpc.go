package arms

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/rungprof/rung/arms/echo"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

// grpcBackend is grpc-go with its defaults: no bound on streams, proto codec,
// windows that start at 64 KiB and grow with the measured bandwidth.
type grpcBackend struct {
	server   *grpc.Server
	listener net.Listener
}

func newGRPC(service *echo.Service, listener net.Listener) *grpcBackend {
	server := grpc.NewServer()
	echov1.RegisterEchoServer(server, &echoServer{service: service})
	reflection.Register(server)
	return &grpcBackend{server: server, listener: listener}
}

func (g *grpcBackend) serve() error { return g.server.Serve(g.listener) }

func (g *grpcBackend) stop(ctx context.Context) error {
	stopped := make(chan struct{})
	go func() {
		g.server.GracefulStop()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done():
		g.server.Stop() // also ends the graceful one
		<-stopped
	}
	return nil
}

// echoServer is the Echo service over messages that gRPC's codec decodes and
// encodes.
type echoServer struct {
	echov1.UnimplementedEchoServer
	service *echo.Service
}

func (s *echoServer) SayHello(_ context.Context, in *echov1.Hello) (*echov1.Hello, error) {
	return s.service.Proto(in)
}

func (s *echoServer) Chat(stream grpc.BidiStreamingServer[echov1.Hello, echov1.Hello]) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		out, err := s.service.Proto(in)
		if err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

// repeats is how many messages Repeat answers with.
const repeats = 3

func (s *echoServer) Repeat(in *echov1.Hello, stream grpc.ServerStreamingServer[echov1.Hello]) error {
	for range repeats {
		out, err := s.service.Proto(in)
		if err != nil {
			return err
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}
