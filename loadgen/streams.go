package loadgen

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// streams carries requests as messages of bidi streams: the k-th message back on
// a stream answers the k-th sent on it. Each stream has one sender and one
// receiver goroutine.
type streams struct {
	*channels
	lanes   []*lane
	next    atomic.Uint32 // round robin over lanes
	sink    sink
	timeout time.Duration
	method  string
	body    any
	length  int
	wg      sync.WaitGroup
	cancel  context.CancelFunc
}

// lane is the place of one stream; a stream that breaks is opened again in it.
type lane struct {
	index int
	conn  *grpc.ClientConn
	share int32        // messages in flight at most
	used  atomic.Int32 // slots taken
	// work has room for share and for the request without a tally that ends the
	// sender, so that submit never blocks.
	work chan request
	*link[stream]
}

func newStreams(c Config, d *dialer) (*streams, error) {
	ch, err := newChannels(c, d)
	if err != nil {
		return nil, err
	}
	e := &streams{channels: ch, timeout: c.Timeout, method: c.Method, body: rawBody(c.Body), length: c.ReplyLength}
	share := (c.MaxInFlight + c.Streams - 1) / c.Streams
	for i := range c.Streams {
		l := &lane{index: i, conn: ch.conns[i%len(ch.conns)], share: int32(share), work: make(chan request, 2*share)}
		l.link = newLink(func(ctx context.Context) (*stream, error) { return e.open(ctx, l) })
		e.lanes = append(e.lanes, l)
	}
	return e, nil
}

func (e *streams) connect(ctx context.Context) error {
	if err := e.channels.connect(ctx); err != nil {
		return err
	}
	return forAll(len(e.lanes), func(i int) error { return e.lanes[i].ensure(ctx) })
}

var chat = grpc.StreamDesc{StreamName: "Chat", ClientStreams: true, ServerStreams: true}

func (e *streams) open(ctx context.Context, l *lane) (*stream, error) {
	if state := l.conn.GetState(); state != connectivity.Ready {
		return nil, fmt.Errorf("open stream %d: its connection is %s", l.index, state)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cs, err := l.conn.NewStream(ctx, &chat, e.method)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("open stream %d: %w", l.index, err)
	}
	st := newStream(cs, cancel, int(l.share))
	e.wg.Go(func() { e.receive(l, st) })
	return st, nil
}

func (e *streams) start(s sink) {
	e.sink = s
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.channels.maintain(ctx, &e.wg)
	for _, l := range e.lanes {
		e.wg.Go(func() { e.send(l) })
		e.wg.Go(func() { l.maintain(ctx) })
	}
	e.wg.Go(func() { sweep(ctx, e.timeout, e.expire) })
}

// submit gives r to the next stream in turn that is open and has room. It looks
// at each stream once at most.
func (e *streams) submit(r request) {
	first := e.next.Add(1)
	anyOpen := false
	for i := range uint32(len(e.lanes)) {
		l := e.lanes[(first+i)%uint32(len(e.lanes))]
		if l.get() == nil {
			continue
		}
		anyOpen = true
		if l.used.Add(1) <= l.share {
			l.work <- r
			return
		}
		l.used.Add(-1)
	}
	o := outcome{class: notConnected}
	if anyOpen {
		o = outcome{deferred, whyStreamFull}
	}
	e.sink.record(r, int(first), o, monoNow())
	e.sink.release(r)
}

// send writes the messages of a lane. It blocks while the stream's window is
// closed, which keeps the scheduler free to count on.
func (e *streams) send(l *lane) {
	for r := range l.work {
		if r.tally == nil {
			return
		}
		st := l.get()
		switch now := monoNow(); {
		case st == nil:
			e.drop(l, r, outcome{class: notConnected}, now)
		case now-r.started > int64(e.timeout):
			e.drop(l, r, outcome{deferred, whyFlowControl}, now)
		case !st.push(r):
			l.lost(st)
			e.drop(l, r, outcome{class: notConnected}, now)
		default:
			if err := st.SendMsg(e.body); err != nil {
				// The receiver meets the reason and fails what is in flight.
				st.cancel()
			}
		}
	}
}

func (e *streams) drop(l *lane, r request, o outcome, at int64) {
	e.sink.record(r, l.index, o, at)
	e.release(l, r)
}

func (e *streams) release(l *lane, r request) {
	l.used.Add(-1)
	e.sink.release(r)
}

// receive reads the replies of one stream until it breaks.
func (e *streams) receive(l *lane, st *stream) {
	n := 0
	into := any(&n)
	var err error
	for {
		if err = st.RecvMsg(into); err != nil {
			break
		}
		at := monoNow()
		if st.awaitsProbe() {
			st.probe <- n
			continue
		}
		m, ok := st.pop()
		if !ok {
			err = errExtraReply
			break
		}
		if !m.expired {
			e.sink.record(m.request, l.index, e.judge(n), at)
		}
		e.release(l, m.request)
	}
	st.cancel()
	o := outcome{failed, kindExtra}
	if !errors.Is(err, errExtraReply) {
		o = outcome{failed, grpcKind(err)}
	}
	at := monoNow()
	for _, m := range st.fail(err) {
		if !m.expired {
			e.sink.record(m.request, l.index, o, at)
		}
		e.release(l, m.request)
	}
	l.lost(st)
}

var errExtraReply = errors.New("the service answered a message that was not sent")

func (e *streams) judge(n int) outcome {
	if e.length > 0 && n != e.length {
		return outcome{failedAnswer, kindBadBody}
	}
	return outcome{class: delivered}
}

// expire counts overdue messages as timed out. They keep their place and their
// slot until the reply comes or the stream breaks: a stream cannot take a
// message back.
func (e *streams) expire(now int64) {
	for _, l := range e.lanes {
		if st := l.get(); st != nil {
			for _, r := range st.overdue(now - int64(e.timeout)) {
				e.sink.record(r, l.index, outcome{failed, kindTimeout}, now)
			}
		}
	}
}

// preflight sends one message on each stream and waits for its reply.
func (e *streams) preflight(ctx context.Context) error {
	return forAll(len(e.lanes), func(i int) error {
		o := e.probe(ctx, e.lanes[i])
		if o.class != delivered {
			return &preflightError{connection: i, of: len(e.lanes), stream: true, outcome: o}
		}
		return nil
	})
}

func (e *streams) probe(ctx context.Context, l *lane) outcome {
	st := l.get()
	if st == nil {
		return outcome{class: notConnected}
	}
	done := st.startProbe()
	if err := st.SendMsg(e.body); err != nil {
		st.cancel()
	}
	select {
	case n := <-st.probe:
		return e.judge(n)
	case <-done:
		return outcome{grpcClass(st.err), grpcKind(st.err)}
	case <-ctx.Done():
	case <-time.After(e.timeout):
	}
	return outcome{failed, kindTimeout}
}

func (e *streams) close() {
	for _, l := range e.lanes {
		l.work <- request{}
	}
	if e.cancel != nil {
		e.cancel()
	}
	for _, l := range e.lanes {
		if st := l.get(); st != nil {
			st.cancel()
		}
	}
	e.channels.close()
	e.wg.Wait()
}
