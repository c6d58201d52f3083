//go:build linux

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/rungprof/rung/arms"
	"github.com/rungprof/rung/campaign"
)

// TestReady: each check against a server that becomes ready after a while, and
// against one that does not.
func TestReady(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/late" || asked.Add(1) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	h2c, err := arms.Start(arms.Config{Mode: arms.RestH2C, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer h2c.Stop(context.Background())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, status := grpc.NewServer(), health.NewServer()
	status.SetServingStatus("late", healthv1.HealthCheckResponse_NOT_SERVING)
	healthv1.RegisterHealthServer(server, status)
	go server.Serve(listener)
	defer server.Stop()
	time.AfterFunc(150*time.Millisecond, func() { status.SetServingStatus("late", healthv1.HealthCheckResponse_SERVING) })
	bare, err := arms.Start(arms.Config{Mode: arms.GRPCUnary, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer bare.Stop(context.Background())

	address := strings.TrimPrefix(web.URL, "http://")
	for _, c := range []struct {
		name    string
		ready   campaign.Ready
		address string
		want    string // "" is ready
	}{
		{"tcp", campaign.Ready{TCP: true}, address, ""},
		{"nobody", campaign.Ready{TCP: true}, "127.0.0.1:9", "not ready within 800ms: dial tcp 127.0.0.1:9: connect: connection refused"},
		{"late", campaign.Ready{HTTP: "/late", Status: 200}, address, ""},
		{"busy", campaign.Ready{HTTP: "/", Status: 200}, address, "status 503, want 200"},
		{"a status", campaign.Ready{HTTP: web.URL + "/", Status: 503}, "127.0.0.1:9", ""},
		{"h2c", campaign.Ready{HTTP: "/healthz", Status: 200}, h2c.Addr(), ""},
		{"grpc", campaign.Ready{GRPCSet: true}, listener.Addr().String(), ""},
		{"grpc late", campaign.Ready{GRPCSet: true, GRPC: "late"}, listener.Addr().String(), ""},
		{"grpc unknown", campaign.Ready{GRPCSet: true, GRPC: "none"}, listener.Addr().String(), "unknown service"},
		{"grpc without health", campaign.Ready{GRPCSet: true}, bare.Addr(), "has no gRPC health service (use ready: tcp)"},
		{"both", campaign.Ready{TCP: true, HTTP: "/", Status: 200}, address, "status 503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := 5 * time.Second
			if c.want != "" {
				limit = 800 * time.Millisecond
			}
			c.ready.Timeout = campaign.Duration(limit)
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := waitReady(ctx, c.ready, c.address, false, nil)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestReadyGivesUp(t *testing.T) {
	gone := make(chan struct{})
	close(gone)
	r := campaign.Ready{TCP: true, Timeout: campaign.Duration(time.Minute)}
	if err := waitReady(t.Context(), r, "127.0.0.1:9", false, gone); err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("an arm that ended: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := waitReady(ctx, r, "127.0.0.1:9", false, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}
