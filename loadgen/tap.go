package loadgen

import (
	"encoding/binary"
	"net"
	"sync"

	xhttp2 "golang.org/x/net/http2"
)

// tap follows the HTTP/2 frames of one connection as they pass, in both
// directions: what the peer's SETTINGS allow, and how long the peer's windows
// held sending up, which no client library tells. It changes nothing.
//
// A window that is spent by a DATA frame without END_STREAM counts as a stall
// until it is opened again: the client then has no way to send on.
// Read and Write may be called by one goroutine each.
type tap struct {
	net.Conn
	in, out frameScanner

	greeted chan struct{} // closed by the peer's first SETTINGS

	mu       sync.Mutex
	now      func() int64
	settings peerSettings
	window   int64 // of the connection, bytes the client may send
	streams  map[uint32]*streamWindow
	since    int64 // when the connection's window was spent; 0 while it is open
	counts   tapCounts
}

type streamWindow struct {
	window int64
	since  int64
}

// peerSettings are what the peer last said of itself; maxStreams is absent until
// it said so, which means that it sets no limit.
type peerSettings struct {
	seen          bool
	maxStreams    *uint32
	initialWindow uint32
}

// tapCounts add up over a connection's life. Times are nanoseconds.
type tapCounts struct {
	connStalls, connStallNs     uint64
	streamStalls, streamStallNs uint64
	goAways                     uint64
	resets                      map[string]uint64 // RST_STREAM from the peer, by error code
}

const initialWindow = 65535 // RFC 9113 §6.9.2

func newTap(c net.Conn) *tap {
	t := &tap{
		Conn: c, greeted: make(chan struct{}), now: monoNow, window: initialWindow, streams: map[uint32]*streamWindow{},
		settings: peerSettings{initialWindow: initialWindow}, counts: tapCounts{resets: map[string]uint64{}},
	}
	t.out.skip = len(xhttp2.ClientPreface)
	t.out.frame, t.in.frame = t.sent, t.received
	return t
}

func (t *tap) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.mu.Lock()
		t.in.feed(p[:n])
		t.mu.Unlock()
	}
	return n, err
}

// Write notes the frames before they leave, so that no answer overtakes them.
func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.out.feed(p)
	t.mu.Unlock()
	return t.Conn.Write(p)
}

// sent sees a frame's header, and of what the client sends no payload.
func (t *tap) sent(h frameHeader, _ []byte) {
	switch h.kind {
	case xhttp2.FrameHeaders:
		if h.flags&xhttp2.FlagHeadersEndStream == 0 {
			s := &streamWindow{window: int64(t.settings.initialWindow)}
			t.streams[h.stream] = s
			if s.window <= 0 { // its body cannot even begin
				s.since = t.now()
				t.counts.streamStalls++
			}
		}
	case xhttp2.FrameRSTStream:
		t.forget(h.stream)
	case xhttp2.FrameData:
		ended := h.flags&xhttp2.FlagDataEndStream != 0
		t.window -= int64(h.length)
		if t.window <= 0 && t.since == 0 && h.length > 0 && !ended {
			t.since = t.now()
			t.counts.connStalls++
		}
		s := t.streams[h.stream]
		if s == nil {
			return
		}
		if s.window -= int64(h.length); s.window <= 0 && s.since == 0 && h.length > 0 && !ended {
			s.since = t.now()
			t.counts.streamStalls++
		}
		if ended {
			t.forget(h.stream)
		}
	}
}

func (t *tap) received(h frameHeader, payload []byte) {
	switch h.kind {
	case xhttp2.FrameSettings:
		if h.flags&xhttp2.FlagSettingsAck == 0 {
			t.take(payload)
		}
	case xhttp2.FrameWindowUpdate:
		if len(payload) != 4 {
			return
		}
		t.opened(h.stream, int64(binary.BigEndian.Uint32(payload)&(1<<31-1)))
	case xhttp2.FrameHeaders:
		if h.flags&xhttp2.FlagHeadersEndStream != 0 {
			t.forget(h.stream)
		}
	case xhttp2.FrameData:
		if h.flags&xhttp2.FlagDataEndStream != 0 {
			t.forget(h.stream)
		}
	case xhttp2.FrameRSTStream:
		if len(payload) == 4 {
			t.counts.resets[xhttp2.ErrCode(binary.BigEndian.Uint32(payload)).String()]++
		}
		t.forget(h.stream)
	case xhttp2.FrameGoAway:
		t.counts.goAways++
	}
}

// take reads a SETTINGS frame: six bytes each, a later one of a kind wins.
func (t *tap) take(payload []byte) {
	if !t.settings.seen {
		t.settings.seen = true
		close(t.greeted)
	}
	for ; len(payload) >= 6; payload = payload[6:] {
		value := binary.BigEndian.Uint32(payload[2:])
		switch xhttp2.SettingID(binary.BigEndian.Uint16(payload)) {
		case xhttp2.SettingMaxConcurrentStreams:
			t.settings.maxStreams = &value
		case xhttp2.SettingInitialWindowSize:
			change := int64(value) - int64(t.settings.initialWindow)
			t.settings.initialWindow = value
			for _, s := range t.streams {
				t.grow(s, change)
			}
		}
	}
}

func (t *tap) opened(stream uint32, by int64) {
	if stream != 0 {
		if s := t.streams[stream]; s != nil {
			t.grow(s, by)
		}
		return
	}
	if t.window += by; t.window > 0 && t.since != 0 {
		t.counts.connStallNs += uint64(t.now() - t.since)
		t.since = 0
	}
}

func (t *tap) grow(s *streamWindow, by int64) {
	if s.window += by; s.window > 0 {
		t.goOn(s)
	}
}

func (t *tap) goOn(s *streamWindow) {
	if s.since != 0 {
		t.counts.streamStallNs += uint64(t.now() - s.since)
		s.since = 0
	}
}

func (t *tap) forget(stream uint32) {
	if s := t.streams[stream]; s != nil {
		t.goOn(s)
		delete(t.streams, stream)
	}
}

// read gives the peer's settings and the counts up to now, a stall that lasts
// included.
func (t *tap) read() (peerSettings, tapCounts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.counts
	c.resets = add(nil, t.counts.resets)
	if t.since != 0 {
		c.connStallNs += uint64(t.now() - t.since)
	}
	for _, s := range t.streams {
		if s.since != 0 {
			c.streamStallNs += uint64(t.now() - s.since)
		}
	}
	return t.settings, c
}

// maxStreams is the peer's limit of concurrent streams; a peer that sets none
// allows as many as HTTP/2 has.
func (t *tap) maxStreams() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settings.maxStreams == nil {
		return 1<<31 - 1
	}
	return int64(*t.settings.maxStreams)
}

// frameHeader is RFC 9113 §4.1.
type frameHeader struct {
	length int
	kind   xhttp2.FrameType
	flags  xhttp2.Flags
	stream uint32
}

const (
	frameHeaderBytes = 9
	// keptPayload bounds the payloads that are looked at: SETTINGS of a hundred
	// entries, and the few bytes of the others.
	keptPayload = 600
)

// frameScanner finds the frames in a stream of bytes cut anywhere.
type frameScanner struct {
	frame func(h frameHeader, payload []byte)
	skip  int // bytes to pass over: the preface, or a payload
	head  [frameHeaderBytes]byte
	have  int // bytes of head
	h     frameHeader
	body  []byte
	want  int // bytes of payload still to come into body
	inner bool
}

func (s *frameScanner) feed(p []byte) {
	for len(p) > 0 {
		switch {
		case s.skip > 0:
			n := min(s.skip, len(p))
			s.skip, p = s.skip-n, p[n:]
		case s.inner:
			n := min(s.want, len(p))
			s.body = append(s.body, p[:n]...)
			s.want, p = s.want-n, p[n:]
			if s.want == 0 {
				s.inner = false
				s.frame(s.h, s.body)
			}
		default:
			n := copy(s.head[s.have:], p)
			s.have, p = s.have+n, p[n:]
			if s.have == frameHeaderBytes {
				s.have = 0
				s.begin()
			}
		}
	}
}

// begin decides what to do with a frame whose header is there.
func (s *frameScanner) begin() {
	b := s.head
	s.h = frameHeader{
		length: int(b[0])<<16 | int(b[1])<<8 | int(b[2]), kind: xhttp2.FrameType(b[3]), flags: xhttp2.Flags(b[4]),
		stream: binary.BigEndian.Uint32(b[5:]) & (1<<31 - 1),
	}
	s.body = s.body[:0]
	switch s.h.kind {
	case xhttp2.FrameSettings, xhttp2.FrameWindowUpdate, xhttp2.FrameRSTStream:
		if s.h.length > 0 && s.h.length <= keptPayload {
			s.want, s.inner = s.h.length, true
			return
		}
	}
	s.skip = s.h.length
	s.frame(s.h, nil)
}
