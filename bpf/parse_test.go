//go:build linux

package bpf

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string][]int{
		"0\n": {0}, "0-1\n": {0, 1}, "0-2,5,7-8": {0, 1, 2, 5, 7, 8},
		"": nil, "x": nil, "2-1": nil, "0-99999999": nil, "1,0": nil, "0,": nil, "-1": nil,
	} {
		got, err := parseCPUList(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, text string) {
		if cpus, err := parseCPUList(text); (err == nil) == (len(cpus) == 0) {
			t.Errorf("%q: %v, %v", text, cpus, err)
		}
	})
}

func TestParseSymbol(t *testing.T) {
	for text, want := range map[string]kernelName{
		"schedule+0x12/0x34":              {"schedule", 0x12},
		"nf_hook+0x0/0x10 [nf_tables]":    {"nf_hook [nf_tables]", 0},
		"handle_softirqs.isra.0+0xa/0x20": {"handle_softirqs.isra.0", 0xa},
		"0xffff800080010000":              {},
		"":                                {},
		"name+":                           {},
	} {
		got, err := parseSymbol(text)
		if got != want || (err == nil) != (want.name != "") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

func FuzzParseSymbol(f *testing.F) {
	f.Add("schedule+0x12/0x34 [module]")
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseSymbol(text); (err == nil) == (n.name == "") {
			t.Errorf("%q: %+v, %v", text, n, err)
		}
	})
}

func TestParseReport(t *testing.T) {
	for _, test := range []struct{ bytes, records, rest int }{
		{0, 0, 0}, {1, 0, 1}, {headSize - 1, 0, headSize - 1}, {2*headSize + 3, 2, 3},
	} {
		records := 0
		rest, torn := parseReport(make([]byte, test.bytes), func(*reported) { records++ })
		if records != test.records || len(rest) != test.rest || torn != 0 {
			t.Errorf("%d bytes: %d records, %d torn, %d left", test.bytes, records, torn, len(rest))
		}
	}
	// A record with an account, and one whose account changed while it was written.
	for seq, want := range map[uint64]int{4: 1, 5: 0, 6: 0} {
		head, th := rungReportHead{HasAccount: 1, Seq: seq, Tid: 7}, rungThread{Seq: 4, Tid: 7}
		stream := slices.Concat(bytesOf(&head), bytesOf(&th), binary.NativeEndian.AppendUint64(nil, seq))
		records := 0
		rest, torn := parseReport(stream, func(r *reported) {
			if records++; r.head.Tid != 7 || r.thread.Tid != 7 {
				t.Errorf("thread %d, account of %d", r.head.Tid, r.thread.Tid)
			}
		})
		if records != want || torn != 1-want || len(rest) != 0 {
			t.Errorf("sequence %d: %d records, %d torn, %d bytes left", seq, records, torn, len(rest))
		}
		if rest, _ := parseReport(stream[:len(stream)-1], func(*reported) { t.Error("half a record was visited") }); len(rest) != len(stream)-1 {
			t.Errorf("half a record: %d bytes left of %d", len(rest), len(stream)-1)
		}
	}
}

func TestCommIsValidText(t *testing.T) {
	for name, want := range map[string]string{
		"loop-0": "loop-0", "\xff\xfebad": "\ufffdbad", "gr\xc3\xbc\xc3": "gr\u00fc\ufffd", "": "",
	} {
		var comm [16]int8
		for i := range len(name) {
			comm[i] = int8(name[i])
		}
		if got := commString(comm); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
