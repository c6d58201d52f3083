package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
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
	free    chan *link[h1conn]
	request []byte
	head    *http.Request // what ReadResponse needs to know of the request
	length  int64
}

type h1conn struct {
	conn   *countedConn
	reader *bufio.Reader
	giveUp func()
}

func newHTTP1(c Config, d *dialer) (*http1, error) {
	req, err := newHTTPRequest(c)
	if err != nil {
		return nil, err
	}
	var wire bytes.Buffer
	if err := req.Write(&wire); err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	x := &http1{dialer: d, request: wire.Bytes(), head: req, length: int64(c.ReplyLength), free: make(chan *link[h1conn], c.Connections)}
	for range c.Connections {
		l := newLink(x.open)
		x.links = append(x.links, l)
		x.free <- l
	}
	return x, nil
}

// newHTTPRequest is the request that both REST protocols repeat.
func newHTTPRequest(c Config) (*http.Request, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+c.Address+c.Path, bytes.NewReader(c.Body))
	if err != nil {
		return nil, bad("path", fmt.Sprintf("%q", c.Path), "a path that starts with /: %v", err)
	}
	req.Header.Set("Content-Type", c.ContentType)
	req.Header.Set("User-Agent", "rung")
	return req, nil
}

func (x *http1) open(ctx context.Context) (*h1conn, error) {
	conn, err := x.dialer.dial(ctx, nil)
	if err != nil {
		return nil, err
	}
	return &h1conn{conn: conn, reader: bufio.NewReader(conn.Conn), giveUp: func() { _ = conn.Close() }}, nil
}

func (x *http1) exchange(s *slot, deadline int64) outcome {
	l := <-x.free // never waits: no more slots than connections
	defer func() { x.free <- l }()
	c := l.get()
	if c == nil {
		return outcome{class: notConnected}
	}
	s.arm(&c.giveUp, deadline)
	o, keep := x.roundTrip(c)
	if s.disarm() {
		o, keep = outcome{failed, kindTimeout}, false
	}
	if !keep {
		_ = c.conn.Close()
		l.lost(c)
	}
	return o
}

// roundTrip says whether the connection can carry another request.
func (x *http1) roundTrip(c *h1conn) (o outcome, keep bool) {
	if _, err := c.conn.Conn.Write(x.request); err != nil {
		return outcome{failed, netKind(err)}, false
	}
	resp, err := http.ReadResponse(c.reader, x.head)
	if err != nil {
		return outcome{failed, netKind(err)}, false
	}
	n, err := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return outcome{failed, netKind(err)}, false
	}
	return checkHTTP(resp.StatusCode, n, x.length), !resp.Close
}

// checkHTTP judges a whole reply.
func checkHTTP(status int, length, want int64) outcome {
	switch {
	case status != http.StatusOK:
		return outcome{failedAnswer, statusKind(status)}
	case length == 0 || want > 0 && length != want:
		return outcome{failedAnswer, kindBadBody}
	}
	return outcome{class: delivered}
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
