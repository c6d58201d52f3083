package loadgen

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// http2 speaks HTTP/2, by prior knowledge or over TLS, through net/http's client
// connections, each on one connection that we dial.
type http2 struct {
	dialer *dialer
	links  []*link[h2conn]
	head   *http.Request
	body   *requestBody
	rule   replyRule
}

type h2conn struct {
	client *http.ClientConn
}

func newHTTP2(c Config, d *dialer) (*http2, error) {
	x := &http2{dialer: d, body: newRequestBody(c.Body, c.IDs)}
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

// open waits for the server's SETTINGS, which say how many streams it takes. To
// net/http the connection is plain: the dialer has done TLS, below the tap, and a
// request's own URL says https.
func (x *http2) open(ctx context.Context, l *link[h2conn]) (*h2conn, error) {
	c := &h2conn{}
	var conn *countedConn
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	t := &http.Transport{
		Protocols:              &protocols,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxReplyHead,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var err error
			if conn, err = x.dialer.dial(ctx, func() { l.lost(c) }); err != nil {
				return nil, err
			}
			return conn, nil
		},
	}
	client, err := t.NewClientConn(ctx, "http", x.dialer.address)
	if err != nil {
		return nil, err
	}
	wait := time.NewTimer(x.dialer.timeout)
	defer wait.Stop()
	select {
	case <-conn.tap.greeted:
		c.client = client
		return c, nil
	case <-conn.gone:
		err = errors.New("the service closed it")
	case <-wait.C:
		err = fmt.Errorf("no SETTINGS within %s", x.dialer.timeout)
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = client.Close()
	return nil, fmt.Errorf("connection to %s: %w", x.dialer.address, err)
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
	if err := c.client.Reserve(); err != nil {
		if c.client.Err() == nil {
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
