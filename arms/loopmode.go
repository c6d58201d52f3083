package arms

import (
	"context"
	"net"

	"github.com/rungprof/rung/arms/echo"
	"github.com/rungprof/rung/arms/loop"
)

// loopBackend is package loop behind the same two verbs as the others.
type loopBackend struct{ server *loop.Server }

func newLoop(c loop.Config, service *echo.Service, listener *net.TCPListener) (*loopBackend, error) {
	server, err := loop.Start(listener, c, service.JSON)
	if err != nil {
		return nil, err
	}
	return &loopBackend{server: server}, nil
}

func (l *loopBackend) serve() error { return l.server.Wait() }

func (l *loopBackend) stop(ctx context.Context) error {
	l.server.Stop(ctx)
	return nil
}
