package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// http1 speaks HTTP/1.1 on a fixed set of connections. net/http writes the
// request (once: all are alike) and parses the replies; the connections are our
// own, because http.Transport's two goroutines per connection double the cost of
// a request and its pool decides by itself how many there are.
type http1 struct {
	dialer *dialer
	links  []*link[h1conn]
	// free holds the connections without a request, longest idle first, so that
	// all of them are used in turn.
	free chan *link[h1conn]
	wire []byte // of a request, without its body
	body *requestBody
	head *http.Request // what ReadResponse needs to know of the request
	rule replyRule
}

type h1conn struct {
	conn   *countedConn
	limit  io.LimitedReader
	reader *bufio.Reader
	giveUp func()
}

// What is read of a reply. A service that sends more is not waited for.
const (
	maxReplyHead = 1 << 20
	maxReplyBody = 64 << 20
)

func newHTTP1(c Config, d *dialer) (*http1, error) {
	x := &http1{dialer: d, body: newRequestBody(c.Body, c.IDs), free: make(chan *link[h1conn], c.Connections)}
	req, err := newHTTPRequest(c, x.body.length())
	if err != nil {
		return nil, err
	}
	if x.rule, err = newReplyRule(c); err != nil {
		return nil, err
	}
	var wire bytes.Buffer
	req.Body = io.NopCloser(bytes.NewReader(x.body.raw))
	if err := req.Write(&wire); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	x.wire, x.head = wire.Bytes()[:wire.Len()-x.body.length()], req
	for i := range c.Connections {
		l := newLink(i, x.open)
		x.links = append(x.links, l)
		x.free <- l
	}
	return x, nil
}

// newHTTPRequest is the request that both REST protocols repeat, without its body.
func newHTTPRequest(c Config, length int) (*http.Request, error) {
	req, err := http.NewRequest(or(c.HTTPMethod, http.MethodPost), c.scheme()+"://"+c.Address+c.Path, nil)
	if err != nil {
		return nil, bad("path", fmt.Sprintf("%q", c.Path), "a path that starts with /: %v", err)
	}
	req.ContentLength = int64(length)
	req.Header.Set("Content-Type", c.ContentType)
	req.Header.Set("User-Agent", "rung")
	headers, err := parseHeaders(c.Headers)
	if err != nil {
		return nil, err
	}
	for _, h := range headers {
		if strings.EqualFold(h[0], "host") {
			req.Host = h[1]
			continue
		}
		req.Header.Add(h[0], h[1])
	}
	return req, nil
}

func (x *http1) open(ctx context.Context) (*h1conn, error) {
	conn, err := x.dialer.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	c := &h1conn{conn: conn, limit: io.LimitedReader{R: conn.Conn}, giveUp: func() { _ = conn.Close() }}
	c.reader = bufio.NewReader(&c.limit)
	return c, nil
}

func (x *http1) exchange(s *slot, deadline int64) outcome {
	l := <-x.free // never waits: no more slots than connections
	defer func() { x.free <- l }()
	c := l.get()
	if c == nil {
		return outcome{class: notConnected}.on(l.index)
	}
	body, err := x.body.next(s.ids)
	if err != nil {
		return outcome{class: deferred, kind: whyNoID}.on(l.index)
	}
	s.scratch = append(append(s.scratch[:0], x.wire...), body...)
	s.arm(&c.giveUp, deadline)
	o, keep := x.roundTrip(c, s.scratch)
	if s.disarm() {
		o, keep = outcome{class: failed, kind: kindTimeout}, false
	}
	if !keep {
		_ = c.conn.Close()
		l.lost(c)
	}
	return o.on(l.index)
}

// roundTrip says whether the connection can carry another request.
func (x *http1) roundTrip(c *h1conn, request []byte) (o outcome, keep bool) {
	if _, err := c.conn.Conn.Write(request); err != nil {
		return outcome{class: failed, kind: netKind(err)}, false
	}
	c.limit.N = maxReplyHead
	resp, err := http.ReadResponse(c.reader, x.head)
	// An interim answer (100, 103) is not the answer.
	for interim := 0; err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols && interim < 5; interim++ {
		resp, err = http.ReadResponse(c.reader, x.head)
	}
	if err != nil {
		return c.broken(err), false
	}
	c.limit.N = maxReplyBody
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return c.broken(err), false
	}
	// Bytes beyond the reply would be taken for the next one.
	return x.rule.judgeHTTP(resp.StatusCode, n), !resp.Close && c.reader.Buffered() == 0
}

func (c *h1conn) broken(err error) outcome {
	if c.limit.N <= 0 {
		return outcome{class: failed, kind: kindTooLong}
	}
	return outcome{class: failed, kind: netKind(err)}
}

func (x *http1) connect(ctx context.Context) error { return ensureAll(ctx, x.links) }
func (x *http1) connections() *dialer              { return x.dialer }

func (x *http1) maintain(ctx context.Context, wg *sync.WaitGroup) {
	for _, l := range x.links {
		wg.Go(func() { l.maintain(ctx) })
	}
}

func (x *http1) close() {
	for _, l := range x.links {
		if c := l.get(); c != nil {
			_ = c.conn.Close()
		}
	}
}
