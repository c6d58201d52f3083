package loadgen

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// channels are gRPC client connections, one TCP connection each.
type channels struct {
	dialer *dialer
	conns  []*channel
	ctx    context.Context // carries the metadata of all calls
}

// channel is one of them with the count of its streams: grpc-go lets calls above
// the peer's limit of concurrent streams wait, which would be a queue behind the
// driver's back.
type channel struct {
	*grpc.ClientConn
	index   int
	conn    atomic.Pointer[countedConn] // the last one dialled
	streams atomic.Int64                // open, or about to be opened
}

// take takes a stream if the peer allows one more.
func (c *channel) take() bool {
	conn := c.conn.Load()
	if conn == nil {
		return false
	}
	if c.streams.Add(1) > conn.tap.maxStreams() {
		c.streams.Add(-1)
		return false
	}
	return true
}

// limit is the peer's limit of streams at once.
func (c *channel) limit() int64 {
	if conn := c.conn.Load(); conn != nil {
		return conn.tap.maxStreams()
	}
	return 0
}

func (c *channel) give() { c.streams.Add(-1) }

func newChannels(c Config, d *dialer) (*channels, error) {
	headers, err := parseHeaders(c.Headers)
	if err != nil {
		return nil, err
	}
	md := metadata.MD{}
	for _, h := range headers {
		value := h[1]
		if strings.HasSuffix(strings.ToLower(h[0]), "-bin") {
			raw, err := base64.StdEncoding.DecodeString(value)
			if err != nil {
				return nil, bad("header", strconv.Quote(h[0]+": "+value), "base64 behind a name that ends in -bin: %v", err)
			}
			value = string(raw)
		}
		md.Append(h[0], value)
	}
	ch := &channels{dialer: d, ctx: metadata.NewOutgoingContext(context.Background(), md)}
	for i := range c.Connections {
		one := &channel{index: i}
		one.ClientConn, err = grpc.NewClient("passthrough:///"+c.Address,
			grpc.WithTransportCredentials(newTransport(d)),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				conn, err := d.dial(ctx, nil)
				if err != nil {
					return nil, err
				}
				one.conn.Store(conn)
				return conn, nil
			}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(maxReplyBody)),
			grpc.WithMaxHeaderListSize(maxReplyHead),
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
		ch.conns = append(ch.conns, one)
	}
	return ch, nil
}

// transport tells gRPC what the dialer has done: it dials with TLS already.
type transport struct {
	credentials.TransportCredentials
	secure bool
}

func newTransport(d *dialer) credentials.TransportCredentials {
	if d.tls == nil {
		return insecure.NewCredentials()
	}
	return transport{credentials.NewTLS(d.tls), true}
}

// ClientHandshake passes a connection on whose handshake is over.
func (t transport) ClientHandshake(_ context.Context, _ string, c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	counted, ok := c.(*countedConn)
	if !ok {
		return nil, nil, fmt.Errorf("TLS: the connection is a %T, not one of the dialer's", c)
	}
	info := credentials.TLSInfo{State: counted.state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}
	return c, info, nil
}

func (t transport) Clone() credentials.TransportCredentials {
	return transport{t.TransportCredentials.Clone(), t.secure}
}

// connect asks each channel to connect and waits until it did or failed once.
func (ch *channels) connect(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*ch.dialer.timeout)
	defer cancel()
	return forAll(len(ch.conns), func(i int) error { return ch.await(ctx, ch.conns[i]) })
}

func (ch *channels) await(ctx context.Context, cc *channel) error {
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

// calls makes one call per request, whose answer is a message or a stream of them.
type calls struct {
	*channels
	method string
	body   *requestBody
	rule   replyRule
	stream bool // the answer is a stream
}

func newCalls(c Config, d *dialer) (*calls, error) {
	ch, err := newChannels(c, d)
	if err != nil {
		return nil, err
	}
	x := &calls{channels: ch, method: c.Method, body: newRequestBody(c.Body, c.IDs), stream: c.Protocol == GRPCServerStream}
	if x.rule, err = newReplyRule(c); err != nil {
		ch.close()
		return nil, err
	}
	return x, nil
}

func (x *calls) exchange(s *slot, deadline int64) outcome {
	cc := x.conns[s.index%len(x.conns)]
	if cc.GetState() != connectivity.Ready {
		return outcome{class: notConnected}.on(cc.index)
	}
	body, err := x.body.next(s.ids)
	if err != nil {
		return outcome{class: deferred, kind: whyNoID}.on(cc.index)
	}
	if !cc.take() {
		return outcome{class: deferred, kind: whyMaxStreams}.on(cc.index)
	}
	defer cc.give()
	s.reply.keep = x.rule.accept != nil
	ctx := s.armContext(x.ctx, deadline)
	var messages uint64
	if x.stream {
		messages, err = x.readStream(ctx, cc, body, &s.reply)
	} else {
		err = cc.Invoke(ctx, x.method, rawBody(body), &s.reply)
	}
	o := outcome{class: failed, kind: kindTimeout}
	if !s.disarmContext() {
		o = x.rule.judgeGRPC(status.Code(err), err, &s.reply)
	}
	o.messages = messages
	return o.on(cc.index)
}

var serverStream = grpc.StreamDesc{StreamName: "Stream", ServerStreams: true}

// readStream leaves the last message of the answer in last.
func (x *calls) readStream(ctx context.Context, cc *channel, body []byte, last *reply) (messages uint64, err error) {
	st, err := cc.NewStream(ctx, &serverStream, x.method)
	if err != nil {
		return 0, err
	}
	last.length, last.bytes = 0, last.bytes[:0]
	// An error of sending is one of the stream, which RecvMsg gives with its status.
	if err := st.SendMsg(rawBody(body)); err == nil {
		_ = st.CloseSend()
	}
	for {
		err := st.RecvMsg(last)
		if errors.Is(err, io.EOF) {
			return messages, nil
		}
		if err != nil {
			return messages, err
		}
		messages++
	}
}
