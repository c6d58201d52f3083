//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

// idServer is an Echo over TLS that keeps the ids it was sent.
type idServer struct {
	echov1.UnimplementedEchoServer
	mu  sync.Mutex
	ids map[string]int
}

func (s *idServer) Repeat(in *echov1.Hello, stream grpc.ServerStreamingServer[echov1.Hello]) error {
	s.mu.Lock()
	s.ids[in.GetOrder().GetId()]++
	s.mu.Unlock()
	for _, name := range []string{"output", "output", "end"} {
		out := &echov1.Hello{Name: name}
		if name == "end" {
			out.Order = &echov1.Order{Id: in.GetOrder().GetId(), Paid: in.GetOrder().GetPaid()}
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
	return nil
}

// startSecure serves Echo over TLS and gives the file of its certificate.
func startSecure(t *testing.T, s echov1.EchoServer) (address, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})))
	echov1.RegisterEchoServer(srv, s)
	reflection.Register(srv)
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return ln.Addr().String(), ca
}

// A method known by reflection or from a file, over TLS: the request from JSON,
// an id in each, and an answer that is good when its last message says so.
func TestLoadAnyMethod(t *testing.T) {
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(echov1.File_arms_echo_v1_echo_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	protoset := filepath.Join(t.TempDir(), "echo.protoset")
	if err := os.WriteFile(protoset, set, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, source := range [][]string{{"--reflect"}, {"--protoset", protoset}} {
		s := &idServer{ids: map[string]int{}}
		address, ca := startSecure(t, s)
		args := append([]string{"--protocol", "grpc-server-stream", "--address", address, "--tls-ca", ca, "--method", echov1.Echo_Repeat_FullMethodName,
			"--body-json", `{"order":{"paid":true}}`, "--id-field", "order.id", "--rates", "100", "--duration", "400ms", "--settle", "100ms", "--json"}, source...)
		stdout, stderr, code := runLoadCommand(t, append(args, "--success-when", "order.paid=true", "--success-when", "name=end")...)
		if code != exitOK {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		var result loadResult
		if _, body, _ := strings.Cut(stdout, "\n{"); json.Unmarshal([]byte("{"+body), &result) != nil || len(result.Steps) != 1 {
			t.Fatal(stdout)
		}
		r := result.Steps[0]
		if r.Delivered != r.Sent || r.Messages != 3*r.Delivered {
			t.Errorf("delivered %d of %d, %d messages, errors %v", r.Delivered, r.Sent, r.Messages, r.Errors)
		}
		if n := uint64(len(s.ids)); n != r.Sent+1 { // and preflight
			t.Errorf("%d ids for %d requests", n, r.Sent+1)
		}
		for id, n := range s.ids {
			if n != 1 || len(id) != 10 {
				t.Errorf("id %q was sent %d times", id, n)
			}
		}
		// The same answers are refused by another condition, and preflight says so.
		if _, stderr, code := runLoadCommand(t, append(args, "--success-when", "name=output")...); code != exitFailure || !strings.Contains(stderr, "--success-when") {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
}

func TestLoadBadRequestFlags(t *testing.T) {
	address, _ := startTestArm(t, "grpc-unary")
	good := []string{"--protocol", "grpc-unary", "--address", address, "--rates", "100", "--connect-timeout", "100ms"}
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(notPEM, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--tls-ca", "/nonexistent"}, "--tls-ca: open /nonexistent"},
		{[]string{"--tls-ca", notPEM}, "no PEM certificate"},
		{[]string{"--tls-key", notPEM}, "--tls-key: want --tls-cert"},
		{[]string{"--tls-cert", notPEM, "--tls-key", notPEM}, "--tls-cert and --tls-key: "},
		{[]string{"--header", "no colon"}, `--header "no colon": want NAME: VALUE`},
		{[]string{"--body-json", "{}"}, "--body-json: needs --protoset or --reflect"},
		{[]string{"--body-json", "@/nonexistent"}, "--body-json: open /nonexistent"},
		{[]string{"--success-when", "name=x"}, "--success-when: needs --protoset or --reflect"},
		{[]string{"--reflect", "--success-when", "nom=x"}, `--success-when: condition "nom=x": field nom: rung.arms.echo.v1.Hello has no "nom"`},
		{[]string{"--reflect", "--protoset", "x"}, "--protoset and --reflect: want one"},
		{[]string{"--protoset", "/nonexistent"}, "--protoset: open /nonexistent"},
		{[]string{"--protoset", notPEM}, "not a descriptor set"},
		{[]string{"--reflect", "--method", "/a.B/C"}, "--reflect: /a.B/C at " + address},
		{[]string{"--reflect", "--method", echov1.Echo_Chat_FullMethodName}, "method " + echov1.Echo_Chat_FullMethodName + " wants grpc-stream"},
		{[]string{"--reflect", "--body-json", `{"nom":1}`}, "--body-json: request of rung.arms.echo.v1.Hello"},
		{[]string{"--success-status", "FINE"}, `--success-status "FINE": want gRPC codes`},
		{[]string{"--id-field", "order.id"}, "names need --protoset or --reflect"},
		{[]string{"--reflect", "--id-field", "order.paid"}, "--id-field: field order.paid is a bool"},
		{[]string{"--id-token", "ID"}, `--id-token "ID": want a text that is in the body`},
		{[]string{"--id-field", "2.1", "--id-first", "9999999999"}, "--id-first 9999999999: want an id with as many digits"},
		{[]string{"--in-flight-per-stream", "2"}, "--in-flight-per-stream 2: want 0 or more, and only with"},
	} {
		_, stderr, code := runLoadCommand(t, append(append([]string{}, good...), tc.args...)...)
		if code != exitUsage || !strings.Contains(stderr, tc.want) {
			t.Errorf("%q: exit %d, %q; want 2 and %q", tc.args, code, stderr, tc.want)
		}
	}
}
