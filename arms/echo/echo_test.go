package echo

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/rungprof/rung/arms/payload"

	echov1 "github.com/rungprof/rung/arms/echo/v1"
)

func newService(t testing.TB, c Config) *Service {
	t.Helper()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEchoChangesNothing(t *testing.T) {
	for _, passes := range []int{1, 2, 5} {
		s := newService(t, Config{CodecPasses: passes})
		for _, tier := range payload.Tiers() {
			out, err := s.JSON(payload.JSON(tier))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(out, payload.JSON(tier)) {
				t.Errorf("%s, %d passes: JSON echo %s", tier, passes, out)
			}
			in := payload.Of(tier).Proto()
			reply, err := s.Proto(in)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(reply, payload.Of(tier).Proto()) {
				t.Errorf("%s, %d passes: protobuf echo %v", tier, passes, reply)
			}
		}
		requests, extra := s.Handled()
		if requests != 4 || extra != 4*uint64(passes-1) {
			t.Errorf("%d passes: %d requests and %d extra passes, want 4 and %d", passes, requests, extra, 4*(passes-1))
		}
	}
}

func TestTouchReadsTheSameInBothEncodings(t *testing.T) {
	for _, tier := range payload.Tiers() {
		h := payload.Of(tier)
		if j, p := touchJSON(h), touchProto(h.Proto()); j != p {
			t.Errorf("%s: touched %d as JSON, %d as protobuf", tier, j, p)
		}
	}
	h := payload.Of(payload.Realistic)
	before := touchJSON(h)
	h.Order.Items[3].Title += "!"
	if touchJSON(h) == before {
		t.Error("a changed field did not show")
	}
}

// TestCodecPassCostsACodecPass: the CPU of three passes is well above that of
// one, in either encoding. The least of several rounds is compared, so that
// other load on the host does not decide.
func TestCodecPassCostsACodecPass(t *testing.T) {
	once, thrice := newService(t, Config{CodecPasses: 1}), newService(t, Config{CodecPasses: 3})
	body := payload.JSON(payload.Realistic)
	ratio := float64(cpuNs(t, func() { mustJSON(t, thrice, body) })) / float64(cpuNs(t, func() { mustJSON(t, once, body) }))
	t.Logf("JSON: three passes cost %.2f times one", ratio)
	if ratio < 1.8 {
		t.Errorf("JSON: three passes cost %.2f times one", ratio)
	}
	// With one pass Proto leaves all of it to gRPC's codec: two extra ones are
	// compared with a single extra one.
	twice := newService(t, Config{CodecPasses: 2})
	in := payload.Of(payload.Realistic).Proto()
	ratio = float64(cpuNs(t, func() { mustProto(t, thrice, in) })) / float64(cpuNs(t, func() { mustProto(t, twice, in) }))
	t.Logf("protobuf: two extra passes cost %.2f times one", ratio)
	if ratio < 1.3 {
		t.Errorf("protobuf: two extra passes cost %.2f times one", ratio)
	}
}

func TestPlantCosts(t *testing.T) {
	plain, planted := newService(t, Config{CodecPasses: 1}), newService(t, Config{CodecPasses: 1, Plant: 200 * time.Microsecond})
	body := payload.JSON(payload.Tiny)
	extra := cpuNs(t, func() { mustJSON(t, planted, body) }) - cpuNs(t, func() { mustJSON(t, plain, body) })
	if extra < 100_000 || extra > 400_000 {
		t.Errorf("200 µs planted cost %v", time.Duration(extra))
	}
}

func TestJSONRefuses(t *testing.T) {
	s := newService(t, Config{CodecPasses: 1})
	for _, body := range []string{"", "{", "[]", `{"name":1}`, `{"name":"a"} x`} {
		if out, err := s.JSON([]byte(body)); err == nil {
			t.Errorf("%q was answered with %q", body, out)
		}
	}
	if requests, _ := s.Handled(); requests != 0 {
		t.Errorf("%d refused requests count as handled", requests)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, bad := range []Config{{}, {CodecPasses: -1}, {CodecPasses: 65}, {CodecPasses: 1, Plant: -1}, {CodecPasses: 1, Plant: time.Minute}} {
		if _, err := New(bad); err == nil {
			t.Errorf("%+v was accepted", bad)
		}
	}
}

// cpuNs is the least CPU time of one call of f, over rounds of 100 calls.
func cpuNs(t *testing.T, f func()) int64 {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rounds, calls = 9, 100
	best := int64(0)
	for range rounds {
		before := threadCPUNs(t)
		for range calls {
			f()
		}
		if took := threadCPUNs(t) - before; best == 0 || took < best {
			best = took
		}
	}
	return best / calls
}

func threadCPUNs(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

func mustJSON(t testing.TB, s *Service, body []byte) {
	if _, err := s.JSON(body); err != nil {
		t.Fatal(err)
	}
}

func mustProto(t testing.TB, s *Service, in *echov1.Hello) {
	if _, err := s.Proto(in); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkJSONRealistic(b *testing.B) {
	s, body := newService(b, Config{CodecPasses: 1}), payload.JSON(payload.Realistic)
	b.ReportAllocs()
	for b.Loop() {
		mustJSON(b, s, body)
	}
}

func BenchmarkProtoPassRealistic(b *testing.B) {
	s, in := newService(b, Config{CodecPasses: 2}), payload.Of(payload.Realistic).Proto()
	b.ReportAllocs()
	for b.Loop() {
		mustProto(b, s, in)
	}
}
