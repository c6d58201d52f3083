//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/arms"
)

func TestArmServesUntilCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- runArm(ctx, armOptions{mode: "loop", listen: "127.0.0.1:0", codecPasses: 1}, writer)
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "RUNG-ARM ready ")
	if !found {
		t.Fatalf("ready line %q", line)
	}
	response, err := http.Get("http://" + addr + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the arm does not end")
	}
}

func TestArmRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		name    string
		options armOptions
		says    []string
		code    int
	}{
		{"mode", armOptions{mode: "rest", listen: "127.0.0.1:0", codecPasses: 1}, []string{`"rest"`, string(arms.RestH1), string(arms.NullGRPC)}, exitUsage},
		{"passes", armOptions{mode: "rest-h1", listen: "127.0.0.1:0", codecPasses: 100}, []string{"codec passes 100"}, exitUsage},
		{"workers", armOptions{mode: "rest-h1", listen: "127.0.0.1:0", codecPasses: 1, workers: 2}, []string{"mode loop only"}, exitUsage},
		{"address", armOptions{mode: "rest-h1", listen: "8080", codecPasses: 1}, []string{`"8080"`, "HOST:PORT"}, exitUsage},
		{"port", armOptions{mode: "loop", listen: taken.Addr().String(), codecPasses: 1}, []string{taken.Addr().String(), "in use", "--listen"}, exitUsage},
		{"port out of range", armOptions{mode: "loop", listen: "127.0.0.1:99999", codecPasses: 1}, []string{"127.0.0.1:99999", "invalid port", "--listen"}, exitUsage},
		{"another host's address", armOptions{mode: "rest-h1", listen: "192.0.2.1:0", codecPasses: 1}, []string{"192.0.2.1:0", "no interface of this host has that address"}, exitUsage},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := runArm(t.Context(), c.options, io.Discard)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %s", err, want)
				}
			}
			code := exitFailure
			if coded := (exitError{}); errors.As(err, &coded) {
				code = coded.code
			}
			if code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
		})
	}
}
