package loop

import (
	"net/http"
	"time"
)

// worker answers requests, one at a time, on a thread of its own.
type worker struct {
	index    int
	hub      *hub
	handle   Handler
	lock     *mutex // the one all workers share
	lockHold time.Duration
	asked    *downstream
	date     date
}

// run blocks in futex while there is nothing to do, until the queue closes.
func (w *worker) run() {
	for c := w.hub.jobs.pop(); c != nil; c = w.hub.jobs.pop() {
		r := w.answer(&c.req)
		r.close = r.close || c.req.close
		r.head = c.req.method == http.MethodHead
		c.out = appendReply(c.out[:0], r, w.date.now())
		c.closeAfter = r.close
		c.req = request{}
		w.hub.answer(c)
	}
}

func (w *worker) answer(req *request) reply {
	switch req.path {
	case "/echo":
		if req.method != http.MethodPost {
			return wrongMethod(http.MethodPost)
		}
		return w.echo(req.body)
	case "/healthz":
		if req.method != http.MethodGet && req.method != http.MethodHead {
			return wrongMethod(http.MethodGet + ", " + http.MethodHead)
		}
		return reply{status: http.StatusOK, body: []byte("ok\n")}
	}
	return reply{status: http.StatusNotFound, body: []byte("there is POST /echo and GET /healthz\n")}
}

func (w *worker) echo(body []byte) reply {
	if w.lockHold > 0 {
		w.holdLock()
	}
	if w.asked != nil {
		if err := w.asked.ask(w.index); err != nil {
			return reply{status: http.StatusBadGateway, body: []byte(err.Error() + "\n")}
		}
	}
	out, err := w.handle(body)
	if err != nil {
		return reply{status: http.StatusBadRequest, body: []byte(err.Error() + "\n"), close: true}
	}
	return reply{status: http.StatusOK, json: true, body: out}
}

// holdLock is the critical section: others block in futex while its holder
// sleeps in clock_nanosleep.
func (w *worker) holdLock() {
	w.lock.lock()
	sleepFor(w.lockHold)
	w.lock.unlock()
}

func wrongMethod(allow string) reply {
	return reply{status: http.StatusMethodNotAllowed, allow: allow, body: []byte("the method must be " + allow + "\n")}
}
