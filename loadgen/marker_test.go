package loadgen

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

func TestMarkerLine(t *testing.T) {
	var b bytes.Buffer
	m := &rungv1.Marker{Run: "r", Arm: "a", Step: "01-100", Edge: rungv1.Marker_EDGE_END, OfferedHz: 100, AtMonoNs: 7, BootId: "b", AtWall: "2026-01-02T03:04:05Z"}
	if err := WriteMarker(&b, m); err != nil {
		t.Fatal(err)
	}
	const want = `#RUNG-STEP {"run":"r","arm":"a","step":"01-100","edge":"EDGE_END","offeredHz":100,"atMonoNs":"7","bootId":"b","atWall":"2026-01-02T03:04:05Z"}` + "\n"
	if b.String() != want {
		t.Errorf("got  %swant %s", b.String(), want)
	}
	got, ok, err := ParseMarker(b.Bytes())
	if !ok || err != nil || !proto.Equal(got, m) {
		t.Errorf("%v, %v, %v", got, ok, err)
	}
}

func TestNoMarkers(t *testing.T) {
	for line, marker := range map[string]bool{
		"": false, "hello": false, "#RUNG-STEP": false, " #RUNG-STEP {}": false,
		"#RUNG-STEP {": true, "#RUNG-STEP {}": true, `#RUNG-STEP {"edge":"EDGE_SIDE"}`: true, `#RUNG-STEP {"edge":1,"x":2}`: true,
	} {
		m, ok, err := ParseMarker([]byte(line))
		if m != nil || ok != marker || (err != nil) != marker {
			t.Errorf("%q: %v, %v, %v", line, m, ok, err)
		}
	}
}

func FuzzParseMarker(f *testing.F) {
	f.Add([]byte(`#RUNG-STEP {"run":"r","step":"01-100","edge":"EDGE_START","offeredHz":1e3,"atMonoNs":"7"}`))
	f.Add([]byte("#RUNG-STEP {}"))
	f.Add([]byte("text"))
	f.Fuzz(func(t *testing.T, line []byte) {
		m, ok, err := ParseMarker(line)
		if (m != nil) != (ok && err == nil) || err != nil && !ok {
			t.Fatalf("%q: %v, %v, %v", line, m, ok, err)
		}
		if m == nil {
			return
		}
		var b bytes.Buffer
		if err := WriteMarker(&b, m); err != nil {
			t.Fatal(err)
		}
		if again, ok, err := ParseMarker(b.Bytes()); !ok || err != nil || !proto.Equal(again, m) && m.OfferedHz == m.OfferedHz {
			t.Fatalf("%q came back as %v, %v, %v", b.Bytes(), again, ok, err)
		}
	})
}
