package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// service is an echo server of one protocol inside the test, whose behaviour a
// test can change while it runs.
type service struct {
	protocol Protocol
	address  string
	requests atomic.Int64

	delay  atomic.Int64 // ns per request
	after  atomic.Int64 // the request at whose arrival then is called
	then   func()
	keep   atomic.Bool  // the bodies
	fail   atomic.Int64 // of each so many requests, one fails
	frozen atomic.Pointer[chan struct{}]

	http     *http.Server
	grpc     *grpc.Server
	mu       sync.Mutex
	headers  map[string][]string
	bodies   []string
	accepted []net.Conn
}

func startService(t testing.TB, p Protocol, address string) *service {
	t.Helper()
	return startServiceTLS(t, p, address, nil)
}

// serviceStreams is how many streams the service takes at once on a connection.
const serviceStreams = 20

func startServiceTLS(t testing.TB, p Protocol, address string, secure *tls.Config) *service {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &service{protocol: p, address: ln.Addr().String()}
	ln = noting{ln, s}
	switch p {
	case RestH1, RestH2C:
		var protocols http.Protocols
		protocols.SetHTTP1(p == RestH1)
		protocols.SetUnencryptedHTTP2(p == RestH2C)
		s.http = &http.Server{Handler: s, Protocols: &protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: serviceStreams}, TLSConfig: secure}
		if secure == nil {
			go func() { _ = s.http.Serve(ln) }()
			break
		}
		s.http.ErrorLog = log.New(io.Discard, "", 0)
		protocols.SetHTTP2(p == RestH2C)
		go func() { _ = s.http.ServeTLS(ln, "", "") }()
	default:
		options := []grpc.ServerOption{grpc.ForceServerCodecV2(bytesCodec{}), grpc.UnknownServiceHandler(s.stream), grpc.MaxConcurrentStreams(serviceStreams)}
		if secure != nil {
			options = append(options, grpc.Creds(credentials.NewTLS(secure)))
		}
		s.grpc = grpc.NewServer(options...)
		go func() { _ = s.grpc.Serve(ln) }()
	}
	t.Cleanup(s.kill)
	return s
}

// noting keeps the accepted connections, for tests that cut them.
type noting struct {
	net.Listener
	s *service
}

func (l noting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.s.mu.Lock()
		l.s.accepted = append(l.s.accepted, c)
		l.s.mu.Unlock()
	}
	return c, err
}

// cut closes the first n connections as a service that drops them would.
func (s *service) cut(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.accepted[:n] {
		_ = c.Close()
	}
}

// kill ends the service: nothing listens any more.
func (s *service) kill() {
	s.thaw()
	if s.http != nil {
		_ = s.http.Close()
	}
	if s.grpc != nil {
		s.grpc.Stop()
	}
}

// freeze makes every request wait until thaw.
func (s *service) freeze() {
	c := make(chan struct{})
	s.frozen.Store(&c)
}

func (s *service) thaw() {
	if c := s.frozen.Swap(nil); c != nil {
		close(*c)
	}
}

// at calls f when the n-th request after preflight arrives. It returns a channel
// that is closed when f has ended. Set before the run.
func (s *service) at(n int, c Config, f func()) <-chan struct{} {
	done := make(chan struct{})
	s.then = func() { f(); close(done) }
	s.after.Store(int64(max(c.Connections, c.Streams) + n))
	return done
}

// turn is what happens to one request: false when it shall fail.
func (s *service) turn() bool {
	n := s.requests.Add(1)
	if n == s.after.Load() {
		go s.then()
	}
	if c := s.frozen.Load(); c != nil {
		<-*c
	}
	if d := s.delay.Load(); d > 0 {
		time.Sleep(time.Duration(d))
	}
	f := s.fail.Load()
	return f == 0 || n%f != 0
}

// header is what the last request carried under a name.
func (s *service) header(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.headers[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func (s *service) keepBody(b []byte) {
	if s.keep.Load() {
		s.mu.Lock()
		s.bodies = append(s.bodies, string(b))
		s.mu.Unlock()
	}
}

func (s *service) note(h map[string][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.headers = map[string][]string{}
	for k, v := range h {
		s.headers[strings.ToLower(k)] = v
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.note(r.Header)
	body, _ := io.ReadAll(r.Body)
	s.keepBody(body)
	if !s.turn() {
		http.Error(w, "no", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body)
}

// stream echoes messages; of a unary call it sees one.
func (s *service) stream(_ any, ss grpc.ServerStream) error {
	if md, ok := metadata.FromIncomingContext(ss.Context()); ok {
		s.note(md)
	}
	for {
		var m []byte
		if err := ss.RecvMsg(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		s.keepBody(m)
		if !s.turn() {
			return status.Error(codes.ResourceExhausted, "no")
		}
		if err := ss.SendMsg(m); err != nil {
			return err
		}
		switch s.protocol {
		case GRPCUnary:
			return nil
		case GRPCServerStream:
			// Two more, the last of which ends the answer.
			for range 2 {
				if err := ss.SendMsg(m); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

type bytesCodec struct{}

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

func (bytesCodec) Name() string { return "proto" }

// testConfig is a small run against a service.
func testConfig(s *service, steps ...Step) Config {
	c := Config{
		Run: "run", Arm: "arm", Protocol: s.protocol, Address: s.address,
		Path: "/echo", Method: "/echo.Echo/Any", Body: []byte("sixteen bytes ..")[:16], ReplyLength: 16,
		Connections: 2, Timeout: time.Second, Drain: time.Second,
		Settle: 50 * time.Millisecond, Gap: 10 * time.Millisecond, Lead: MinLead, Steps: steps,
	}
	if s.protocol == GRPCStream {
		c.Streams = 4
	}
	if s.protocol != RestH1 {
		c.MaxInFlight = 32
	} else {
		c.Connections = 4
	}
	return c
}

// runSteps runs to the end and returns what it made, each step checked.
func runSteps(t testing.TB, c Config, h Hooks) []Outcome {
	t.Helper()
	outs, _, err := tryRun(t, c, h)
	if err != nil {
		t.Fatal(err)
	}
	return outs
}

func tryRun(t testing.TB, c Config, h Hooks) ([]Outcome, Summary, error) {
	t.Helper()
	var outs []Outcome
	h.StepDone = func(o Outcome) error {
		outs = append(outs, o)
		return nil
	}
	sum, err := Run(context.Background(), c, h)
	for _, o := range outs {
		if err := o.Result.Check(); err != nil {
			t.Errorf("step %s: %v", o.Result.Name, err)
		}
	}
	return outs, sum, err
}

func eachProtocol(t *testing.T, f func(t *testing.T, p Protocol)) {
	for _, p := range Protocols() {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel() // tests wait more than they work
			f(t, p)
		})
	}
}
