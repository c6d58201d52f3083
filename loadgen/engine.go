package loadgen

import (
	"context"
	"fmt"
)

// request is one request from its hand-off to its outcome. It is passed by value.
type request struct {
	intended int64 // mono ns, when the schedule wanted it sent
	started  int64 // mono ns, when it was handed to the engine
	tally    *tally
	// Of a closed loop, else zero: how many its slot sends yet, this one included,
	// and the slot's ids.
	left int
	ids  *idRange
}

// class sorts outcomes by what they mean for the counts.
type class uint8

const (
	delivered    class = iota // a good answer
	failedAnswer              // an answer, but not a good one
	failed                    // sent, no answer
	deferred                  // never sent: the protocol refused
	notConnected              // never sent: no connection
)

// outcome is how a request ended. kind names the error or the reason of a
// deferral, and is empty for the others.
type outcome struct {
	class class
	kind  string
	// conn is the connection that carried the request or was meant to, from 1 up;
	// 0 is none in particular.
	conn int
	// messages is how many came back on a call that answers with a stream.
	messages uint64
}

// on names the connection by its index from 0 up.
func (o outcome) on(conn int) outcome {
	o.conn = conn + 1
	return o
}

func (o outcome) String() string {
	switch o.class {
	case delivered:
		return "delivered"
	case deferred:
		return "deferred: " + o.kind
	case notConnected:
		return "not connected"
	}
	return o.kind
}

// sink takes outcomes from engines. Both methods are safe for concurrent use.
type sink interface {
	// record counts how r ended at instant at. shard spreads concurrent callers.
	record(r request, shard int, o outcome, at int64)
	// release gives r's slot back; it follows record, but for a request that
	// timed out and still occupies the protocol, later.
	release(r request, o outcome)
}

// finisher is an engine whose streams outlive requests and have an end of their own.
type finisher interface {
	// finish closes the client's side of all streams, waits until they ended or
	// ctx is done, and says how each did. No request may be submitted any more.
	finish(ctx context.Context) StreamEnds
}

// engine is one protocol's client. Once start was called, every request given
// to submit is recorded once and released once.
type engine interface {
	// connect opens every connection (and stream) that is not open. It tries
	// each once; an error tells that the service cannot be reached.
	connect(ctx context.Context) error
	// start makes the fixed workers that carry requests until close.
	start(s sink)
	// submit hands r over without ever blocking. The caller keeps the requests
	// in flight within the cap the engine was made for.
	submit(r request)
	// preflight exchanges one request on each connection, beside the workers.
	preflight(ctx context.Context) error
	// ended counts the streams that ended so far, by how; nil without streams
	// that outlive requests.
	ended() map[string]uint64
	// connections counts at the dialer.
	connections() *dialer
	// close drops all connections. Requests in flight fail and are recorded;
	// one submitted later may never be.
	close()
}

// newEngine makes the engine of a validated config. It does not connect.
func newEngine(c Config) (engine, error) {
	d := newDialer(c)
	switch c.Protocol {
	case RestH1:
		x, err := newHTTP1(c, d)
		if err != nil {
			return nil, err
		}
		return newUnary(c, x), nil
	case RestH2C:
		x, err := newHTTP2(c, d)
		if err != nil {
			return nil, err
		}
		return newUnary(c, x), nil
	case GRPCUnary, GRPCServerStream:
		x, err := newCalls(c, d)
		if err != nil {
			return nil, err
		}
		return newUnary(c, x), nil
	case GRPCStream:
		return newStreams(c, d)
	}
	return nil, fmt.Errorf("protocol %q: no engine", c.Protocol)
}
