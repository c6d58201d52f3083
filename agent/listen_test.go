package agent

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.sock")
	listener, err := Listen("unix://" + path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode()&fs.ModeSocket == 0 {
		t.Errorf("the socket has mode %v, %v", info.Mode(), err)
	}
	if Address(listener) != "unix://"+path {
		t.Errorf("address %s", Address(listener))
	}
	if _, err := Listen("unix://" + path); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("process %d (%s", os.Getpid(), filepath.Dir(os.Args[0]))) || !strings.Contains(err.Error(), ") listens there; stop it") {
		t.Errorf("a live socket was replaced: %v", err)
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("after the refusal: %v", err)
	} else {
		conn.Close()
	}

	// A listener that ended without removing its socket, as one that was killed.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	listener.Close()
	if _, err := os.Stat(path); err != nil {
		t.Fatal(err)
	}
	again, err := Listen("unix://" + path)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	again.Close()
	if _, err := os.Stat(path); err == nil {
		t.Error("a closed listener leaves its socket")
	}
}

func TestListenRefuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(file, []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	for address, part := range map[string]string{
		"":                                    "use unix:///path",
		"/run/rung.sock":                      "use unix:///path",
		"http://127.0.0.1:1":                  "use unix:///path",
		"unix://run/rung.sock":                "must be absolute",
		"unix://" + file:                      "not a socket",
		"unix:///nonexistent/s":               "no such file",
		"unix:///" + strings.Repeat("x", 120): "at most 107 bytes",
		"tcp://0.0.0.0:0":                     "nothing else until authentication exists",
		"tcp://192.0.2.1:0":                   "nothing else until authentication exists",
		"tcp://[::]:0":                        "nothing else until authentication exists",
		"tcp://:7410":                         "write an IP address",
		"tcp://localhost:741":                 "write an IP address",
		"tcp://127.0.0.1":                     "write an IP address",
	} {
		listener, err := Listen(address)
		if err == nil {
			listener.Close()
		}
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("Listen(%q): %v; want %q", address, err, part)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "keep" {
		t.Errorf("the file in the way: %q, %v", text, err)
	}
}

func TestListenLoopback(t *testing.T) {
	listener, err := Listen("tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if !strings.HasPrefix(Address(listener), "tcp://127.0.0.1:") {
		t.Errorf("address %s", Address(listener))
	}
	if _, err := Listen(Address(listener)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a port in use: %v", err)
	}
}
