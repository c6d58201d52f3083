package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
)

// preflightError is an answer that was not a success, before the first step.
type preflightError struct {
	connection, of int
	stream         bool
	outcome        outcome
}

func (e *preflightError) Error() string {
	what := "connection"
	if e.stream {
		what = "stream"
	}
	return fmt.Sprintf("%s %d of %d: %s", what, e.connection+1, e.of, e.outcome)
}

// Once connects, sends one request on each connection and wants a good answer:
// what a client does that is started anew for each request.
func Once(ctx context.Context, cfg Config) error {
	cfg.Steps, cfg.Agent = nil, nil
	if err := cfg.Validate(); err != nil {
		return err
	}
	e, err := newEngine(cfg)
	if err != nil {
		return err
	}
	e.start(&closedLoop{engine: e})
	defer e.close()
	return preflight(ctx, cfg, e)
}

// preflight connects and wants one success on each connection. Its errors name
// the endpoint and what to do about it.
func preflight(ctx context.Context, c Config, e engine) error {
	err := e.connect(ctx)
	if err == nil {
		err = e.preflight(ctx)
	}
	if err != nil {
		return fmt.Errorf("preflight of %s at %s: %w; %s", c.Protocol, endpoint(c), err, remedy(c, err))
	}
	if open := int(e.connections().open.Load()); open != c.Connections {
		return fmt.Errorf("preflight of %s at %s: %d connections are open, not the %d asked for; the service closes connections, or something before it does",
			c.Protocol, endpoint(c), open, c.Connections)
	}
	return nil
}

func endpoint(c Config) string {
	if c.Protocol.gRPC() {
		return c.Address + c.Method
	}
	return c.scheme() + "://" + c.Address + c.Path
}

func remedy(c Config, err error) string {
	var pe *preflightError
	var limit *streamLimitError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return "the name of --address has no address here: correct it, or the resolver"
	case errors.As(err, &limit):
		return fmt.Sprintf("raise --connections to at least %d, or lower --streams", (int64(c.Streams)+max(limit.limit, 1)-1)/max(limit.limit, 1))
	case errors.As(err, &certificate):
		return "name the authority of its certificate by --tls-ca and its name by --tls-server-name, or leave the check out by --tls-insecure"
	case errors.As(err, &record):
		return "the service does not speak TLS there: leave --tls out"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there: start the service, or correct --address"
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case !errors.As(err, &pe):
		return fmt.Sprintf("check that --address is reachable from here and speaks %s", c.Protocol)
	}
	if pe.outcome.class == notConnected {
		return fmt.Sprintf("the service closed the connection at once: does it speak %s?", c.Protocol)
	}
	switch pe.outcome.kind {
	case statusKind(404), statusKind(405):
		return "the service has no such endpoint: correct --path"
	case "grpc_UNIMPLEMENTED":
		return "the service has no such method: correct --method"
	case kindRefusedReply:
		return "the message that ends the answer does not fulfil --success-when"
	case kindBadBody:
		return "the reply has another length than --reply-length, or is empty"
	case kindTimeout:
		return fmt.Sprintf("no answer within --timeout %s: is the service stuck, or does it speak another protocol than %s?", c.Timeout, c.Protocol)
	case kindReset, kindOther:
		return fmt.Sprintf("the service closed the connection, or answered something else: does it speak %s?", c.Protocol)
	}
	return fmt.Sprintf("the service must answer this request before it can be loaded; check --protocol %s, --body and --address", c.Protocol)
}
