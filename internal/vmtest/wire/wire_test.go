package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestFramesComeBack(t *testing.T) {
	frames := []Frame{
		{Kind: KindBoot, Data: []byte(`{"Release":"6.12"}`)},
		{Kind: KindStart, Payload: 513, Data: []byte{}},
		{Kind: KindStdout, Payload: 513, Data: bytes.Repeat([]byte{0, 255}, MaxData/2)},
		{Kind: KindDone, Data: []byte{}},
	}
	var buf bytes.Buffer
	for _, f := range frames {
		if err := Write(&buf, f); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range frames {
		got, err := Read(&buf)
		if err != nil || got.Kind != want.Kind || got.Payload != want.Payload || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("got kind %d payload %d, %d bytes, %v; want kind %d payload %d, %d bytes",
				got.Kind, got.Payload, len(got.Data), err, want.Kind, want.Payload, len(want.Data))
		}
	}
	if _, err := Read(&buf); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
}

func TestBadFrames(t *testing.T) {
	if err := Write(io.Discard, Frame{Kind: KindStdout, Data: make([]byte, MaxData+1)}); err == nil {
		t.Error("a frame above MaxData was written")
	}
	for name, c := range map[string]struct {
		in   []byte
		want error // nil: any
	}{
		"short header": {[]byte{3, 0}, io.ErrUnexpectedEOF},
		"short data":   {[]byte{3, 0, 0, 0, 0, 0, 2, 'x'}, io.ErrUnexpectedEOF},
		"no data":      {[]byte{3, 0, 0, 0, 0, 0, 2}, io.ErrUnexpectedEOF},
		"kind 0":       {make([]byte, headerLen), nil},
		"kind 8":       {[]byte{8, 0, 0, 0, 0, 0, 0}, nil},
		"huge":         {[]byte{3, 0, 0, 255, 255, 255, 255}, nil},
	} {
		f, err := Read(bytes.NewReader(c.in))
		if err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %+v, %v; want error %v", name, f, err, c.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte{3, 0, 0, 0, 0, 0, 2, 'x', 'y'})
	f.Add([]byte{7, 0, 0, 0, 0, 0, 0})
	f.Add([]byte{4, 1, 2, 0, 1, 0, 1})
	f.Fuzz(func(t *testing.T, in []byte) {
		frame, err := Read(bytes.NewReader(in))
		if err != nil {
			if frame.Kind != 0 || frame.Data != nil {
				t.Fatalf("error %v and value %+v", err, frame)
			}
			return
		}
		var out bytes.Buffer
		if err := Write(&out, frame); err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(in, out.Bytes()) {
			t.Fatalf("%x was written back as %x", in, out.Bytes())
		}
	})
}
