//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

func TestAgentRefuses(t *testing.T) {
	busy := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(busy, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ args, part string }{
		{"", "no target"},
		{"--target web", "write NAME=cgroup:/path or NAME=pid:N"},
		{"--target web=cgroup:/a --target db=cgroup:/a/b", "lies within target web"},
		{"--target web=cgroup:/a --rate 0", "want 1 to 9999"},
		{"--target web=cgroup:/a --rate 10000", "want 1 to 9999"},
		{"--target web=cgroup:/a --rate x", "invalid argument"},
		{"--target web=cgroup:/a --listen tcp://0.0.0.0:7410", "until authentication exists"},
		{"--target web=cgroup:/a --listen unix://" + busy, "not a socket"},
		{"--target web=cgroup:/a --frequency 5", "unknown flag"},
		{"--target web=cgroup:/a more", "unknown command"},
	} {
		var stdout, stderr bytes.Buffer
		args := append([]string{"agent"}, strings.Fields(test.args)...)
		if code := execute(context.Background(), newRootCommand(), args, &stdout, &stderr); code != exitUsage {
			t.Errorf("rung agent %s: exit code %d", test.args, code)
		}
		if !strings.Contains(stderr.String(), test.part) || stdout.Len() > 0 {
			t.Errorf("rung agent %s: %q; want %q", test.args, stderr.String(), test.part)
		}
	}
}

// TestAgentServes runs the command until it says that it is ready, and ends it.
func TestAgentServes(t *testing.T) {
	kernel, err := bpf.Load(bpf.Options{RateHz: 99})
	if err != nil {
		t.Skipf("the kernel side cannot be loaded here: %v", err)
	}
	kernel.Close()
	socket := filepath.Join(t.TempDir(), "agent.sock")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		args := []string{"agent", "--listen", "unix://" + socket, "--target", fmt.Sprintf("self=pid:%d", os.Getpid())}
		done <- execute(ctx, newRootCommand(), args, io.Discard, write)
		write.Close()
	}()
	said := make(chan string, 1)
	go func() {
		var all []byte
		part := make([]byte, 4096)
		for {
			n, err := read.Read(part)
			all = append(all, part[:n]...)
			if err != nil || strings.Contains(string(all), "rung agent: listening on unix://"+socket+"\n") {
				said <- string(all)
				io.Copy(io.Discard, read)
				return
			}
		}
	}()
	select {
	case text := <-said:
		if !strings.Contains(text, "listening on") {
			t.Fatalf("the agent ended: %s", text)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the agent is not ready after 20 s")
	}
	cancel()
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if _, err := os.Stat(socket); err == nil {
		t.Error("the socket is left behind")
	}
}
