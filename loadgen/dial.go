package loadgen

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// dialer opens the connections of a run and counts them: what a library says
// about its pool is not evidence of how many connections there are.
// Safe for concurrent use.
type dialer struct {
	address string
	wanted  int
	timeout time.Duration
	tls     *tls.Config // nil speaks plain text
	http2   bool        // connections carry HTTP/2, and are tapped

	open   atomic.Int64
	opened atomic.Int64 // since the start of the run
	lowest atomic.Int64 // of open, since markStep
	// gone is the reason why no connection is left: the last one closed and a
	// new one could not be opened. Nil while there is one, or hope of one.
	gone atomic.Pointer[error]
	last atomic.Pointer[error] // last failure to dial, until a dial succeeds

	mu    sync.Mutex
	conns map[*countedConn]struct{} // open
	past  tapCounts                 // of those closed
}

// newDialer makes the dialer of a validated config.
func newDialer(c Config) *dialer {
	d := &dialer{
		address: c.Address, wanted: c.Connections, timeout: c.ConnectTimeout,
		http2: c.Protocol != RestH1, conns: map[*countedConn]struct{}{},
	}
	if c.TLS != nil {
		d.tls = c.TLS.Clone()
		d.tls.NextProtos = []string{"http/1.1"}
		if d.http2 {
			d.tls.NextProtos = []string{"h2"}
		}
		if d.tls.ServerName == "" {
			d.tls.ServerName, _, _ = net.SplitHostPort(c.Address)
		}
	}
	return d
}

// dial opens one connection. onClose, if any, runs once when it is closed from
// either the caller or the library that holds it.
func (d *dialer) dial(ctx context.Context, onClose func()) (*countedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	c := &countedConn{d: d, onClose: onClose, lookedAt: monoNow(), gone: make(chan struct{})}
	if err := d.connect(ctx, c); err != nil {
		d.last.Store(&err)
		if d.open.Load() == 0 {
			d.gone.Store(&err)
		}
		return nil, err
	}
	d.opened.Add(1)
	d.open.Add(1)
	d.last.Store(nil)
	d.gone.Store(nil)
	d.mu.Lock()
	d.conns[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
}

func (d *dialer) connect(ctx context.Context, c *countedConn) error {
	var nd net.Dialer
	raw, err := nd.DialContext(ctx, "tcp", d.address)
	if err != nil {
		return err
	}
	c.raw, c.Conn = raw, raw
	if d.tls != nil {
		t := tls.Client(raw, d.tls)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return fmt.Errorf("TLS with %s: %w", d.address, err)
		}
		c.state, c.Conn = t.ConnectionState(), t
		// A server without ALPN may still speak HTTP/1.1, but not HTTP/2.
		if d.http2 && c.state.NegotiatedProtocol != "h2" {
			_ = raw.Close()
			return fmt.Errorf("TLS with %s: the server does not offer h2 by ALPN", d.address)
		}
	}
	if d.http2 {
		c.tap = newTap(c.Conn)
		c.Conn = c.tap
	}
	return nil
}

// lost is the reason why the service counts as gone, or nil.
func (d *dialer) lost() error {
	if err := d.gone.Load(); err != nil {
		return *err
	}
	return nil
}

// lastFailure is the last failure to dial since the last success, or nil.
func (d *dialer) lastFailure() error {
	if err := d.last.Load(); err != nil {
		return *err
	}
	return nil
}

// markStep begins a new count of the lowest number open.
func (d *dialer) markStep() (opened int64) {
	d.lowest.Store(d.open.Load())
	return d.opened.Load()
}

func (d *dialer) closed(c *countedConn) {
	d.mu.Lock()
	delete(d.conns, c)
	if c.tap != nil {
		_, counts := c.tap.read()
		d.past.plus(counts)
	}
	d.mu.Unlock()
	n := d.open.Add(-1)
	for low := d.lowest.Load(); n < low; low = d.lowest.Load() {
		if d.lowest.CompareAndSwap(low, n) {
			return
		}
	}
}

// unsentLooks bounds how many connections one sample looks at, each a system call.
const unsentLooks = 64

// unsent sums what connections hold unsent though their peer's window is open.
// Of more than unsentLooks connections it looks at some, at others each time.
// One caller at a time.
func (d *dialer) unsent() (bytes uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	looks := 0
	for c := range d.conns {
		if looks++; looks > unsentLooks {
			break
		}
		bytes += c.unsentOf()
	}
	return bytes
}

// countedConn tells its dialer once when it is closed.
type countedConn struct {
	net.Conn          // what the protocol speaks on: TLS and the tap included
	raw      net.Conn // the socket
	tap      *tap     // nil unless it carries HTTP/2
	state    tls.ConnectionState
	d        *dialer
	onClose  func()
	once     sync.Once
	gone     chan struct{} // closed by Close

	heldUs, lookedAt int64 // of unsentOf
}

// ConnectionState is that of TLS, all zero without.
func (c *countedConn) ConnectionState() tls.ConnectionState { return c.state }

func (c *countedConn) Close() error {
	// The socket at once: TLS would first wait to say goodbye to a peer that may be stuck.
	err := c.raw.Close()
	c.once.Do(func() {
		close(c.gone)
		c.d.closed(c)
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}
