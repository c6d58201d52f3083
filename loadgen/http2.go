package loadgen

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"

	xhttp2 "golang.org/x/net/http2"
)

// http2 speaks HTTP/2, by prior knowledge or over TLS, through x/net's client
// connections, each on one connection that we dial.
type http2 struct {
	dialer    *dialer
	transport *xhttp2.Transport
	links     []*link[h2conn]
	head      *http.Request
	body      *requestBody
	rule      replyRule
}

type h2conn struct {
	client *xhttp2.ClientConn
	conn   *countedConn
}

func newHTTP2(c Config, d *dialer) (*http2, error) {
	x := &http2{
		dialer: d, body: newRequestBody(c.Body, c.IDs),
		transport: &xhttp2.Transport{DisableCompression: true, AllowHTTP: true, MaxHeaderListSize: maxReplyHead},
	}
	var err error
	if x.head, err = newHTTPRequest(c, x.body.length()); err != nil {
		return nil, err
	}
	if x.rule, err = newReplyRule(c); err != nil {
		return nil, err
	}
	for i := range c.Connections {
		var l *link[h2conn]
		l = newLink(i, func(ctx context.Context) (*h2conn, error) { return x.open(ctx, l) })
		x.links = append(x.links, l)
	}
	return x, nil
}

// open waits for the server's SETTINGS, which say how many streams it takes.
func (x *http2) open(ctx context.Context, l *link[h2conn]) (*h2conn, error) {
	c := &h2conn{}
	conn, err := x.dialer.dial(ctx, func() { l.lost(c) })
	if err != nil {
		return nil, err
	}
	c.conn = conn
	if c.client, err = x.transport.NewClientConn(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, x.dialer.timeout)
	defer cancel()
	// The answer to a PING follows the SETTINGS.
	if err := c.client.Ping(ctx); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("no HTTP/2 on the connection to %s: %w", x.dialer.address, err)
	}
	return c, nil
}

func (x *http2) exchange(s *slot, deadline int64) outcome {
	l := x.links[s.index%len(x.links)]
	c := l.get()
	if c == nil {
		return outcome{class: notConnected}.on(l.index)
	}
	body, err := x.body.next(s.ids)
	if err != nil {
		return outcome{class: deferred, kind: whyNoID}.on(l.index)
	}
	if !c.client.ReserveNewRequest() {
		if st := c.client.State(); !st.Closed && !st.Closing {
			return outcome{class: deferred, kind: whyMaxStreams}.on(l.index)
		}
		l.lost(c)
		return outcome{class: notConnected}.on(l.index)
	}
	ctx := s.armContext(context.Background(), deadline)
	req := x.head.WithContext(ctx)
	// A body of its own: the client may still close the last one when its reply
	// has been read.
	req.Body = io.NopCloser(bytes.NewReader(body))
	o := x.roundTrip(c, req)
	if s.disarmContext() {
		o = outcome{class: failed, kind: kindTimeout}
	}
	return o.on(l.index)
}

func (x *http2) roundTrip(c *h2conn, req *http.Request) outcome {
	resp, err := c.client.RoundTrip(req)
	if err != nil {
		return outcome{class: failed, kind: netKind(err)}
	}
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, maxReplyBody+1))
	_ = resp.Body.Close()
	switch {
	case n > maxReplyBody:
		return outcome{class: failed, kind: kindTooLong}
	case err != nil:
		return outcome{class: failed, kind: netKind(err)}
	}
	return x.rule.judgeHTTP(resp.StatusCode, n)
}

func (x *http2) connect(ctx context.Context) error {
	if err := ensureAll(ctx, x.links); err != nil {
		return fmt.Errorf("HTTP/2: %w", err)
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
