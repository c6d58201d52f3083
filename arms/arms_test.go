package arms

import (
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/rungprof/rung/arms/payload"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

func start(t *testing.T, c Config) *Server {
	t.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil || ctx.Err() != nil {
			t.Errorf("stop: %v, %v", err, ctx.Err())
		}
		if err := s.Err(); err != nil {
			t.Errorf("the arm ended with %v", err)
		}
	})
	return s
}

func httpClient(t *testing.T, h2c bool) *http.Client {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2c)
	protocols.SetUnencryptedHTTP2(h2c)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func grpcClient(t *testing.T, s *Server) echov1.EchoClient {
	t.Helper()
	conn, err := grpc.NewClient(s.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return echov1.NewEchoClient(conn)
}

// TestRESTModesEcho covers every mode that speaks HTTP with JSON, with and
// without the options that must not show in the reply.
func TestRESTModesEcho(t *testing.T) {
	for _, c := range []Config{
		{Mode: RestH1}, {Mode: RestH1, CodecPasses: 3, Plant: 10 * time.Microsecond},
		{Mode: RestH2C}, {Mode: RestH2C, CodecPasses: 2},
		{Mode: Loop}, {Mode: Loop, CodecPasses: 2, Workers: 3, LockHold: time.Microsecond, Downstream: time.Microsecond},
		{Mode: NullH1}, {Mode: NullH2C},
	} {
		t.Run(fmt.Sprintf("%s passes %d", c.Mode, c.CodecPasses), func(t *testing.T) {
			s := start(t, c)
			h2c := c.Mode == RestH2C || c.Mode == NullH2C
			client := httpClient(t, h2c)
			for _, tier := range payload.Tiers() {
				body := payload.JSON(tier)
				for range 3 {
					response, err := client.Post("http://"+s.Addr()+"/echo", "application/json", bytes.NewReader(body))
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(response.Body)
					response.Body.Close()
					if err != nil || response.StatusCode != http.StatusOK || !bytes.Equal(got, body) {
						t.Fatalf("%s: status %d, %v, body %s", tier, response.StatusCode, err, got)
					}
					if wanted := map[bool]int{false: 1, true: 2}[h2c]; response.ProtoMajor != wanted {
						t.Errorf("answered over %s", response.Proto)
					}
					if response.ContentLength != int64(len(body)) {
						t.Errorf("Content-Length %d, want %d", response.ContentLength, len(body))
					}
				}
			}
			response, err := client.Get("http://" + s.Addr() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != http.StatusOK {
				t.Errorf("healthz: status %d", response.StatusCode)
			}
		})
	}
}

func TestRESTModesRefuse(t *testing.T) {
	large := strings.Repeat("x", 64<<10+1)
	for _, mode := range []Mode{RestH1, RestH2C, Loop, NullH1, NullH2C} {
		t.Run(string(mode), func(t *testing.T) {
			s := start(t, Config{Mode: mode})
			client := httpClient(t, mode == RestH2C || mode == NullH2C)
			badJSON := http.StatusBadRequest
			if !mode.decodes() {
				badJSON = http.StatusOK
			}
			for _, c := range []struct {
				method, path, body string
				want               int
			}{
				{"POST", "/echo", "{", badJSON},
				{"POST", "/echo", large, http.StatusRequestEntityTooLarge},
				{"GET", "/echo", "", http.StatusMethodNotAllowed},
				{"GET", "/nothing", "", http.StatusNotFound},
			} {
				request, err := http.NewRequest(c.method, "http://"+s.Addr()+c.path, strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(request)
				if err != nil {
					t.Fatalf("%s %s: %v", c.method, c.path, err)
				}
				response.Body.Close()
				if response.StatusCode != c.want {
					t.Errorf("%s %s with %d bytes: status %d, want %d", c.method, c.path, len(c.body), response.StatusCode, c.want)
				}
			}
		})
	}
}

func TestH2COnlyServesHTTP2(t *testing.T) {
	s := start(t, Config{Mode: RestH2C})
	if response, err := httpClient(t, false).Get("http://" + s.Addr() + "/healthz"); err == nil {
		response.Body.Close()
		t.Errorf("an HTTP/1.1 request got status %d", response.StatusCode)
	}
}

func TestGRPCModesEcho(t *testing.T) {
	for _, c := range []Config{{Mode: GRPCUnary}, {Mode: GRPCStream}, {Mode: GRPCUnary, CodecPasses: 2, Plant: 10 * time.Microsecond}, {Mode: NullGRPC}} {
		t.Run(fmt.Sprintf("%s passes %d", c.Mode, c.CodecPasses), func(t *testing.T) {
			client := grpcClient(t, start(t, c))
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			stream, err := client.Chat(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, tier := range payload.Tiers() {
				want := payload.Of(tier).Proto()
				got, err := client.SayHello(ctx, want)
				if err != nil || !proto.Equal(got, want) || proto.Size(got) != len(payload.Proto(tier)) {
					t.Errorf("%s: SayHello answers %v, %v", tier, got, err)
				}
				for range 3 {
					if err := stream.Send(want); err != nil {
						t.Fatal(err)
					}
				}
				for range 3 {
					got, err := stream.Recv()
					if err != nil || !proto.Equal(got, want) {
						t.Fatalf("%s: Chat answers %v, %v", tier, got, err)
					}
				}
			}
			if err := stream.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("after the last message: %v", err)
			}
		})
	}
}

// TestManyStreams: messages of one stream keep their order while others run.
func TestManyStreams(t *testing.T) {
	client := grpcClient(t, start(t, Config{Mode: GRPCStream}))
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			stream, err := client.Chat(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			for j := range 50 {
				name := fmt.Sprintf("%d/%d", i, j)
				if err := stream.Send(&echov1.Hello{Name: name}); err != nil {
					t.Error(err)
					return
				}
				if got, err := stream.Recv(); err != nil || got.GetName() != name {
					t.Errorf("%q came back as %v, %v", name, got, err)
					return
				}
			}
			stream.CloseSend()
		})
	}
	group.Wait()
}

func TestStopCutsOffOpenStreams(t *testing.T) {
	s, err := Start(Config{Mode: GRPCStream, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := grpcClient(t, s).Chat(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&echov1.Hello{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("stopping took %v", took)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the open stream ends with %v", err)
	}
	<-s.Done()
	if s.Err() != nil {
		t.Errorf("the arm ended with %v", s.Err())
	}
}

func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, mode := range Modes() {
		_, err := Start(Config{Mode: mode, Listen: taken.Addr().String()})
		if err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s: error %v does not name the address", mode, err)
		}
	}
}

func TestParseMode(t *testing.T) {
	for _, m := range Modes() {
		if got, err := ParseMode(string(m)); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %q, %v", m, got, err)
		}
	}
	_, err := ParseMode("rest")
	if err == nil {
		t.Fatal("mode rest was accepted")
	}
	for _, m := range Modes() {
		if !strings.Contains(err.Error(), string(m)) {
			t.Errorf("error %q does not list %s", err, m)
		}
	}
}

func TestConfigRefused(t *testing.T) {
	for _, c := range []struct {
		config Config
		names  string
	}{
		{Config{Listen: "127.0.0.1:0"}, "unknown mode"},
		{Config{Mode: RestH1, Listen: "127.0.0.1"}, "HOST:PORT"},
		{Config{Mode: RestH1, Listen: "127.0.0.1:0", CodecPasses: 65}, "codec passes 65"},
		{Config{Mode: RestH1, Listen: "127.0.0.1:0", Plant: -1}, "planted"},
		{Config{Mode: RestH1, Listen: "127.0.0.1:0", Workers: 2}, "mode loop only"},
		{Config{Mode: GRPCUnary, Listen: "127.0.0.1:0", Downstream: 1}, "mode loop only"},
		{Config{Mode: NullH1, Listen: "127.0.0.1:0", CodecPasses: 2}, "without decoding"},
		{Config{Mode: NullGRPC, Listen: "127.0.0.1:0", Plant: 1}, "without decoding"},
		{Config{Mode: Loop, Listen: "127.0.0.1:0", Workers: 1000}, "1000 workers"},
	} {
		if _, err := Start(c.config); err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%+v: error %v does not say %q", c.config, err, c.names)
		}
	}
}
