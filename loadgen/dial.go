package loadgen

import (
	"context"
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

	open   atomic.Int64
	opened atomic.Int64 // since the start of the run
	lowest atomic.Int64 // of open, since markStep
	// gone is the reason why no connection is left: the last one closed and a
	// new one could not be opened. Nil while there is one, or hope of one.
	gone atomic.Pointer[error]
	last atomic.Pointer[error] // last failure to dial, until a dial succeeds

	mu    sync.Mutex
	conns map[*countedConn]struct{} // open
}

func newDialer(address string, wanted int, timeout time.Duration) *dialer {
	return &dialer{address: address, wanted: wanted, timeout: timeout, conns: map[*countedConn]struct{}{}}
}

// dial opens one connection. onClose, if any, runs once when it is closed from
// either the caller or the library that holds it.
func (d *dialer) dial(ctx context.Context, onClose func()) (*countedConn, error) {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	var nd net.Dialer
	raw, err := nd.DialContext(ctx, "tcp", d.address)
	if err != nil {
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
	c := &countedConn{Conn: raw, raw: raw, d: d, onClose: onClose, lookedAt: monoNow()}
	d.mu.Lock()
	d.conns[c] = struct{}{}
	d.mu.Unlock()
	return c, nil
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
	d.mu.Unlock()
	n := d.open.Add(-1)
	for low := d.lowest.Load(); n < low; low = d.lowest.Load() {
		if d.lowest.CompareAndSwap(low, n) {
			return
		}
	}
}

// countedConn tells its dialer once when it is closed.
type countedConn struct {
	net.Conn
	raw     net.Conn // the socket
	d       *dialer
	onClose func()
	once    sync.Once

	heldUs, lookedAt int64 // of unsentOf
}

func (c *countedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.d.closed(c)
		if c.onClose != nil {
			c.onClose()
		}
	})
	return err
}
