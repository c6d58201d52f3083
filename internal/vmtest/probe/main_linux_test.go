package main

import (
	"strings"
	"testing"

	"github.com/rungprof/rung/internal/vmtest/capset"
)

func TestParseCaps(t *testing.T) {
	sets, err := parseCaps(strings.NewReader("Name:\tprobe\nCapInh:\t0000000000000000\nCapEff:\t000001c400080004\nSeccomp:\t0\n"))
	if err != nil || len(sets) != 2 || sets["CapEff"] != capset.Agent || sets["CapInh"] != capset.None {
		t.Errorf("%v, %v", sets, err)
	}
	if sets, err := parseCaps(strings.NewReader("CapEff:\tzz\n")); err == nil {
		t.Errorf("bad digits: %v", sets)
	}
}

func FuzzParseCaps(f *testing.F) {
	f.Add("CapEff:\t000001c000080004\n")
	f.Fuzz(func(t *testing.T, text string) {
		sets, err := parseCaps(strings.NewReader(text))
		if err != nil && sets != nil {
			t.Fatal("error and value")
		}
	})
}
