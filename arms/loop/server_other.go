//go:build !linux

package loop

import (
	"context"
	"fmt"
	"net"
	"runtime"
)

// Server is a loop that serves; there is none but on Linux.
type Server struct{}

// Start is an error: epoll and futex are Linux's.
func Start(*net.TCPListener, Config, Handler) (*Server, error) {
	return nil, fmt.Errorf("the loop arm needs Linux (epoll, futex), this is %s: take rest-h1", runtime.GOOS)
}

// Wait returns at once.
func (*Server) Wait() error { return nil }

// Stop does nothing.
func (*Server) Stop(context.Context) {}
