package loadgen

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
)

// statuses are the answers that count as delivered.
type statuses struct {
	http [][2]int // ranges, both ends inside
	grpc map[codes.Code]bool
}

// parseStatuses reads HTTP statuses and ranges of them (200-299), or names and
// numbers of gRPC codes; none is 200, or OK.
func parseStatuses(texts []string, grpc bool) (statuses, error) {
	if len(texts) == 0 {
		return statuses{http: [][2]int{{http.StatusOK, http.StatusOK}}, grpc: map[codes.Code]bool{codes.OK: true}}, nil
	}
	s := statuses{grpc: map[codes.Code]bool{}}
	for _, text := range texts {
		text = strings.TrimSpace(text)
		if grpc {
			var c codes.Code
			quoted := text
			if _, err := strconv.Atoi(text); err != nil {
				quoted = strconv.Quote(strings.ToUpper(text))
			}
			if err := c.UnmarshalJSON([]byte(quoted)); err != nil {
				return s, bad("success-status", strconv.Quote(text), "gRPC codes, as in OK,NOT_FOUND")
			}
			s.grpc[c] = true
			continue
		}
		from, to, isRange := strings.Cut(text, "-")
		if !isRange {
			to = from
		}
		low, err := strconv.Atoi(from)
		high, errHigh := strconv.Atoi(to)
		if err != nil || errHigh != nil || low < 200 || high > 599 || low > high {
			return s, bad("success-status", strconv.Quote(text), "HTTP statuses from 200 to 599 and ranges of them, as in 200-299,404")
		}
		s.http = append(s.http, [2]int{low, high})
	}
	return s, nil
}

func (s *statuses) okHTTP(status int) bool {
	for _, r := range s.http {
		if status >= r[0] && status <= r[1] {
			return true
		}
	}
	return false
}

// parseHeaders splits lines of the form "name: value".
func parseHeaders(lines []string) ([][2]string, error) {
	var out [][2]string
	for _, line := range lines {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(value, "\r\n") {
			return nil, bad("header", strconv.Quote(line), "NAME: VALUE")
		}
		out = append(out, [2]string{name, value})
	}
	return out, nil
}

// replyRule judges a whole reply. It is read concurrently.
type replyRule struct {
	length int64
	status statuses
	accept func(message []byte) bool
}

func newReplyRule(c Config) (replyRule, error) {
	s, err := parseStatuses(c.SuccessStatus, c.Protocol.gRPC())
	return replyRule{length: int64(c.ReplyLength), status: s, accept: c.Accept}, err
}

// judgeHTTP judges by status and length.
func (r *replyRule) judgeHTTP(status int, length int64) outcome {
	switch {
	case !r.status.okHTTP(status):
		return outcome{class: failedAnswer, kind: statusKind(status)}
	case r.length == 0 && length == 0 && status == http.StatusOK, r.length > 0 && length != r.length:
		return outcome{class: failedAnswer, kind: kindBadBody}
	}
	return outcome{class: delivered}
}

// judgeMessage judges a message that ends its answer well by status.
func (r *replyRule) judgeMessage(m *reply) outcome {
	switch {
	case r.length > 0 && int64(m.length) != r.length:
		return outcome{class: failedAnswer, kind: kindBadBody}
	case r.accept != nil && !r.accept(m.bytes):
		return outcome{class: failedAnswer, kind: kindRefusedReply}
	}
	return outcome{class: delivered}
}

// judgeGRPC judges a call: its status, and if that is OK its last message.
func (r *replyRule) judgeGRPC(code codes.Code, err error, m *reply) outcome {
	if !r.status.grpc[code] {
		if code == codes.OK {
			return outcome{class: failedAnswer, kind: "grpc_OK"}
		}
		return outcome{class: grpcClass(err), kind: grpcKind(err)}
	}
	if code != codes.OK {
		return outcome{class: delivered}
	}
	return r.judgeMessage(m)
}
