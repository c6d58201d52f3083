package loadgen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
)

// http2 speaks HTTP/2 with prior knowledge through net/http's client
// connections, each of which is one connection that we dial.
type http2 struct {
	dialer *dialer
	links  []*link[h2conn]
	head   *http.Request
	body   []byte
	length int64
}

type h2conn struct {
	client *http.ClientConn
}

func newHTTP2(c Config, d *dialer) (*http2, error) {
	req, err := newHTTPRequest(c)
	if err != nil {
		return nil, err
	}
	req.Body, req.GetBody = nil, nil
	req.ContentLength = int64(len(c.Body))
	x := &http2{dialer: d, head: req, body: c.Body, length: int64(c.ReplyLength)}
	for range c.Connections {
		var l *link[h2conn]
		l = newLink(func(ctx context.Context) (*h2conn, error) { return x.open(ctx, l) })
		x.links = append(x.links, l)
	}
	return x, nil
}

func (x *http2) open(ctx context.Context, l *link[h2conn]) (*h2conn, error) {
	c := &h2conn{}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		Protocols:          &protocols,
		DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := x.dialer.dial(ctx, func() { l.lost(c) })
			if err != nil {
				return nil, err
			}
			return conn, nil
		},
	}
	client, err := t.NewClientConn(ctx, "http", x.dialer.address)
	if err != nil {
		return nil, err
	}
	c.client = client
	return c, nil
}

func (x *http2) exchange(s *slot, deadline int64) outcome {
	l := x.links[s.index%len(x.links)]
	c := l.get()
	if c == nil {
		return outcome{class: notConnected}
	}
	if err := c.client.Reserve(); err != nil {
		if c.client.Err() == nil {
			return outcome{deferred, whyMaxStreams}
		}
		l.lost(c)
		return outcome{class: notConnected}
	}
	ctx := s.armContext(deadline)
	req := x.head.WithContext(ctx)
	// A body of its own: the client may still close the last one when its reply
	// has been read.
	req.Body = io.NopCloser(bytes.NewReader(x.body))
	o := x.roundTrip(c, req)
	if s.disarmContext() {
		o = outcome{failed, kindTimeout}
	}
	return o
}

func (x *http2) roundTrip(c *h2conn, req *http.Request) outcome {
	resp, err := c.client.RoundTrip(req)
	if err != nil {
		return outcome{failed, netKind(err)}
	}
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return outcome{failed, netKind(err)}
	}
	return checkHTTP(resp.StatusCode, n, x.length)
}

func (x *http2) connect(ctx context.Context) error {
	if err := ensureAll(ctx, x.links); err != nil {
		return fmt.Errorf("HTTP/2 with prior knowledge: %w", err)
	}
	return nil
}

func (x *http2) connections() *dialer { return x.dialer }

func (x *http2) maintain(ctx context.Context, wg *sync.WaitGroup) {
	for _, l := range x.links {
		wg.Go(func() { l.maintain(ctx) })
	}
}

func (x *http2) close() {
	for _, l := range x.links {
		if c := l.get(); c != nil {
			_ = c.client.Close()
		}
	}
}
