package arms

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// listen opens the arm's port. The errors an operator can do something about
// say what.
func listen(address string) (*net.TCPListener, error) {
	listener, err := net.Listen("tcp", address)
	if err == nil {
		return listener.(*net.TCPListener), nil
	}
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the address is in use: stop the process that holds it ('ss -ltnp sport = :%s' names it), or take a free port with --listen 127.0.0.1:0: %w", address, port, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: port %s is reserved for privileged processes: take one above 1023: %w", address, port, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: no interface of this host has that address: %w", address, err)
	}
	return nil, fmt.Errorf("listen on %s: %w", address, err)
}
