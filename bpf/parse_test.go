//go:build linux

package bpf

import (
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

func TestParseReportRefusesAHalfRecord(t *testing.T) {
	for _, n := range []int{1, headSize - 1, headSize + 1} {
		if _, _, err := parseReport(make([]byte, n)); err == nil {
			t.Errorf("%d bytes were accepted", n)
		}
	}
	if records, torn, err := parseReport(make([]byte, 2*headSize)); len(records) != 2 || torn != 0 || err != nil {
		t.Errorf("two empty heads: %d records, %d torn, %v", len(records), torn, err)
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
