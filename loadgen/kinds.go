package loadgen

import (
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Kinds of error, as they are counted. Others are made of what the service
// answered: status_500, grpc_UNAVAILABLE.
const (
	kindTimeout   = "timeout"
	kindRefused   = "refused"
	kindReset     = "reset"    // the connection broke under the request
	kindBadBody   = "bad_body" // the reply has the wrong length
	kindExtra     = "extra_reply"
	kindStreamEnd = "stream_end" // the service ended the stream, with OK, before it answered
	kindTooLong   = "too_long"   // the reply is above what is read
	kindOther     = "other"
	// kindRefusedReply is an answer whose terminal message the predicate refuses.
	kindRefusedReply = "refused_reply"
)

// Reasons of a deferral: a slot was free, but the protocol refused.
const (
	whyMaxStreams  = "max_streams"  // the peer's limit of concurrent HTTP/2 streams
	whyFlowControl = "flow_control" // the stream's window was closed for a whole timeout
	whyStreamFull  = "stream_full"  // the streams that are open hold their share of the cap
	whyNoID        = "ids_used_up"  // all ids of the slot were sent
)

func statusKind(code int) string { return "status_" + strconv.Itoa(code) }

// netKind names an error of a connection.
func netKind(err error) string {
	var ne net.Error
	var reset xhttp2.StreamError // net/http's own type lets itself be read as this
	switch {
	case errors.As(err, &reset):
		return kindReset
	case errors.Is(err, syscall.ECONNREFUSED):
		return kindRefused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return kindTimeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return kindReset
	}
	return kindOther
}

// grpcKind names an error of a call by its status: grpc_UNAVAILABLE.
func grpcKind(err error) string {
	return "grpc_" + code.Code(status.Code(err)).String()
}

// grpcClass tells a status that the service gave from one that stands for no
// answer. UNAVAILABLE may be either; it is nearly always a broken connection,
// and counts as that.
func grpcClass(err error) class {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded:
		return failed
	}
	return failedAnswer
}
