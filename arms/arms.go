// Package arms serves the reference arms: small services whose work is known,
// which demos, tests and benchmarks put under a ladder. It answers requests
// and asserts nothing about load; how much came in is the driver's to know.
//
//	rest-h1      JSON over HTTP/1.1, net/http
//	rest-h2c     JSON over cleartext HTTP/2 with prior knowledge, net/http
//	grpc-unary   protobuf, grpc-go, Echo.SayHello
//	grpc-stream  protobuf, grpc-go, Echo.Chat
//	loop         JSON over HTTP/1.1, one epoll thread and named workers (package loop)
//	null-h1, null-h2c, null-grpc
//	             the same transports, answering the request's own bytes without decoding them
//
// REST arms answer POST /echo and GET /healthz. The gRPC modes, null-grpc too,
// serve both methods of Echo: grpc-unary and grpc-stream are one server under
// the names of the two ways to drive it.
package arms

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/rungprof/rung/arms/echo"
	"github.com/rungprof/rung/arms/loop"
)

// Mode names an arm.
type Mode string

const (
	RestH1     Mode = "rest-h1"
	RestH2C    Mode = "rest-h2c"
	GRPCUnary  Mode = "grpc-unary"
	GRPCStream Mode = "grpc-stream"
	Loop       Mode = "loop"
	NullH1     Mode = "null-h1"
	NullH2C    Mode = "null-h2c"
	NullGRPC   Mode = "null-grpc"
)

// Modes lists every mode, in the order of the package comment.
func Modes() []Mode {
	return []Mode{RestH1, RestH2C, GRPCUnary, GRPCStream, Loop, NullH1, NullH2C, NullGRPC}
}

// ParseMode reads a mode's name as it stands in flags and plans.
func ParseMode(name string) (Mode, error) {
	if mode := Mode(name); slices.Contains(Modes(), mode) {
		return mode, nil
	}
	var names []string
	for _, m := range Modes() {
		names = append(names, string(m))
	}
	return "", fmt.Errorf("unknown mode %q: it is one of %s", name, strings.Join(names, ", "))
}

// decodes says whether the mode decodes its requests at all.
func (m Mode) decodes() bool { return m != NullH1 && m != NullH2C && m != NullGRPC }

// Config is an arm. The zero value of a number is its default.
type Config struct {
	Mode        Mode
	Listen      string        // HOST:PORT; port 0 takes a free one
	CodecPasses int           // see package echo; default 1, and 1 for the null modes
	Plant       time.Duration // CPU burnt per request in planted.Burn; none by default, none in the null modes
	Workers     int           // loop only; default loop.DefaultWorkers
	LockHold    time.Duration // loop only: see loop.Config
	Downstream  time.Duration // loop only: see loop.Config
}

// Validate names the first field that does not fit, or does not fit the mode.
func (c Config) Validate() error {
	if _, err := ParseMode(string(c.Mode)); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(c.Listen); err != nil {
		return fmt.Errorf("listen address %q: it must be HOST:PORT, for example 127.0.0.1:0: %w", c.Listen, err)
	}
	if err := c.echo().Validate(); err != nil {
		return err
	}
	if !c.Mode.decodes() && (c.echo().CodecPasses != 1 || c.Plant != 0) {
		return fmt.Errorf("mode %s answers without decoding: codec passes and planted CPU do not apply to it", c.Mode)
	}
	if c.Mode != Loop {
		if c.Workers != 0 || c.LockHold != 0 || c.Downstream != 0 {
			return fmt.Errorf("workers, lock hold and downstream apply to mode %s only, not to %s", Loop, c.Mode)
		}
		return nil
	}
	return c.loop().Validate()
}

func (c Config) echo() echo.Config {
	if c.CodecPasses == 0 {
		c.CodecPasses = 1
	}
	return echo.Config{CodecPasses: c.CodecPasses, Plant: c.Plant}
}

func (c Config) loop() loop.Config {
	if c.Workers == 0 {
		c.Workers = loop.DefaultWorkers
	}
	return loop.Config{Workers: c.Workers, LockHold: c.LockHold, Downstream: c.Downstream}
}

// Server is an arm that serves. Its methods may be called at the same time.
type Server struct {
	addr string
	done chan struct{} // closed once err is set: nothing is served any more
	err  error
	stop func(context.Context) error
}

// backend is one transport over a listener it owns.
type backend interface {
	// serve returns when stop was called (nil) or when serving failed.
	serve() error
	// stop lets requests in flight end until the context is done, then cuts
	// them off.
	stop(context.Context) error
}

// Start listens and serves until Stop. Mode loop raises GOMAXPROCS of the whole
// process: see loop.Start.
func Start(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	service, err := echo.New(c.echo())
	if err != nil {
		return nil, err
	}
	listener, err := listen(c.Listen)
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	back, err := newBackend(c, service, listener)
	if err != nil {
		listener.Close()
		return nil, err
	}
	s := &Server{addr: addr, done: make(chan struct{}), stop: back.stop}
	go func() {
		s.err = back.serve()
		close(s.done)
	}()
	return s, nil
}

func newBackend(c Config, service *echo.Service, listener *net.TCPListener) (backend, error) {
	switch c.Mode {
	case RestH1, RestH2C:
		return newREST(c.Mode == RestH2C, echoHandler(service), listener), nil
	case NullH1, NullH2C:
		return newREST(c.Mode == NullH2C, nullHandler(), listener), nil
	case GRPCUnary, GRPCStream:
		return newGRPC(service, listener), nil
	case NullGRPC:
		return newNullGRPC(listener), nil
	case Loop:
		return newLoop(c.loop(), service, listener)
	}
	return nil, fmt.Errorf("mode %q has no server", c.Mode)
}

// Addr is where the arm listens, with the port it got.
func (s *Server) Addr() string { return s.addr }

// Done is closed when the arm no longer serves, after Stop or on its own.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err is why the arm stopped serving on its own; nil while it serves and after
// Stop.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop closes the listener, lets requests in flight end until ctx is done, then
// cuts them off. It does not wait beyond that for a request that sleeps on
// without a connection, as those of the loop can; Done tells its end.
func (s *Server) Stop(ctx context.Context) error {
	if err := s.stop(ctx); err != nil {
		return err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return nil
}
