package schema

import (
	"bytes"
	"context"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

const sayHello = "/rung.arms.echo.v1.Echo/SayHello"

func protoset(t testing.TB) []byte {
	t.Helper()
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(echov1.File_arms_echo_v1_echo_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func echoMethod(t testing.TB) *Method {
	t.Helper()
	m, err := FromProtoset(protoset(t), sayHello)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestEncode(t *testing.T) {
	m := echoMethod(t)
	got, err := m.Encode([]byte(`{"name":"a","order":{"id":"7","placedUnixMs":"12","labels":{"x":"y"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(&echov1.Hello{Name: "a", Order: &echov1.Order{Id: "7", PlacedUnixMs: 12, Labels: map[string]string{"x": "y"}}})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%x, want %x, %v", got, want, err)
	}
	if err := m.Check(got); err != nil {
		t.Error(err)
	}
	if err := m.Check([]byte{0xff}); err == nil || !strings.Contains(err.Error(), "rung.arms.echo.v1.Hello") {
		t.Errorf("garbage: %v", err)
	}
	for _, bad := range []string{`{"nom":"a"}`, `{"name":7}`, `not json`, ``} {
		if _, err := m.Encode([]byte(bad)); err == nil || !strings.Contains(err.Error(), "rung.arms.echo.v1.Hello") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMethodErrors(t *testing.T) {
	for method, want := range map[string]string{
		"SayHello":                          "want /package.Service/Method",
		"/rung.arms.echo.v1.Echo":           "want /package.Service/Method",
		"/no.Service/SayHello":              "it has rung.arms.echo.v1.Echo",
		"/rung.arms.echo.v1.Hello/SayHello": "is no service",
		"/rung.arms.echo.v1.Echo/Shout":     "it has SayHello, Chat, Repeat",
	} {
		if _, err := FromProtoset(protoset(t), method); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
	if _, err := FromProtoset([]byte("text"), sayHello); err == nil {
		t.Error("text as a descriptor set: no error")
	}
	for method, want := range map[string][2]bool{"SayHello": {false, false}, "Chat": {true, true}, "Repeat": {false, true}} {
		m, err := FromProtoset(protoset(t), "/rung.arms.echo.v1.Echo/"+method)
		if err != nil {
			t.Fatal(err)
		}
		if client, server := m.Streams(); client != want[0] || server != want[1] {
			t.Errorf("%s: client stream %v, server stream %v", method, client, server)
		}
	}
}

func TestPredicate(t *testing.T) {
	m := echoMethod(t)
	ended, _ := proto.Marshal(&echov1.Hello{Name: "end", Order: &echov1.Order{Id: "7", Total: 1.5}})
	unpaid := ended // paid has its default
	paid, _ := proto.Marshal(&echov1.Hello{Order: &echov1.Order{Paid: true}})
	plain, _ := proto.Marshal(&echov1.Hello{Name: "end"})
	for _, tc := range []struct {
		conditions string
		message    []byte
		want       bool
	}{
		{"order", ended, true},
		{"order", plain, false},
		{"name=end", plain, true},
		{"name!=end", plain, false},
		{"name!=end", paid, true},
		{"order.paid=false", unpaid, true},
		{"order.paid=false", paid, false},
		{"order.paid=true", paid, true},
		{"order.paid=false", plain, false}, // no order
		{"order.paid", unpaid, false},
		{"order.total=1.5;order.id=7", ended, true},
		{"order.total=1.5;order.id=8", ended, false},
		{"order.placedUnixMs=0", ended, true},
		{"order", []byte{0xff, 0xff}, false},
		{"name=", nil, true},
	} {
		accept, err := m.Predicate(strings.Split(tc.conditions, ";"))
		if err != nil {
			t.Errorf("%s: %v", tc.conditions, err)
			continue
		}
		if got := accept(tc.message); got != tc.want {
			t.Errorf("%s of %x: %v", tc.conditions, tc.message, got)
		}
	}
	for condition, want := range map[string]string{
		"nobody=1":           `has no "nobody"; it has name, order`,
		"name.first=1":       "name is a string and has no fields",
		"order.items=1":      "repeated",
		"order=1":            "name one of its fields",
		"order.paid=yes":     `"yes" is no bool`,
		"order.total=much":   `"much" is no double`,
		"order.customer.x=1": `has no "x"`,
		"name!":              "want FIELD",
		"":                   `has no ""`,
	} {
		if _, err := m.Predicate([]string{condition}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", condition, err, want)
		}
	}
}

func TestRequestField(t *testing.T) {
	m := echoMethod(t)
	numbers, text, err := m.RequestField("order.id")
	if err != nil || !text || len(numbers) != 2 || numbers[0] != protowire.Number(2) || numbers[1] != 1 {
		t.Errorf("%v, %v, %v", numbers, text, err)
	}
	if _, text, err := m.RequestField("order.placed_unix_ms"); err != nil || text {
		t.Errorf("%v, %v", text, err)
	}
	for _, path := range []string{"order.paid", "order", "order.items", "x"} {
		if _, _, err := m.RequestField(path); err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

func TestReflect(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	echov1.RegisterEchoServer(srv, echov1.UnimplementedEchoServer{})
	reflection.Register(srv)
	silent := grpc.NewServer()
	healthpb.RegisterHealthServer(silent, healthpb.UnimplementedHealthServer{})
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.Serve(ln) }()
	go func() { _ = silent.Serve(mute) }()
	t.Cleanup(srv.Stop)
	t.Cleanup(silent.Stop)
	for _, tc := range []struct{ address, method, want string }{
		{ln.Addr().String(), sayHello, ""},
		{ln.Addr().String(), "/no.Service/Method", "it has grpc.reflection"},
		{ln.Addr().String(), "/rung.arms.echo.v1.Echo/Shout", "it has SayHello"},
		{mute.Addr().String(), sayHello, "--protoset"},
	} {
		cc, err := grpc.NewClient(tc.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		m, err := Reflect(context.Background(), cc, tc.method)
		cc.Close()
		if tc.want != "" {
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: %v, want %q", tc.method, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, err := m.Encode([]byte(`{"name":"x"}`)); err != nil || string(b) != "\x0a\x01x" {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Foreign bytes end in an error or a method, and its predicates in true or false.
func FuzzProtoset(f *testing.F) {
	f.Add(protoset(f), []byte{0x0a, 1, 'x'})
	f.Fuzz(func(t *testing.T, set, message []byte) {
		m, err := FromProtoset(set, sayHello)
		if (m == nil) == (err == nil) {
			t.Fatalf("method %v, error %v", m, err)
		}
		if m == nil {
			return
		}
		if accept, err := m.Predicate([]string{"name=x"}); err == nil {
			accept(message)
		}
	})
}
