package loop

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

var parsed = []struct {
	name, in string
	want     request
}{
	{"body", "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", request{method: "POST", path: "/echo", body: []byte("hi")}},
	{"no body", "GET /healthz?x=1 HTTP/1.1\r\nHost:\r\n\r\n", request{method: "GET", path: "/healthz"}},
	{"close among options", "GET / HTTP/1.1\r\nhost: a\r\nconnection: x, Close\r\n\r\n", request{method: "GET", path: "/", close: true}},
	{"1.0 closes, needs no host", "GET / HTTP/1.0\r\n\r\n", request{method: "GET", path: "/", close: true}},
	{"leading zeros", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0003\r\n\r\nabc", request{method: "POST", path: "/", body: []byte("abc")}},
	{"white space around values", "POST / HTTP/1.1\r\nHost:a\r\nContent-Length:\t 1 \t\r\nX: \x80\t\"\r\nAccept: \r\n\r\nb", request{method: "POST", path: "/", body: []byte("b")}},
}

const head = "POST /echo HTTP/1.1\r\nHost: a\r\n"

func TestParse(t *testing.T) {
	for _, c := range parsed {
		t.Run(c.name, func(t *testing.T) {
			// Whatever follows belongs to the next request; whatever is
			// missing makes it incomplete.
			for _, tail := range []string{"", "GET", "\x00\xff"} {
				got, n, err := parse([]byte(c.in + tail))
				if err != nil || n != len(c.in) {
					t.Fatalf("with tail %q: %d bytes, %v; want %d", tail, n, err, len(c.in))
				}
				if got.method != c.want.method || got.path != c.want.path || got.close != c.want.close || !bytes.Equal(got.body, c.want.body) {
					t.Errorf("with tail %q: %+v, want %+v", tail, got, c.want)
				}
			}
			compareWithNetHTTP(t, []byte(c.in), c.want)
			for short := range c.in {
				if _, n, err := parse([]byte(c.in[:short])); n != 0 || err != nil {
					t.Fatalf("the first %d bytes alone: %d, %v", short, n, err)
				}
			}
		})
	}
}

var refused = []struct {
	in     string
	status int
}{
	{"GARBAGE\r\n", 400},
	{"\r\n", 400},
	{"\n", 400},
	{"GET / HTTP/1.1\nHost: a\n\n", 400},
	{"GET  / HTTP/1.1\r\n", 400},
	{"GET http://a/ HTTP/1.1\r\n", 400},
	{"GET /\x01 HTTP/1.1\r\n", 400},
	{"G(T / HTTP/1.1\r\n", 400},
	{"GET / HTTP/2.0\r\n", 505},
	{"GET / HTTP/1.1\r\n\r\n", 400}, // no host
	{head + "Host: b\r\n\r\n", 400},
	{"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", 400},
	{head + "no colon\r\n", 400},
	{head + " folded: x\r\n", 400},
	{head + "space : x\r\n", 400},
	{head + "X: a\x00b\r\n", 400},
	{head + "Content-Length:\r\n", 400},
	{head + "Content-Length: +1\r\n", 400},
	{head + "Content-Length: 1, 1\r\n", 400},
	{head + "Content-Length: 1\r\nContent-Length: 1\r\n", 400},
	{head + "Content-Length: 65537\r\n", 413},
	{head + "Content-Length: 99999999999999999999999999\r\n", 413},
	{head + "Transfer-Encoding: chunked\r\n", 501},
	{head + "Expect: 100-continue\r\n", 417},
	{head + "X: " + strings.Repeat("a", maxHeadBytes), 431},
	{head + strings.Repeat("X: a\r\n", maxHeadBytes/6), 431},
}

func TestParseRefuses(t *testing.T) {
	for _, c := range refused {
		_, n, err := parse([]byte(c.in))
		var bad *badRequest
		if n != 0 || !errors.As(err, &bad) || bad.status != c.status {
			t.Errorf("%.60q: %d bytes, %v; want status %d", c.in, n, err, c.status)
		}
	}
}

// FuzzParse: no input panics; an error leaves nothing; what is accepted is
// accepted with any tail, is incomplete with any byte missing, and is framed
// the same by net/http.
func FuzzParse(f *testing.F) {
	for _, c := range parsed {
		f.Add([]byte(c.in))
	}
	for _, c := range refused {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		req, n, err := parse(data)
		if err != nil {
			var bad *badRequest
			if !errors.As(err, &bad) || bad.status < 400 || n != 0 || req.method != "" || req.body != nil {
				t.Fatalf("error %v beside %d bytes and %+v", err, n, req)
			}
			return
		}
		if n == 0 {
			return
		}
		if n < 0 || n > len(data) {
			t.Fatalf("%d bytes of %d", n, len(data))
		}
		if _, again, err := parse(data[:n]); again != n || err != nil {
			t.Fatalf("without its tail: %d bytes, %v", again, err)
		}
		for _, short := range []int{n - 1, n / 2, n - 1 - len(req.body)} {
			if short < 0 || short >= n {
				continue
			}
			if _, got, err := parse(data[:short]); got != 0 || err != nil {
				t.Fatalf("the first %d bytes of %d: %d, %v", short, n, got, err)
			}
		}
		compareWithNetHTTP(t, data[:n], req)
	})
}

func compareWithNetHTTP(t *testing.T, data []byte, req request) {
	t.Helper()
	if strings.ContainsAny(req.path, "%#:") || strings.HasPrefix(req.path, "//") {
		return // net/url has rules of its own for these; no route has them
	}
	reader := bufio.NewReader(bytes.NewReader(data))
	want, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("net/http refuses: %v", err)
	}
	body, err := io.ReadAll(want.Body)
	if err != nil || !bytes.Equal(body, req.body) {
		t.Fatalf("body %q, net/http reads %q, %v", req.body, body, err)
	}
	if rest, _ := io.ReadAll(reader); len(rest) != 0 {
		t.Fatalf("net/http leaves %q", rest)
	}
	if want.Method != req.method || want.URL.Path != req.path {
		t.Fatalf("%s %s, net/http reads %s %s", req.method, req.path, want.Method, want.URL.Path)
	}
}

func BenchmarkParse(b *testing.B) {
	body := strings.Repeat("x", 1309)
	in := []byte("POST /echo HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\nAccept-Encoding: gzip\r\n\r\n" + body)
	b.ReportAllocs()
	for b.Loop() {
		if _, n, err := parse(in); n != len(in) || err != nil {
			b.Fatal(n, err)
		}
	}
}
