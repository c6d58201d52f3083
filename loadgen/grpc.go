package loadgen

import (
	"context"
	"fmt"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
)

// channels are gRPC client connections, one TCP connection each.
type channels struct {
	dialer *dialer
	conns  []*grpc.ClientConn
}

func newChannels(c Config, d *dialer) (*channels, error) {
	ch := &channels{dialer: d}
	for range c.Connections {
		cc, err := grpc.NewClient("passthrough:///"+c.Address,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				conn, err := d.dial(ctx, nil)
				if err != nil {
					return nil, err
				}
				return conn, nil
			}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})),
			grpc.WithDisableServiceConfig(),
			grpc.WithDisableRetry(),
			grpc.WithIdleTimeout(0),
			grpc.WithUserAgent("rung"),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: reopenMin, Multiplier: 2, MaxDelay: reopenMax},
				MinConnectTimeout: c.ConnectTimeout,
			}))
		if err != nil {
			ch.close()
			return nil, fmt.Errorf("gRPC client for %s: %w", c.Address, err)
		}
		ch.conns = append(ch.conns, cc)
	}
	return ch, nil
}

// connect asks each channel to connect and waits until it did or failed once.
func (ch *channels) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*ch.dialer.timeout)
	defer cancel()
	return forAll(len(ch.conns), func(i int) error { return ch.await(ctx, ch.conns[i]) })
}

func (ch *channels) await(ctx context.Context, cc *grpc.ClientConn) error {
	for {
		state := cc.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			cc.Connect()
		case connectivity.TransientFailure:
			if err := ch.dialer.lastFailure(); err != nil {
				return err
			}
			// TCP is up: what failed is HTTP/2 on it.
		}
		if !cc.WaitForStateChange(ctx, state) {
			if err := ch.dialer.lastFailure(); err != nil {
				return err
			}
			return fmt.Errorf("no HTTP/2 connection to %s: %w", ch.dialer.address, ctx.Err())
		}
	}
}

// maintain asks each channel to connect again when it has lost its connection:
// a gRPC channel left alone waits for the next call.
func (ch *channels) maintain(ctx context.Context, wg *sync.WaitGroup) {
	for _, cc := range ch.conns {
		wg.Go(func() {
			for {
				state := cc.GetState()
				if state == connectivity.Idle {
					cc.Connect()
				}
				if state == connectivity.Shutdown || !cc.WaitForStateChange(ctx, state) {
					return
				}
			}
		})
	}
}

func (ch *channels) connections() *dialer { return ch.dialer }

func (ch *channels) close() {
	for _, cc := range ch.conns {
		_ = cc.Close()
	}
}

// grpcUnary makes one call per request.
type grpcUnary struct {
	*channels
	method string
	body   any // a rawBody, boxed once
	length int
}

func newGRPCUnary(c Config, d *dialer) (*grpcUnary, error) {
	ch, err := newChannels(c, d)
	if err != nil {
		return nil, err
	}
	return &grpcUnary{channels: ch, method: c.Method, body: rawBody(c.Body), length: c.ReplyLength}, nil
}

func (x *grpcUnary) exchange(s *slot, deadline int64) outcome {
	cc := x.conns[s.index%len(x.conns)]
	if cc.GetState() != connectivity.Ready {
		return outcome{class: notConnected}
	}
	var n int
	ctx := s.armContext(deadline)
	err := cc.Invoke(ctx, x.method, x.body, &n)
	fired := s.disarmContext()
	switch {
	case fired:
		return outcome{failed, kindTimeout}
	case err != nil:
		return outcome{grpcClass(err), grpcKind(err)}
	case x.length > 0 && n != x.length:
		return outcome{failedAnswer, kindBadBody}
	}
	return outcome{class: delivered}
}
