package cgroup

import (
	"strings"
	"testing"
)

func TestParseQuota(t *testing.T) {
	for text, want := range map[string]struct {
		quota   Quota
		limited bool
		bad     bool
	}{
		"max 100000\n":     {quota: Quota{PeriodUsec: 100000}},
		"40000 100000\n":   {quota: Quota{40000, 100000}, limited: true},
		"250000 100000":    {quota: Quota{250000, 100000}, limited: true},
		"":                 {bad: true},
		"max\n":            {bad: true},
		"max 0\n":          {bad: true},
		"0 100000\n":       {bad: true},
		"-1 100000\n":      {bad: true},
		"40000 100000 5\n": {bad: true},
	} {
		quota, limited, err := ParseQuota(strings.NewReader(text))
		if quota != want.quota || limited != want.limited || (err != nil) != want.bad {
			t.Errorf("ParseQuota(%q) = %v, %v, %v", text, quota, limited, err)
		}
	}
}

func FuzzParseCPUStat(f *testing.F) {
	f.Add(pureV2["cg/pod/cpu.stat"])
	f.Add(hybrid["cg/cpu/pod/cpu.stat"])
	f.Add("usage_usec 99999999999999999999\n")
	f.Add("usage_usec\n")
	f.Fuzz(func(t *testing.T, text string) {
		stat, err := parseCPUStat([]byte(text))
		if err != nil && stat != (CPUStat{}) {
			t.Errorf("both an error and figures: %v, %+v", err, stat)
		}
		if err == nil && strings.HasPrefix(text, "usage_usec ") && !stat.UsageUsec.OK {
			t.Error("usage_usec overlooked")
		}
	})
}

func FuzzParseQuota(f *testing.F) {
	f.Add("max 100000\n")
	f.Add("40000 100000\n")
	f.Fuzz(func(t *testing.T, text string) {
		quota, limited, err := ParseQuota(strings.NewReader(text))
		if err != nil && (limited || quota != (Quota{})) {
			t.Errorf("both an error and a quota: %v, %v", err, quota)
		}
		if limited && !(quota.CPUs() > 0) {
			t.Errorf("%q limits to %v CPUs", text, quota.CPUs())
		}
	})
}

func FuzzParseUint(f *testing.F) {
	f.Add("4000999\n")
	f.Add("-1\n")
	f.Fuzz(func(t *testing.T, text string) {
		if value, err := parseUint([]byte(text)); err != nil && value != 0 {
			t.Errorf("both an error and %d", value)
		}
	})
}
