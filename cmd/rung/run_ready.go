//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/rungprof/rung/campaign"
)

// readyEvery is how often an arm is asked whether it serves.
const readyEvery = 50 * time.Millisecond

// waitReady asks until every check holds, ctx ends, or the arm has ended, which
// gone tells. A name that does not exist is not asked for again where the arm is
// said to run already.
func waitReady(ctx context.Context, r campaign.Ready, address string, runs bool, gone <-chan struct{}) error {
	var last error
	for {
		err := askReady(ctx, r, address)
		if err == nil {
			return nil
		}
		// What the end of our own patience cut short says less than what came before.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		var dns *net.DNSError
		if runs && errors.As(last, &dns) && dns.IsNotFound {
			return fmt.Errorf("%w: correct the arm's address", last)
		}
		select {
		case <-gone:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not ready within %s: %w", r.Timeout, last)
			}
			return ctx.Err()
		case <-time.After(readyEvery):
		}
	}
}

// askReady tries every check once.
func askReady(ctx context.Context, r campaign.Ready, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if r.TCP {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		conn.Close()
	}
	if r.HTTP != "" {
		if err := askHTTP(ctx, r, address); err != nil {
			return err
		}
	}
	if r.GRPCSet {
		return askGRPC(ctx, r.GRPC, address)
	}
	return nil
}

func askHTTP(ctx context.Context, r campaign.Ready, address string) error {
	url := r.HTTP
	if strings.HasPrefix(url, "/") {
		url = "http://" + address + url
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// An arm of HTTP/2 without TLS answers no HTTP/1.1; Go tries one of the two.
	for _, h2 := range []bool{false, true} {
		transport := &http.Transport{DisableKeepAlives: true, Protocols: new(http.Protocols)}
		transport.Protocols.SetHTTP1(!h2)
		transport.Protocols.SetUnencryptedHTTP2(h2)
		var response *http.Response
		response, err = (&http.Client{Transport: transport}).Do(request)
		transport.CloseIdleConnections()
		if err != nil {
			continue
		}
		response.Body.Close()
		if response.StatusCode != r.Status {
			return fmt.Errorf("GET %s: status %d, want %d", url, response.StatusCode, r.Status)
		}
		return nil
	}
	return err
}

func askGRPC(ctx context.Context, service, address string) error {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: service})
	switch {
	case status.Code(err) == codes.Unimplemented:
		return fmt.Errorf("%s has no gRPC health service (use ready: tcp): %w", address, err)
	case err != nil:
		return err
	case answer.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return fmt.Errorf("gRPC health of %q: %s", service, answer.GetStatus())
	}
	return nil
}
