package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// hostile is a server by hand: it answers well but for the request that bad is
// asked about, on each connection.
type hostile struct {
	address  string
	requests atomic.Int64
	conns    atomic.Int64
}

func startHostile(t *testing.T, serve func(h *hostile, c net.Conn)) *hostile {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	h := &hostile{address: ln.Addr().String()}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			h.conns.Add(1)
			go func() {
				defer c.Close()
				serve(h, c)
			}()
		}
	}()
	return h
}

func (h *hostile) config(p Protocol) Config {
	c := testConfig(&service{protocol: p, address: h.address}, Step{Index: 1, OfferedHz: 200, Duration: 600 * time.Millisecond})
	c.Timeout, c.Drain = 200*time.Millisecond, 500*time.Millisecond
	return c
}

// hang keeps a connection as it is until the client closes it.
func hang(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

const goodH1 = "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\nsixteen bytes .."

// serveH1 answers well, and the every-th request on each connection by bad, after
// which the connection is left.
func serveH1(every int, bad func(c net.Conn)) func(*hostile, net.Conn) {
	return func(h *hostile, c net.Conn) {
		r := bufio.NewReader(c)
		for n := 1; ; n++ {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			h.requests.Add(1)
			if n == every {
				bad(c)
				return
			}
			if _, err := io.WriteString(c, goodH1); err != nil {
				return
			}
		}
	}
}

// Whatever an HTTP/1.1 service does to one connection costs that request, which is
// counted by kind; the others go on, and the connection is opened again.
func TestHostileHTTP1(t *testing.T) {
	for name, tc := range map[string]struct {
		bad  func(net.Conn)
		kind string
	}{
		"resets":           {reset, kindReset},
		"resets mid-reply": {func(c net.Conn) { _, _ = io.WriteString(c, goodH1[:40]); reset(c) }, kindReset},
		"stalls mid-reply": {func(c net.Conn) { _, _ = io.WriteString(c, goodH1[:40]); hang(c) }, kindTimeout},
		"stalls mid-head":  {func(c net.Conn) { _, _ = io.WriteString(c, goodH1[:12]); hang(c) }, kindTimeout},
		"closes half": {func(c net.Conn) {
			_, _ = io.WriteString(c, goodH1[:40])
			_ = c.(*net.TCPConn).CloseWrite()
			hang(c)
		}, kindReset},
		"garbage": {func(c net.Conn) {
			_, _ = io.CopyN(c, rand.Reader, 4096)
			_, _ = io.WriteString(c, "\n\n")
			hang(c)
		}, kindOther},
		"an endless head": {func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for err := error(nil); err == nil; {
				_, err = io.WriteString(c, "X-More: "+strings.Repeat("x", 1000)+"\r\n")
			}
		}, kindTooLong},
		"nothing but a status": {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n"); hang(c) }, kindTimeout},
		"a wrong length":       {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno"); hang(c) }, kindBadBody},
		"two replies":          {func(c net.Conn) { _, _ = io.WriteString(c, goodH1+goodH1); hang(c) }, ""},
		"an interim reply":     {func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"+goodH1); hang(c) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHostile(t, serveH1(6, tc.bad))
			began := time.Now()
			r := runSteps(t, h.config(RestH1), Hooks{})[0].Result
			checkHostile(t, r, began)
			if tc.kind == "" && (total(r.Errors) != r.Errors[kindTimeout] || r.Errors[kindOther] != 0) {
				t.Errorf("errors %v", r.Errors)
			}
			// Behind an answer that leaves the connection good the server says no more.
			if tc.kind != "" && (r.Errors[tc.kind] == 0 || r.Errors[tc.kind]+r.Errors[kindTimeout] < total(r.Errors)) {
				t.Errorf("errors %v, want %s", r.Errors, tc.kind)
			}
			if h.conns.Load() <= 4 {
				t.Errorf("%d connections in all: none was opened again", h.conns.Load())
			}
		})
	}
}

// checkHostile is what holds whatever the service does.
func checkHostile(t *testing.T, r StepResult, began time.Time) {
	t.Helper()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if r.Void != "" || r.Scheduled != 120 || r.Delivered == 0 {
		t.Errorf("void %q, scheduled %d, delivered %d", r.Void, r.Scheduled, r.Delivered)
	}
}

// h2server speaks HTTP/2 by hand on one connection.
type h2server struct {
	h    *hostile
	c    net.Conn
	fr   *xhttp2.Framer
	grpc bool
	head bytes.Buffer
	enc  *hpack.Encoder
}

func (s *h2server) headers(stream uint32, end bool, fields ...string) {
	s.head.Reset()
	for i := 0; i < len(fields); i += 2 {
		_ = s.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	_ = s.fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: stream, BlockFragment: s.head.Bytes(), EndHeaders: true, EndStream: end})
}

var goodMessage = append([]byte{0, 0, 0, 0, 16}, "sixteen bytes .."...)

func (s *h2server) good(stream uint32) {
	if !s.grpc {
		s.headers(stream, false, ":status", "200", "content-length", "16")
		_ = s.fr.WriteData(stream, true, []byte("sixteen bytes .."))
		return
	}
	s.headers(stream, false, ":status", "200", "content-type", "application/grpc")
	_ = s.fr.WriteData(stream, false, goodMessage)
	s.headers(stream, true, "grpc-status", "0")
}

// serveH2 answers whole requests well, and the every-th on each connection by bad,
// which says whether the connection goes on.
func serveH2(grpc bool, every int, bad func(s *h2server, stream uint32) bool) func(*hostile, net.Conn) {
	return func(h *hostile, c net.Conn) {
		preface := make([]byte, len(xhttp2.ClientPreface))
		if _, err := io.ReadFull(c, preface); err != nil {
			return
		}
		s := &h2server{h: h, c: c, fr: xhttp2.NewFramer(c, c), grpc: grpc}
		s.enc = hpack.NewEncoder(&s.head)
		_ = s.fr.WriteSettings()
		n := 0
		for {
			f, err := s.fr.ReadFrame()
			if err != nil {
				return
			}
			ended := false
			switch f := f.(type) {
			case *xhttp2.SettingsFrame:
				if !f.IsAck() {
					_ = s.fr.WriteSettingsAck()
				}
			case *xhttp2.PingFrame:
				if !f.IsAck() {
					_ = s.fr.WritePing(true, f.Data)
				}
			case *xhttp2.HeadersFrame:
				ended = f.StreamEnded()
			case *xhttp2.DataFrame:
				ended = f.StreamEnded()
				if f.Length > 0 {
					_ = s.fr.WriteWindowUpdate(0, f.Length)
				}
			}
			if !ended {
				continue
			}
			h.requests.Add(1)
			if n++; n%every == 0 {
				if !bad(s, f.Header().StreamID) {
					return
				}
				continue
			}
			s.good(f.Header().StreamID)
		}
	}
}

// The same for HTTP/2, as REST and as gRPC.
func TestHostileHTTP2(t *testing.T) {
	for name, tc := range map[string]struct {
		every int
		bad   func(s *h2server, stream uint32) bool
		rest  string // kinds of error, "" for none but what a lost connection costs
		grpc  string
		check func(t *testing.T, r StepResult)
	}{
		"resets a stream": {10, func(s *h2server, stream uint32) bool {
			_ = s.fr.WriteRSTStream(stream, xhttp2.ErrCodeInternal)
			return true
		}, kindReset, "grpc_INTERNAL", func(t *testing.T, r StepResult) {
			if r.HTTP2.Resets["INTERNAL_ERROR"] == 0 || r.ConnectionsOpen != r.ConnectionsWanted {
				t.Errorf("%+v, %d connections", r.HTTP2, r.ConnectionsOpen)
			}
		}},
		"resets the connection": {10, func(s *h2server, _ uint32) bool { reset(s.c); return false }, kindReset, "grpc_UNAVAILABLE", nil},
		"closes half": {10, func(s *h2server, _ uint32) bool {
			_ = s.c.(*net.TCPConn).CloseWrite()
			hang(s.c)
			return false
		}, kindReset, "grpc_UNAVAILABLE", nil},
		"stalls mid-frame": {10, func(s *h2server, stream uint32) bool {
			_, _ = s.c.Write([]byte{0, 0, 100, byte(xhttp2.FrameData), 0, 0, 0, 0, byte(stream), 'x'})
			hang(s.c)
			return false
		}, kindTimeout, kindTimeout, nil},
		"garbage": {10, func(s *h2server, _ uint32) bool {
			_, _ = s.c.Write(bytes.Repeat([]byte{0xff}, 4096))
			hang(s.c)
			return false
		}, "any", "any", nil},
		"GOAWAY every 20 streams": {20, func(s *h2server, stream uint32) bool {
			s.good(stream)
			_ = s.fr.WriteGoAway(stream, xhttp2.ErrCodeNo, nil)
			return true // and waits for the client to leave
		}, "", "", func(t *testing.T, r StepResult) {
			if r.HTTP2.GoAways < 2 || r.Delivered < 60 {
				t.Errorf("%+v, delivered %d", r.HTTP2, r.Delivered)
			}
		}},
		"zero windows": {10, func(s *h2server, stream uint32) bool {
			s.good(stream)
			_ = s.fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0})
			return true
		}, kindTimeout, kindTimeout, func(t *testing.T, r StepResult) {
			if r.HTTP2.StreamStalls == 0 || r.HTTP2.StreamStallNs < 100e6 || r.HTTP2.InitialWindowBytes != 0 {
				t.Errorf("%+v", r.HTTP2)
			}
		}},
		"a wrong content type": {10, func(s *h2server, stream uint32) bool {
			s.headers(stream, false, ":status", "200", "content-type", "text/html")
			_ = s.fr.WriteData(stream, true, []byte("<html>no, no</html>"))
			return true
		}, kindBadBody, "grpc_UNKNOWN", nil},
		"an HTTP error": {10, func(s *h2server, stream uint32) bool {
			s.headers(stream, true, ":status", "503")
			return true
		}, "status_503", "grpc_UNAVAILABLE", nil},
		"a status in the headers only": {10, func(s *h2server, stream uint32) bool {
			s.headers(stream, false, ":status", "200", "content-type", "application/grpc", "grpc-status", "0")
			_ = s.fr.WriteData(stream, true, goodMessage)
			return true
		}, kindBadBody, "any", nil},
		"a status and no message": {10, func(s *h2server, stream uint32) bool {
			s.headers(stream, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "0")
			return true
		}, kindBadBody, "any", nil},
		"a message of 1 GiB": {10, func(s *h2server, stream uint32) bool {
			s.headers(stream, false, ":status", "200", "content-type", "application/grpc", "content-length", "1073741829")
			_ = s.fr.WriteData(stream, false, []byte{0, 0x40, 0, 0, 0, 1, 2, 3})
			return true
		}, kindTimeout, "grpc_RESOURCE_EXHAUSTED", nil},
	} {
		for _, p := range []Protocol{RestH2C, GRPCUnary, GRPCServerStream} {
			t.Run(name+"/"+string(p), func(t *testing.T) {
				t.Parallel()
				h := startHostile(t, serveH2(p.gRPC(), tc.every, tc.bad))
				began := time.Now()
				r := runSteps(t, h.config(p), Hooks{})[0].Result
				checkHostile(t, r, began)
				want := tc.rest
				if p.gRPC() {
					want = tc.grpc
				}
				if p == GRPCServerStream && name == "a status and no message" {
					want = kindBadBody // a stream may be empty; its length is not what was asked for
				}
				switch want {
				case "":
				case "any":
					if total(r.Errors) == 0 {
						t.Error("no errors")
					}
				default:
					if r.Errors[want] == 0 {
						t.Errorf("errors %v, want %s", r.Errors, want)
					}
				}
				if r.HTTP2 == nil {
					t.Fatalf("no frames: %s", r.HTTP2Absent)
				}
				if tc.check != nil {
					tc.check(t, r)
				}
			})
		}
	}
}

// A reply of 1 GiB costs its request and not the driver's memory.
func TestGiantReply(t *testing.T) {
	for _, p := range []Protocol{RestH1, RestH2C} {
		t.Run(string(p), func(t *testing.T) {
			var requests atomic.Int64
			chunk := make([]byte, 1<<20)
			var protocols http.Protocols
			protocols.SetHTTP1(p == RestH1)
			protocols.SetUnencryptedHTTP2(p == RestH2C)
			srv := &http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if requests.Add(1) != 8 {
					_, _ = io.WriteString(w, "sixteen bytes ..")
					return
				}
				for range 1024 {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = srv.Serve(ln) }()
			t.Cleanup(func() { _ = srv.Close() })
			c := testConfig(&service{protocol: p, address: ln.Addr().String()}, Step{Index: 1, OfferedHz: 100, Duration: 400 * time.Millisecond})
			c.Timeout, c.Drain = 20*time.Second, 20*time.Second
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := runSteps(t, c, Hooks{})[0].Result
			runtime.ReadMemStats(&after)
			if r.Errors[kindTooLong] != 1 || total(r.Errors) != 1 || r.Unanswered != 0 {
				t.Errorf("errors %v, unanswered %d", r.Errors, r.Unanswered)
			}
			if grew := int64(after.HeapSys) - int64(before.HeapSys); grew > 128<<20 {
				t.Errorf("the heap grew by %d MiB", grew>>20)
			}
		})
	}
}

// A stream that the service breaks costs what was in flight on it, and is opened
// again.
func TestHostileStreams(t *testing.T) {
	h := startHostile(t, func(h *hostile, c net.Conn) {
		serveH2(true, 1, func(s *h2server, stream uint32) bool { return true })(h, c)
	})
	c := h.config(GRPCStream)
	c.ConnectTimeout = 300 * time.Millisecond
	// It never answers: preflight says so, within the timeout.
	began := time.Now()
	_, _, err := tryRun(t, c, Hooks{})
	if err == nil || !strings.Contains(err.Error(), "stream 1 of 4") && !strings.Contains(err.Error(), "of 4: ") || time.Since(began) > 4*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// A name without an address ends the run before its first step, and says what to do.
func TestDNSFailure(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		c := testConfig(&service{protocol: p, address: "no-such-host.invalid:80"}, Step{Index: 1, OfferedHz: 100, Duration: time.Second})
		c.ConnectTimeout = 500 * time.Millisecond
		began := time.Now()
		_, _, err := tryRun(t, c, Hooks{})
		if err == nil || !strings.Contains(err.Error(), "no-such-host.invalid") || !strings.Contains(err.Error(), "--address") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// An interrupt in a step keeps what it did: its counts, its log and its series are
// there, and marked void.
func TestInterruptKeepsPartialResults(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 30 * time.Second})
		ctx, cancel := context.WithCancelCause(t.Context())
		s.at(100, c, func() { cancel(errors.New("SIGINT")) })
		var o Outcome
		_, err := Run(ctx, c, Hooks{StepDone: func(got Outcome) error { o = got; return nil }})
		if err == nil || !strings.Contains(err.Error(), "SIGINT") {
			t.Errorf("%v", err)
		}
		r := o.Result
		if !strings.Contains(r.Void, "SIGINT") || r.Delivered < 50 || r.NotConnected < 5000 || r.Check() != nil {
			t.Errorf("void %q, delivered %d, never tried %d, %v", r.Void, r.Delivered, r.NotConnected, r.Check())
		}
		if len(o.Hlog) == 0 || len(o.Points) == 0 || r.ResponseMs == nil {
			t.Errorf("log %d bytes, %d points, %v", len(o.Hlog), len(o.Points), r.ResponseMs)
		}
	})
}

// A disk that is full where the lines go is an error of the run.
func TestLinesOnAFullDisk(t *testing.T) {
	s := startService(t, RestH1, "127.0.0.1:0")
	err := Closed(t.Context(), testConfig(s), []ClosedStep{{Slots: 1, PerSlot: 5}}, ClosedHooks{Lines: fullDisk{}})
	if !errors.Is(err, errFull) {
		t.Errorf("%v", err)
	}
}

var errFull = fmt.Errorf("write: %w", io.ErrShortWrite)

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }
