package loop

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungprof/rung/arms/echo"
	"github.com/rungprof/rung/arms/payload"
)

// serve starts a loop on a free port and stops it when the test ends.
func serve(t *testing.T, c Config, handle Handler) (addr string, s *Server) {
	t.Helper()
	if c.Workers == 0 {
		c.Workers = DefaultWorkers
	}
	if handle == nil {
		service, err := echo.New(echo.Config{CodecPasses: 1})
		if err != nil {
			t.Fatal(err)
		}
		handle = service.JSON
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = listener.Addr().String()
	s, err = Start(listener.(*net.TCPListener), c, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		s.Stop(ctx)
		if err := s.Wait(); err != nil {
			t.Errorf("the loop ended with %v", err)
		}
	})
	return addr, s
}

func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn, bufio.NewReader(conn)
}

func post(body string) string {
	return fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func readReply(t *testing.T, r *bufio.Reader) (int, string) {
	t.Helper()
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestConcurrentClients(t *testing.T) {
	addr, _ := serve(t, Config{Workers: 3, LockHold: 20 * time.Microsecond, Downstream: 100 * time.Microsecond}, nil)
	transport := &http.Transport{MaxIdleConnsPerHost: 20}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			body := payload.JSON(payload.Tiers()[i%2])
			for range 30 {
				response, err := client.Post("http://"+addr+"/echo", "application/json", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
					t.Errorf("status %d, %v, %d bytes of %d", response.StatusCode, err, len(got), len(body))
					return
				}
			}
		})
	}
	group.Wait()
}

// TestPipelining: one write with many requests is answered in order, however
// the workers race.
func TestPipelining(t *testing.T) {
	addr, _ := serve(t, Config{Workers: 4}, func(body []byte) ([]byte, error) { return bytes.Clone(body), nil })
	conn, reader := dial(t, addr)
	const requests = 500
	go func() {
		var all strings.Builder
		for i := range requests {
			all.WriteString(post(fmt.Sprintf("%d-%s", i, strings.Repeat("x", i))))
		}
		io.WriteString(conn, all.String())
	}()
	for i := range requests {
		status, body := readReply(t, reader)
		if want := fmt.Sprintf("%d-%s", i, strings.Repeat("x", i)); status != http.StatusOK || body != want {
			t.Fatalf("reply %d: status %d, %.20q", i, status, body)
		}
	}
}

// TestTrickledRequest: a request byte by byte, with the body at its largest.
func TestTrickledRequest(t *testing.T) {
	addr, _ := serve(t, Config{}, func(body []byte) ([]byte, error) { return bytes.Clone(body), nil })
	conn, reader := dial(t, addr)
	head, body := post(""), strings.Repeat("y", maxBodyBytes)
	head = strings.Replace(head, "Content-Length: 0", fmt.Sprintf("Content-Length: %d", len(body)), 1)
	for i := range head {
		io.WriteString(conn, head[i:i+1])
	}
	io.WriteString(conn, body[:1000])
	time.Sleep(20 * time.Millisecond)
	io.WriteString(conn, body[1000:])
	if status, got := readReply(t, reader); status != http.StatusOK || got != body {
		t.Errorf("status %d, %d bytes of %d", status, len(got), len(body))
	}
}

// TestSlowReader: a client that sends without reading is not read from for
// ever, and gets every reply once it does read.
func TestSlowReader(t *testing.T) {
	addr, _ := serve(t, Config{}, func(body []byte) ([]byte, error) { return bytes.Clone(body), nil })
	conn, reader := dial(t, addr)
	conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	conn.(*net.TCPConn).SetWriteBuffer(64 << 10)
	const requests = 600 // about 40 MB each way: more than the sockets hold
	sent := make(chan error, 1)
	body := strings.Repeat("z", maxBodyBytes)
	go func() {
		for range requests {
			if _, err := io.WriteString(conn, post(body)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	select {
	case err := <-sent:
		t.Fatalf("40 MB were taken in without a reply being read (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	for i := range requests {
		if status, got := readReply(t, reader); status != http.StatusOK || got != body {
			t.Fatalf("reply %d: status %d, %d bytes", i, status, len(got))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	addr, _ := serve(t, Config{}, nil)
	for _, c := range []struct {
		name, in string
		status   int
		closes   bool
	}{
		{"garbage", "\x16\x03\x01\x00 not HTTP\r\n", 400, true},
		{"http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, true},
		{"no JSON", post("{"), 400, true},
		{"too large", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n" + strings.Repeat("x", 100_000), 413, true},
		{"chunked", "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501, true},
		{"path", "GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n", 404, false},
		{"method", "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", 405, false},
		{"asks to close", "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 200, true},
		{"1.0", "GET /healthz HTTP/1.0\r\n\r\n", 200, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, reader := dial(t, addr)
			io.WriteString(conn, c.in)
			status, body := readReply(t, reader)
			if status != c.status || body == "" {
				t.Errorf("status %d %q, want %d", status, body, c.status)
			}
			if c.closes {
				if b, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
					t.Errorf("the connection stays open: %q, %v", b, err)
				}
				return
			}
			io.WriteString(conn, post(string(payload.JSON(payload.Tiny))))
			if status, _ := readReply(t, reader); status != http.StatusOK {
				t.Errorf("the next request got status %d", status)
			}
		})
	}
}

func TestHeadHasNoBody(t *testing.T) {
	addr, _ := serve(t, Config{}, nil)
	conn, reader := dial(t, addr)
	io.WriteString(conn, "HEAD /healthz HTTP/1.1\r\nHost: a\r\n\r\n"+post(`{"name":"World"}`))
	response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodHead})
	if err != nil || response.ContentLength != 3 {
		t.Fatalf("%v, %v", response, err)
	}
	if status, body := readReply(t, reader); status != http.StatusOK || body != `{"name":"World"}` {
		t.Errorf("the next reply is %d %q", status, body)
	}
}

// TestVanishingClients: clients that leave at every stage cost nothing to
// those that stay.
func TestVanishingClients(t *testing.T) {
	addr, s := serve(t, Config{Workers: 2, Downstream: time.Millisecond}, nil)
	for i := range 60 {
		conn, _ := dial(t, addr)
		io.WriteString(conn, post(string(payload.JSON(payload.Realistic)))[:i*23])
		if i%2 == 0 {
			conn.(*net.TCPConn).SetLinger(0) // a reset
		}
		conn.Close()
	}
	conn, reader := dial(t, addr)
	for range 3 {
		io.WriteString(conn, post(`{"name":"World"}`))
		if status, _ := readReply(t, reader); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.Stop(ctx)
	if ctx.Err() != nil || s.Wait() != nil {
		t.Error("a connection of theirs is still there")
	}
}

// TestHalfClosedClient: a client that closes its side after the request still
// gets the reply.
func TestHalfClosedClient(t *testing.T) {
	addr, _ := serve(t, Config{Downstream: 5 * time.Millisecond}, nil)
	conn, reader := dial(t, addr)
	io.WriteString(conn, post(`{"name":"World"}`))
	conn.(*net.TCPConn).CloseWrite()
	if status, body := readReply(t, reader); status != http.StatusOK || body != `{"name":"World"}` {
		t.Errorf("status %d, %q", status, body)
	}
	if _, err := reader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("then %v", err)
	}
}

func TestStopLetsRequestsEnd(t *testing.T) {
	addr, s := serve(t, Config{Downstream: 200 * time.Millisecond}, nil)
	conn, reader := dial(t, addr)
	dial(t, addr) // an idle one
	io.WriteString(conn, post(`{"name":"World"}`))
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	s.Stop(ctx)
	if ctx.Err() != nil {
		t.Fatal("the loop did not stop")
	}
	if status, _ := readReply(t, reader); status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the port still answers")
	}
	s.Stop(ctx) // once more is harmless
}

func TestStopIsBounded(t *testing.T) {
	addr, s := serve(t, Config{LockHold: time.Second}, nil)
	conn, reader := dial(t, addr)
	io.WriteString(conn, post(`{"name":"World"}`))
	time.Sleep(50 * time.Millisecond)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	s.Stop(ctx)
	if _, err := reader.ReadByte(); err == nil {
		t.Error("a reply came after all")
	}
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("stopping took %v", took)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, bad := range []Config{{}, {Workers: MaxWorkers + 1}, {Workers: 1, LockHold: -1}, {Workers: 1, Downstream: time.Hour}} {
		if bad.Validate() == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}
