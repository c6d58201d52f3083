package loadgen

import (
	"bytes"
	"net"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
)

// loop is a connection whose reads are given and whose writes go nowhere.
type loopConn struct {
	net.Conn
	in bytes.Buffer
}

func (c *loopConn) Read(p []byte) (int, error)  { return c.in.Read(p) }
func (c *loopConn) Write(p []byte) (int, error) { return len(p), nil }

// tapScript drives a tap with frames, cut into pieces of a size.
type tapScript struct {
	t    *testing.T
	tap  *tap
	conn *loopConn
	at   int64
	cut  int
}

func newTapScript(t *testing.T, cut int) *tapScript {
	s := &tapScript{t: t, conn: &loopConn{}, cut: cut}
	s.tap = newTap(s.conn)
	s.tap.now = func() int64 { return s.at }
	s.write([]byte(xhttp2.ClientPreface))
	return s
}

func (s *tapScript) write(p []byte) {
	for ; len(p) > 0; p = p[min(s.cut, len(p)):] {
		if _, err := s.tap.Write(p[:min(s.cut, len(p))]); err != nil {
			s.t.Fatal(err)
		}
	}
}

func frames(f func(*xhttp2.Framer)) []byte {
	var b bytes.Buffer
	fr := xhttp2.NewFramer(&b, nil)
	f(fr)
	return b.Bytes()
}

func (s *tapScript) sends(f func(*xhttp2.Framer)) { s.write(frames(f)) }

func (s *tapScript) receives(f func(*xhttp2.Framer)) {
	s.conn.in.Write(frames(f))
	buf := make([]byte, s.cut)
	for s.conn.in.Len() > 0 {
		if _, err := s.tap.Read(buf); err != nil {
			s.t.Fatal(err)
		}
	}
}

func headersFrame(stream uint32, end bool) func(*xhttp2.Framer) {
	return func(f *xhttp2.Framer) {
		_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte("xyz"), EndHeaders: true, EndStream: end})
	}
}

// The windows by the script of RFC 9113: a stall begins with the byte that spends
// a window and ends with the update that opens it, however the bytes are cut.
func TestTapWindows(t *testing.T) {
	for _, cut := range []int{1, 7, 1 << 20} {
		s := newTapScript(t, cut)
		s.receives(func(f *xhttp2.Framer) {
			_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 9}, xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 100})
		})
		if got, _ := s.tap.read(); !got.seen || *got.maxStreams != 9 || got.initialWindow != 100 || s.tap.maxStreams() != 9 {
			t.Fatalf("settings: %+v", got)
		}
		s.sends(headersFrame(1, false))
		s.sends(func(f *xhttp2.Framer) { _ = f.WriteData(1, false, make([]byte, 60)) })
		s.at = 10
		s.sends(func(f *xhttp2.Framer) { _ = f.WriteData(1, false, make([]byte, 40)) }) // stream window spent
		s.at = 25
		if _, c := s.tap.read(); c.streamStalls != 1 || c.streamStallNs != 15 || c.connStalls != 0 {
			t.Errorf("cut %d: while it lasts: %+v", cut, c)
		}
		s.at = 30
		s.receives(func(f *xhttp2.Framer) { _ = f.WriteWindowUpdate(1, 70000) })
		s.at = 40
		// The connection's 65,535 are spent by this.
		s.sends(func(f *xhttp2.Framer) {
			for range 4 {
				_ = f.WriteData(1, false, make([]byte, 16358))
			}
			_ = f.WriteData(1, false, make([]byte, 3))
		})
		s.at = 45
		s.receives(func(f *xhttp2.Framer) { _ = f.WriteWindowUpdate(0, 1000) })
		// The last byte of a window with the end of the stream is no stall.
		s.sends(headersFrame(3, false))
		s.sends(func(f *xhttp2.Framer) { _ = f.WriteData(3, true, make([]byte, 100)) })
		s.receives(func(f *xhttp2.Framer) {
			_ = f.WriteRSTStream(1, xhttp2.ErrCodeRefusedStream)
			_ = f.WriteGoAway(3, xhttp2.ErrCodeNo, []byte("bye"))
			_ = f.WriteData(3, true, make([]byte, 5000)) // of no interest
		})
		_, c := s.tap.read()
		if c.streamStalls != 1 || c.streamStallNs != 20 || c.connStalls != 1 || c.connStallNs != 5 || c.goAways != 1 || c.resets["REFUSED_STREAM"] != 1 {
			t.Errorf("cut %d: %+v", cut, c)
		}
		if len(s.tap.streams) != 0 {
			t.Errorf("cut %d: %d streams are still followed", cut, len(s.tap.streams))
		}
	}
}

// A setting that grows the initial window opens streams that wait.
func TestTapSettingsOpenStreams(t *testing.T) {
	s := newTapScript(t, 100)
	s.at = 1
	s.receives(func(f *xhttp2.Framer) {
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0})
	})
	if s.tap.maxStreams() < 1<<30 {
		t.Error("a limit of streams where the peer set none")
	}
	s.receives(func(f *xhttp2.Framer) {
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 10})
	})
	s.sends(headersFrame(1, false))
	s.sends(func(f *xhttp2.Framer) { _ = f.WriteData(1, false, make([]byte, 10)) })
	s.at = 8
	s.receives(func(f *xhttp2.Framer) {
		_ = f.WriteSettingsAck()
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 11})
	})
	if _, c := s.tap.read(); c.streamStallNs != 7 {
		t.Errorf("%+v", c)
	}
}

func FuzzTap(f *testing.F) {
	f.Add([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frames(func(f *xhttp2.Framer) {
		_ = f.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0})
		_ = f.WriteWindowUpdate(1, 5)
	}))
	f.Add([]byte{}, []byte("\xff\xff\xff\x04\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, out, in []byte) {
		c := &loopConn{}
		tp := newTap(c)
		_, _ = tp.Write(out)
		c.in.Write(in)
		buf := make([]byte, 64)
		for c.in.Len() > 0 {
			_, _ = tp.Read(buf)
		}
		if len(tp.in.body) > keptPayload {
			t.Errorf("%d bytes of payload kept", len(tp.in.body))
		}
		tp.read()
	})
}

// A service whose windows are small holds sending up, and the result says so; one
// whose windows are not spent shows none.
func TestWindowStallsInTheResult(t *testing.T) {
	for _, window := range []int32{0, 65535} {
		s := startService(t, GRPCStream, "127.0.0.1:0")
		c := testConfig(s, Step{Index: 1, OfferedHz: 100, Duration: 400 * time.Millisecond})
		if window > 0 {
			// Two messages of 60 KiB are more than a frozen stream takes.
			c.Body, c.ReplyLength = make([]byte, 60<<10), 60<<10
			s.freezeAt(t, 10, c, 200*time.Millisecond)
		}
		r := runSteps(t, c, Hooks{})[0].Result
		h := r.HTTP2
		if h == nil || r.HTTP2Absent != "" || h.InitialWindowBytes < 65535 {
			t.Fatalf("window %d: %+v, absent %q", window, h, r.HTTP2Absent)
		}
		if stalled := h.StreamStallNs > 10e6; stalled != (window > 0) {
			t.Errorf("window %d: %+v", window, h)
		}
	}
}
