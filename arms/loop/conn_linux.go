package loop

import "golang.org/x/sys/unix"

// conn is one connection. It belongs to the loop thread, except while its
// phase is working: then req, in, out and closeAfter belong to a worker.
//
// It has at most one request in flight, so pipelined requests are answered in
// their order and wait in the input buffer, or in the socket's once that is
// full: what a client can make the loop hold is bounded.
type conn struct {
	fd    int
	phase phase

	in         []byte // in[start:end] is received and not parsed
	start, end int
	req        request

	out        []byte // out[sent:] is to be written
	sent       int
	closeAfter bool // nothing follows the reply in out

	readable  bool // there may be something to read: edges come once
	ending    bool // the peer closed its side, or the connection is broken
	discarded int  // bytes thrown away while lingering
}

type phase int

const (
	reading   phase = iota // collecting a request
	working                // with a worker
	writing                // sending the reply
	lingering              // both done; waiting for the client to close
)

const (
	firstBufferBytes = 4 << 10
	maxBufferBytes   = maxHeadBytes + maxBodyBytes
	// maxLingerBytes is how much a client may still send after its last reply.
	// Closing with unread input would reset the connection, and could destroy
	// the reply before the client has read it.
	maxLingerBytes = 256 << 10
)

// advance takes a connection as far as it goes without blocking.
func (r *reactor) advance(c *conn) {
	for {
		more := false
		switch c.phase {
		case reading:
			more = r.read(c)
		case writing:
			more = r.write(c)
		case lingering:
			more = r.linger(c)
		}
		if !more {
			return
		}
	}
}

// read parses what is there, or else receives more; false when there is
// nothing to do until the next event.
func (r *reactor) read(c *conn) bool {
	req, length, err := parse(c.in[c.start:c.end])
	if err != nil {
		bad := err.(*badRequest) // parse has no other errors
		c.out = appendReply(c.out[:0], reply{status: bad.status, body: []byte(bad.why + "\n"), close: true}, r.date.now())
		c.closeAfter, c.phase = true, writing
		return true
	}
	if length > 0 {
		c.start += length
		c.req, c.closeAfter, c.phase = req, req.close, working
		r.hub.jobs.push(c)
		return false
	}
	if !c.readable {
		return false
	}
	c.makeRoom()
	n, err := receive(c, c.in[c.end:])
	switch {
	case err == unix.EAGAIN:
		return false
	case err != nil || n == 0:
		r.close(c) // broken, or closed by the client, perhaps in mid-request
		return false
	}
	c.end += n
	return true
}

// makeRoom moves or grows the input buffer so that something can be received.
// A request that does not fit maxBufferBytes has been refused before it fills
// them.
func (c *conn) makeRoom() {
	if c.start == c.end {
		c.start, c.end = 0, 0
	}
	if c.end < len(c.in) {
		return
	}
	if c.start > 0 {
		c.end = copy(c.in, c.in[c.start:c.end])
		c.start = 0
		return
	}
	larger := make([]byte, min(max(firstBufferBytes, 2*len(c.in)), maxBufferBytes))
	copy(larger, c.in[:c.end])
	c.in = larger
}

// write sends the reply; false when the socket is full or the connection gone.
func (r *reactor) write(c *conn) bool {
	for c.sent < len(c.out) {
		n, err := unix.Write(c.fd, c.out[c.sent:])
		switch err {
		case nil:
			c.sent += n
		case unix.EINTR:
		case unix.EAGAIN:
			return false
		default:
			r.close(c)
			return false
		}
	}
	switch {
	case r.hub.stopping.Load() != stopNot && !c.closeAfter:
		r.close(c)
		return false
	case c.closeAfter:
		unix.Shutdown(c.fd, unix.SHUT_WR)
		c.phase = lingering
	default:
		c.phase = reading
	}
	c.out, c.sent = c.out[:0], 0
	return true
}

// linger throws input away until the client closes.
func (r *reactor) linger(c *conn) bool {
	if !c.readable {
		return false
	}
	if len(c.in) == 0 {
		c.makeRoom()
	}
	n, err := receive(c, c.in)
	c.discarded += n
	if err == unix.EAGAIN {
		return false
	}
	if err != nil || n == 0 || c.discarded > maxLingerBytes {
		r.close(c)
		return false
	}
	return true
}

// receive reads once and notes when there is nothing more: after EAGAIN, or
// when less came than there was room for (epoll(7), edge-triggered use). The
// latter does not hold for the end of the stream, whose edge may have come
// together with the last bytes'.
func receive(c *conn, into []byte) (int, error) {
	n, err := retryInterrupted(func() (int, error) { return unix.Read(c.fd, into) })
	if err != nil {
		n = 0
	}
	if err == unix.EAGAIN || err == nil && n < len(into) && !c.ending {
		c.readable = false
	}
	return n, err
}
