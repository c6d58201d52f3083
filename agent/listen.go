package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/symbol"
)

const (
	// maxRequest bounds a request: names of a run, a step and at most 64 targets.
	maxRequest = 64 << 10
	// maxMessage bounds what is sent: the record of a target with 100,000 threads.
	maxMessage = 64 << 20
	// stopGrace is how long calls may go on after the agent is told to stop.
	stopGrace = 2 * time.Second
)

// Listen opens the address of the agent's API: unix:///path, or
// tcp://127.0.0.1:port. Whoever reaches it may have any target profiled, so
// nothing wider is possible until authentication exists.
func Listen(address string) (net.Listener, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	switch {
	case ok && scheme == "unix":
		return listenUnix(rest)
	case ok && scheme == "tcp":
		return listenLoopback(rest)
	}
	return nil, fmt.Errorf("listen address %q: use unix:///path or tcp://127.0.0.1:port", address)
}

// listenUnix makes a socket that only its owner can open. It replaces a socket
// that nobody listens on, and nothing else.
func listenUnix(path string) (net.Listener, error) {
	if !strings.HasPrefix(path, "/") {
		return nil, fmt.Errorf("listen address unix://%s: the path must be absolute (unix:///path)", path)
	}
	if longest := len(syscall.RawSockaddrUnix{}.Path) - 1; len(path) > longest {
		return nil, fmt.Errorf("listen address unix://%s: the kernel takes socket paths of at most %d bytes", path, longest)
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("listen address unix://%s: %w", path, err)
	case info.Mode()&fs.ModeSocket == 0:
		return nil, fmt.Errorf("listen address unix://%s: a file that is not a socket is there; remove it or choose another path", path)
	default:
		conn, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			holder := holderOf(conn)
			conn.Close()
			return nil, fmt.Errorf("listen address unix://%s: %s listens there; stop it or choose another path", path, holder)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("listen address unix://%s: cannot tell whether another process listens there: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("listen address unix://%s: remove stale socket: %w", path, err)
		}
	}
	// The mask holds for the whole process, for the moment of the bind: a later
	// chmod alone would leave the socket open to others until then.
	before := syscall.Umask(0o177)
	listener, err := net.Listen("unix", path)
	syscall.Umask(before)
	if err != nil {
		return nil, fmt.Errorf("listen address unix://%s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listen address unix://%s: %w", path, err)
	}
	return listener, nil
}

// holderOf names the process that listens at the other end.
func holderOf(conn net.Conn) string {
	const unknown = "another process"
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return unknown
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return unknown
	}
	var peer *unix.Ucred
	controlErr := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if controlErr != nil || err != nil || peer.Pid <= 0 { // 0: of another pid namespace
		return unknown
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", peer.Pid))
	if err != nil || len(text) == 0 {
		return fmt.Sprintf("process %d", peer.Pid)
	}
	line := symbol.Printable(strings.TrimRight(strings.ReplaceAll(string(text), "\x00", " "), " "))
	if runes := []rune(line); len(runes) > 80 {
		line = string(runes[:79]) + "…"
	}
	return fmt.Sprintf("process %d (%s)", peer.Pid, line)
}

func listenLoopback(hostPort string) (net.Listener, error) {
	address, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return nil, fmt.Errorf("listen address tcp://%s: write an IP address and a port, as tcp://127.0.0.1:7410", hostPort)
	}
	if !address.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("listen address tcp://%s: only loopback addresses (127.0.0.1, [::1]) are possible, nothing else until authentication exists", hostPort)
	}
	listener, err := net.Listen("tcp", address.String())
	if err != nil {
		return nil, fmt.Errorf("listen address tcp://%s: %w", hostPort, err)
	}
	return listener, nil
}

// Address is a listener's address in the form that [Listen] reads.
func Address(listener net.Listener) string {
	if addr := listener.Addr(); addr.Network() == "unix" {
		return "unix://" + addr.String()
	}
	return "tcp://" + listener.Addr().String()
}

// Serve answers calls on a listener until the context ends, then lets calls
// finish for a moment. It closes the listener, which removes its socket, and
// the agent.
func Serve(ctx context.Context, listener net.Listener, a *Agent) error {
	server := grpc.NewServer(
		grpc.MaxRecvMsgSize(maxRequest), grpc.MaxSendMsgSize(maxMessage),
		grpc.MaxConcurrentStreams(256), grpc.ConnectionTimeout(5*time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
	)
	rungv1.RegisterAgentServer(server, a)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	closed := a.Close() // wakes calls that wait for a window
	timer := time.AfterFunc(stopGrace, server.Stop)
	server.GracefulStop()
	timer.Stop()
	return errors.Join(err, closed)
}
