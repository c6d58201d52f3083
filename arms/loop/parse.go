package loop

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/rungprof/rung/arms/echo"
)

const (
	maxHeadBytes = 8 << 10 // request line and headers, with the empty line
	maxBodyBytes = echo.MaxBodyBytes
)

// request is one parsed HTTP/1.x request. Its slices alias the parsed buffer.
type request struct {
	method string
	path   string // without the query
	body   []byte
	close  bool // the client wants the connection closed after the reply
}

// badRequest is a request that cannot be answered but with an error: the
// connection's framing is lost after it, so it closes.
type badRequest struct {
	status int
	why    string
}

func (b *badRequest) Error() string { return fmt.Sprintf("status %d: %s", b.status, b.why) }

// parse reads the request at the front of buf and says how many bytes it is
// long: 0 without an error means that more bytes are needed, and errors are
// always *badRequest.
//
// It is stricter than RFC 9112 asks of a server (lines end in CRLF, one
// Content-Length, no transfer coding, no folded headers), so that whatever it
// accepts, any other HTTP/1.1 parser frames the same way.
func parse(buf []byte) (request, int, error) {
	line, at, err := nextLine(buf, 0)
	if err != nil || at == 0 {
		return request{}, 0, err
	}
	req, minor, err := parseRequestLine(line)
	if err != nil {
		return request{}, 0, err
	}
	h := headers{length: -1}
	for {
		var next int
		line, next, err = nextLine(buf, at)
		if err != nil || next == 0 {
			return request{}, 0, err
		}
		at = next
		if len(line) == 0 {
			break
		}
		if err := h.add(line); err != nil {
			return request{}, 0, err
		}
	}
	if h.hosts > 1 || minor == 1 && h.hosts == 0 {
		return request{}, 0, &badRequest{http.StatusBadRequest, "HTTP/1.1 needs exactly one Host header"}
	}
	end := at + max(0, h.length)
	if len(buf) < end {
		return request{}, 0, nil
	}
	req.body = buf[at:end]
	req.close = h.close || minor == 0
	return req, end, nil
}

// nextLine is the line that starts at buf[at], without its CRLF, and where the
// one after it starts; 0 when the line is not complete yet.
func nextLine(buf []byte, at int) (line []byte, next int, err error) {
	length := bytes.IndexByte(buf[at:], '\n')
	if length < 0 {
		if len(buf) >= maxHeadBytes {
			return nil, 0, &badRequest{http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the head is longer than %d bytes", maxHeadBytes)}
		}
		return nil, 0, nil
	}
	next = at + length + 1
	if next > maxHeadBytes {
		return nil, 0, &badRequest{http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the head is longer than %d bytes", maxHeadBytes)}
	}
	line = buf[at : next-1]
	if length == 0 || line[length-1] != '\r' {
		return nil, 0, &badRequest{http.StatusBadRequest, "a line of the head does not end in CRLF"}
	}
	return line[:length-1], next, nil
}

func parseRequestLine(line []byte) (req request, minor int, err error) {
	parts := strings.Split(string(line), " ")
	if len(parts) != 3 || !isToken(parts[0]) || !isTarget(parts[1]) {
		return request{}, 0, &badRequest{http.StatusBadRequest, "the request line is not METHOD /PATH HTTP/1.1"}
	}
	switch parts[2] {
	case "HTTP/1.1":
		minor = 1
	case "HTTP/1.0":
	default:
		return request{}, 0, &badRequest{http.StatusHTTPVersionNotSupported, "only HTTP/1.1 and HTTP/1.0 are served"}
	}
	path, _, _ := strings.Cut(parts[1], "?")
	return request{method: parts[0], path: path}, minor, nil
}

// headers is what framing needs of a request's headers.
type headers struct {
	length int // Content-Length, -1 without one
	hosts  int
	close  bool
}

func (h *headers) add(line []byte) error {
	name, value, found := strings.Cut(string(line), ":")
	if !found || !isToken(name) || !isFieldValue(value) {
		return &badRequest{http.StatusBadRequest, "a header is not NAME: VALUE"}
	}
	value = strings.Trim(value, " \t")
	switch {
	case strings.EqualFold(name, "Host"):
		h.hosts++
	case strings.EqualFold(name, "Content-Length"):
		if h.length >= 0 {
			return &badRequest{http.StatusBadRequest, "there is more than one Content-Length"}
		}
		var err error
		h.length, err = parseLength(value)
		return err
	case strings.EqualFold(name, "Transfer-Encoding"):
		return &badRequest{http.StatusNotImplemented, "transfer codings are not served: send Content-Length"}
	case strings.EqualFold(name, "Expect"):
		return &badRequest{http.StatusExpectationFailed, "no expectation is met: send the body without asking"}
	case strings.EqualFold(name, "Connection"):
		for option := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.Trim(option, " \t"), "close") {
				h.close = true
			}
		}
	}
	return nil
}

// parseLength reads decimal digits and nothing else, up to maxBodyBytes.
func parseLength(value string) (int, error) {
	if value == "" {
		return 0, &badRequest{http.StatusBadRequest, "Content-Length is empty"}
	}
	length := 0
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, &badRequest{http.StatusBadRequest, "Content-Length is not a number"}
		}
		length = min(length*10+int(value[i]-'0'), maxBodyBytes+1)
	}
	if length > maxBodyBytes {
		return 0, &badRequest{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is longer than %d bytes", maxBodyBytes)}
	}
	return length, nil
}

// isToken: RFC 9110's token, which methods and header names are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alphanumeric := c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}

// isTarget: a path of visible ASCII; the other forms are for proxies.
func isTarget(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return strings.HasPrefix(s, "/")
}

// isFieldValue: no control characters but the tab.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' && s[i] != '\t' || s[i] == 0x7f {
			return false
		}
	}
	return true
}
