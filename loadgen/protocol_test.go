package loadgen

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

// serverTLS makes a certificate for localhost and the client's side that trusts it.
func serverTLS(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12},
		&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

func TestTLS(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		server, client := serverTLS(t)
		s := startServiceTLS(t, p, "127.0.0.1:0", server)
		c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 300 * time.Millisecond})
		c.TLS = client
		r := runSteps(t, c, Hooks{})[0].Result
		if r.Void != "" || r.Delivered != r.Sent || r.Delivered < 30 {
			t.Errorf("void %q, delivered %d of %d; %v", r.Void, r.Delivered, r.Sent, r.Errors)
		}
		if (r.HTTP2 != nil) != (p != RestH1) {
			t.Errorf("frames: %+v, absent %q", r.HTTP2, r.HTTP2Absent)
		}

		// A certificate that nobody vouches for, and plain text, fail with a remedy.
		c.TLS = &tls.Config{}
		if _, _, err := tryRun(t, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "--tls-ca") {
			t.Errorf("unknown authority: %v", err)
		}
		plain := startService(t, p, "127.0.0.1:0")
		c.Address, c.TLS = plain.address, client
		c.ConnectTimeout = 300 * time.Millisecond
		if _, _, err := tryRun(t, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "TLS") {
			t.Errorf("no TLS there: %v", err)
		}
	})
}

func TestHeadersAndMetadata(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		s := startService(t, p, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 200 * time.Millisecond})
		c.Headers = []string{"x-tenant: blue", "x-key-bin: AAEC"}
		if r := runSteps(t, c, Hooks{})[0].Result; r.Delivered == 0 {
			t.Fatalf("%+v", r.Errors)
		}
		want := "AAEC"
		if p.gRPC() {
			want = "\x00\x01\x02"
		}
		if got := s.header("x-tenant"); got != "blue" {
			t.Errorf("x-tenant: %q", got)
		}
		if got := s.header("x-key-bin"); got != want {
			t.Errorf("x-key-bin: %q", got)
		}
	})
	c := testConfig(&service{protocol: GRPCUnary, address: "127.0.0.1:1"}, Step{Index: 1, OfferedHz: 100, Duration: time.Second})
	c.Headers = []string{"x-key-bin: no base64!"}
	if _, _, err := tryRun(t, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "base64") {
		t.Errorf("bad base64: %v", err)
	}
}

// What counts as delivered is the caller's to say.
func TestSuccessStatus(t *testing.T) {
	eachProtocol(t, func(t *testing.T, p Protocol) {
		if p == GRPCStream {
			return // a message has no status
		}
		s := startService(t, p, "127.0.0.1:0")
		s.fail.Store(10)
		c := testConfig(s, Step{Index: 1, OfferedHz: 200, Duration: 300 * time.Millisecond})
		c.SuccessStatus = []string{"200-299", "500"}
		c.ReplyLength = 0
		if p.gRPC() {
			c.SuccessStatus = []string{"OK", "resource_exhausted"}
		}
		r := runSteps(t, c, Hooks{})[0].Result
		if r.Delivered != r.Sent || total(r.Errors) != 0 {
			t.Errorf("delivered %d of %d, errors %v", r.Delivered, r.Sent, r.Errors)
		}
	})
	for _, tc := range []struct {
		grpc bool
		text string
	}{{false, "2xx"}, {false, "404-200"}, {false, "99"}, {false, "OK"}, {true, "FINE"}, {true, "17"}} {
		if _, err := parseStatuses([]string{tc.text}, tc.grpc); err == nil {
			t.Errorf("%q, gRPC %v: no error", tc.text, tc.grpc)
		}
	}
}

// The predicate sees the message that ends the answer, and only it.
func TestAcceptTerminalMessage(t *testing.T) {
	for _, p := range []Protocol{GRPCUnary, GRPCServerStream, GRPCStream} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			s := startService(t, p, "127.0.0.1:0")
			c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond})
			c.Accept = func(m []byte) bool { return bytes.Equal(m, c.Body) }
			r := runSteps(t, c, Hooks{})[0].Result
			if r.Delivered != r.Sent || r.Delivered == 0 {
				t.Errorf("delivered %d of %d, errors %v", r.Delivered, r.Sent, r.Errors)
			}
			if want := 3 * r.Delivered; p == GRPCServerStream && r.Messages != want {
				t.Errorf("%d messages, want %d", r.Messages, want)
			}
			c.Accept = func(m []byte) bool { return false }
			if _, _, err := tryRun(t, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "--success-when") {
				t.Errorf("refused: %v", err)
			}
		})
	}
}

// Calls above the peer's limit of streams are deferred by Rung, and queue in no
// library.
func TestGRPCStreamLimit(t *testing.T) {
	for _, p := range []Protocol{GRPCUnary, GRPCServerStream} {
		s := startService(t, p, "127.0.0.1:0") // 20 streams per connection
		c := testConfig(s, Step{Index: 1, OfferedHz: 400, Duration: 400 * time.Millisecond})
		c.Connections, c.MaxInFlight = 1, 60
		s.freezeAt(t, 40, c, 250*time.Millisecond)
		r := runSteps(t, c, Hooks{})[0].Result
		if r.Deferred[whyMaxStreams] == 0 || r.HTTP2 == nil || r.HTTP2.MaxConcurrentStreams == nil || *r.HTTP2.MaxConcurrentStreams != 20 {
			t.Errorf("%s: deferred %v, frames %+v", p, r.Deferred, r.HTTP2)
		}
		if n := r.PerConnection; len(n) != 1 || n[0].Delivered != r.Delivered || n[0].Deferred != total(r.Deferred) {
			t.Errorf("%s: per connection %+v of %d delivered, %v deferred", p, n, r.Delivered, r.Deferred)
		}
	}
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: time.Second})
	c.Connections, c.Streams = 1, 21
	if _, _, err := tryRun(t, c, Hooks{}); err == nil || !strings.Contains(err.Error(), "takes 20 streams at once") || !strings.Contains(err.Error(), "--connections to at least 2") {
		t.Errorf("21 streams: %v", err)
	}
}

// Streams × in flight per stream is the cap, and each stream's own.
func TestInFlightPerStream(t *testing.T) {
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 300, Duration: 400 * time.Millisecond})
	c.MaxInFlight, c.Streams, c.InFlightPerStream = 0, 4, 3
	if err := c.Validate(); err != nil || c.MaxInFlight != 12 {
		t.Fatalf("max in flight %d, %v", c.MaxInFlight, err)
	}
	s.freezeAt(t, 30, c, 200*time.Millisecond)
	r := runSteps(t, c, Hooks{})[0].Result
	if r.Overflow == 0 || r.Delivered != r.Sent {
		t.Errorf("overflow %d, delivered %d of %d", r.Overflow, r.Delivered, r.Sent)
	}
}

// Every stream's end is looked at: after the last step the driver closes its side
// and the service answers with a status.
func TestStreamEnds(t *testing.T) {
	s := startService(t, GRPCStream, "127.0.0.1:0")
	c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 200 * time.Millisecond}, Step{Index: 2, OfferedHz: 100, Duration: 200 * time.Millisecond})
	outs := runSteps(t, c, Hooks{})
	one, two := outs[0].Result, outs[1].Result
	if one.StreamEnds != nil || one.StreamsEnded != nil || two.StreamsEnded != nil {
		t.Errorf("step 1: %+v, %v; step 2: %v", one.StreamEnds, one.StreamsEnded, two.StreamsEnded)
	}
	if e := two.StreamEnds; e == nil || e.Closed != 4 || e.By["grpc_OK"] != 4 || e.StillOpen != 0 {
		t.Errorf("ends: %+v", e)
	}

	// A service that fails a stream in mid-step, and one that keeps them open.
	s = startService(t, GRPCStream, "127.0.0.1:0")
	s.fail.Store(15)
	r := runSteps(t, testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond}), Hooks{})[0].Result
	if r.StreamsEnded["grpc_RESOURCE_EXHAUSTED"] == 0 || !hasWarning(r, "ended during the step") {
		t.Errorf("ended %v, warnings %q", r.StreamsEnded, r.Warnings)
	}
	s = startService(t, GRPCStream, "127.0.0.1:0")
	c = testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 300 * time.Millisecond})
	c.Drain = 200 * time.Millisecond
	at := s.at(25, c, s.freeze)
	r = runSteps(t, c, Hooks{})[0].Result
	<-at
	if e := r.StreamEnds; e == nil || e.StillOpen == 0 || !hasWarning(r, "still open") {
		t.Errorf("ends %+v, warnings %q", e, r.Warnings)
	}
}
