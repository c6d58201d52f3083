package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
)

// StreamEnds is how the streams ended that the driver closed after the last step.
type StreamEnds struct {
	Closed uint64 `json:"closed"` // half-closed by the driver
	// By counts their ends: grpc_OK, another status, …
	By map[string]uint64 `json:"by,omitempty"`
	// StillOpen had no end when the drain was over.
	StillOpen uint64 `json:"stillOpen"`
}

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
	body    *requestBody
	rule    replyRule
	wg      sync.WaitGroup
	cancel  context.CancelFunc

	senders     sync.WaitGroup
	sendersOnce sync.Once

	endsMu sync.Mutex
	ends   map[string]uint64
}

// lane is the place of one stream; a stream that breaks is opened again in it.
type lane struct {
	index int
	conn  *channel
	ids   idRange      // of the sender
	probe idRange      // of preflight
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
	e := &streams{channels: ch, timeout: c.Timeout, method: c.Method, body: newRequestBody(c.Body, c.IDs), ends: map[string]uint64{}}
	if e.rule, err = newReplyRule(c); err != nil {
		ch.close()
		return nil, err
	}
	share := (c.MaxInFlight + c.Streams - 1) / c.Streams
	if c.InFlightPerStream > 0 {
		share = c.InFlightPerStream
	}
	for i := range c.Streams {
		l := &lane{index: i, conn: ch.conns[i%len(ch.conns)], ids: e.body.slotRange(i), probe: e.body.slotRange(c.MaxInFlight + i), share: int32(share), work: make(chan request, 2*share)}
		l.link = newLink(i, func(ctx context.Context) (*stream, error) { return e.open(ctx, l) })
		e.lanes = append(e.lanes, l)
	}
	return e, nil
}

// connect opens the streams before any load: opening one costs the service more
// than a message.
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
	if !l.conn.take() {
		return nil, &streamLimitError{stream: l.index, limit: l.conn.limit()}
	}
	living, cancel := context.WithCancel(e.ctx)
	defer context.AfterFunc(ctx, cancel)() // until it is open; a stream outlives that
	cs, err := l.conn.NewStream(living, &chat, e.method)
	if err != nil {
		cancel()
		l.conn.give()
		return nil, fmt.Errorf("open stream %d: %w", l.index, err)
	}
	st := newStream(cs, cancel, int(l.share))
	e.wg.Go(func() { e.receive(l, st) })
	return st, nil
}

// streamLimitError is a service that takes fewer streams than were asked for.
type streamLimitError struct {
	stream int
	limit  int64
}

func (e *streamLimitError) Error() string {
	return fmt.Sprintf("open stream %d: the service takes %d streams at once on a connection", e.stream, e.limit)
}

func (e *streams) start(s sink) {
	e.sink = s
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	e.channels.maintain(ctx, &e.wg)
	for _, l := range e.lanes {
		e.senders.Go(func() { e.send(l) })
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
		o = outcome{class: deferred, kind: whyStreamFull}
	}
	e.sink.record(r, int(first), o, monoNow())
	e.sink.release(r, o)
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
			e.drop(l, r, outcome{class: deferred, kind: whyFlowControl}, now)
		default:
			body, err := e.body.next(or(r.ids, &l.ids))
			if err != nil {
				e.drop(l, r, outcome{class: deferred, kind: whyNoID}, now)
				continue
			}
			if !st.push(r) {
				l.lost(st)
				e.drop(l, r, outcome{class: notConnected}, now)
				continue
			}
			if err := st.SendMsg(rawBody(body)); err != nil {
				// The receiver meets the reason and fails what is in flight.
				st.cancel()
			}
		}
	}
}

func (e *streams) drop(l *lane, r request, o outcome, at int64) {
	e.sink.record(r, l.index, o.on(l.conn.index), at)
	e.release(l, r, o)
}

func (e *streams) release(l *lane, r request, o outcome) {
	l.used.Add(-1)
	e.sink.release(r, o)
}

// receive reads the replies of one stream until it breaks.
func (e *streams) receive(l *lane, st *stream) {
	into := &reply{keep: e.rule.accept != nil}
	var err error
	for {
		if err = st.RecvMsg(into); err != nil {
			break
		}
		at := monoNow()
		if st.awaitsProbe() {
			st.probe <- e.rule.judgeMessage(into)
			continue
		}
		m, ok := st.pop()
		if !ok {
			err = errExtraReply
			break
		}
		o := e.rule.judgeMessage(into)
		if !m.expired {
			e.sink.record(m.request, l.index, o.on(l.conn.index), at)
		}
		e.release(l, m.request, o)
	}
	st.cancel()
	l.conn.give()
	o := outcome{class: failed, kind: kindExtra}
	if !errors.Is(err, errExtraReply) {
		o = outcome{class: grpcClass(err), kind: grpcKind(err)}
	}
	if errors.Is(err, io.EOF) {
		o = outcome{class: failed, kind: kindStreamEnd}
		e.noteEnd(grpcOK)
	} else {
		e.noteEnd(o.kind)
	}
	at := monoNow()
	for _, m := range st.fail(err) {
		if !m.expired {
			e.sink.record(m.request, l.index, o.on(l.conn.index), at)
		}
		e.release(l, m.request, o)
	}
	l.lost(st)
}

var errExtraReply = errors.New("the service answered a message that was not sent")

// grpcOK is how a stream ends well.
const grpcOK = "grpc_OK"

func (e *streams) noteEnd(kind string) {
	e.endsMu.Lock()
	e.ends[kind]++
	e.endsMu.Unlock()
}

func (e *streams) ended() map[string]uint64 {
	e.endsMu.Lock()
	defer e.endsMu.Unlock()
	return add(map[string]uint64{}, e.ends)
}

// expire counts overdue messages as timed out. They keep their place and their
// slot until the reply comes or the stream breaks: a stream cannot take a
// message back.
func (e *streams) expire(now int64) {
	for _, l := range e.lanes {
		if st := l.get(); st != nil {
			for _, r := range st.overdue(now - int64(e.timeout)) {
				e.sink.record(r, l.index, outcome{class: failed, kind: kindTimeout}.on(l.conn.index), now)
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
	body, err := e.body.next(&l.probe)
	if err != nil {
		return outcome{class: deferred, kind: whyNoID}
	}
	done := st.startProbe()
	if err := st.SendMsg(rawBody(body)); err != nil {
		st.cancel()
	}
	select {
	case o := <-st.probe:
		return o
	case <-done:
		if errors.Is(st.err, io.EOF) {
			return outcome{class: failed, kind: kindStreamEnd}
		}
		return outcome{class: grpcClass(st.err), kind: grpcKind(st.err)}
	case <-ctx.Done():
	case <-time.After(e.timeout):
	}
	return outcome{class: failed, kind: kindTimeout}
}

// finish half-closes every stream that is open and waits for its end, which the
// service should give as OK.
func (e *streams) finish(ctx context.Context) StreamEnds {
	before := e.ended()
	stopped := make(chan struct{})
	go func() {
		e.stopSending()
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-ctx.Done(): // a window stayed closed; none of the streams below is half-closed
	}
	var open []*stream
	for _, l := range e.lanes {
		l.retire()
		if st := l.get(); st != nil {
			open = append(open, st)
			if ctx.Err() == nil {
				_ = st.CloseSend()
			}
		}
	}
	ends := StreamEnds{Closed: uint64(len(open))}
	for _, st := range open {
		select {
		case <-st.done:
		case <-ctx.Done():
			select {
			case <-st.done:
			default:
				ends.StillOpen++
			}
		}
	}
	ends.By = newly(before, e.ended())
	return ends
}

// stopSending ends the senders, so that a stream can be half-closed: sending on
// it at the same time is an error of the client. Once only.
func (e *streams) stopSending() {
	e.sendersOnce.Do(func() {
		for _, l := range e.lanes {
			l.work <- request{}
		}
		e.senders.Wait()
	})
}

func (e *streams) close() {
	for _, l := range e.lanes {
		l.retire()
	}
	if e.cancel != nil {
		e.cancel()
	}
	for _, l := range e.lanes {
		if st := l.get(); st != nil {
			st.cancel()
		}
	}
	// Cancelled streams let go of senders that wait for a window.
	e.stopSending()
	e.channels.close()
	e.wg.Wait()
}
