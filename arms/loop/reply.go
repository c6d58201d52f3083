package loop

import (
	"net/http"
	"strconv"
	"time"
)

// reply is an HTTP response with a body of known length.
type reply struct {
	status int
	json   bool   // the body is JSON; otherwise plain text
	allow  string // the method a 405 would have wanted
	body   []byte
	close  bool // no request is read after this one
	head   bool // the request was HEAD: the body's length, but not the body
}

// appendReply adds the reply as it goes over the wire.
func appendReply(out []byte, r reply, date []byte) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(r.status), 10)
	out = append(out, ' ')
	out = append(out, http.StatusText(r.status)...)
	out = append(out, "\r\nDate: "...)
	out = append(out, date...)
	if r.json {
		out = append(out, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	} else {
		out = append(out, "\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	}
	out = strconv.AppendInt(out, int64(len(r.body)), 10)
	if r.allow != "" {
		out = append(out, "\r\nAllow: "...)
		out = append(out, r.allow...)
	}
	if r.close {
		out = append(out, "\r\nConnection: close"...)
	}
	out = append(out, "\r\n\r\n"...)
	if r.head {
		return out
	}
	return append(out, r.body...)
}

// date is the Date header's value, formatted once a second. Each thread has its
// own.
type date struct {
	second int64
	text   []byte
}

func (d *date) now() []byte {
	now := time.Now()
	if now.Unix() != d.second {
		d.second = now.Unix()
		d.text = now.UTC().AppendFormat(d.text[:0], http.TimeFormat)
	}
	return d.text
}
