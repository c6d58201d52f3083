package capset

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Set{
		"all":                  1<<41 - 1,
		"none":                 0,
		"chown":                1,
		"CAP_BPF, cap_perfmon": 1<<39 | 1<<38,
		"syslog,syslog":        1 << 34,
		"bpf,perfmon,sys_ptrace,dac_read_search,checkpoint_restore,syslog": Agent,
		"agent":                  Agent,
		"checkpoint_restore,bpf": 1<<40 | 1<<39,
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("Parse(%q) = %#x, %v; want %#x", text, got, err, want)
		}
	}
	for _, text := range []string{"", "bpf,", "root", "bpf perfmon", "40"} {
		if got, err := Parse(text); err == nil || !strings.Contains(err.Error(), "unknown capability") {
			t.Errorf("Parse(%q) = %v, %v; want an error", text, got, err)
		}
	}
}

func TestStringParsesBack(t *testing.T) {
	for _, set := range []Set{None, All, Agent, 1 << 12, 1<<40 | 1} {
		got, err := Parse(set.String())
		if err != nil || got != set {
			t.Errorf("Parse(%q) = %v, %v; want %v", set.String(), got, err, set)
		}
	}
	if got := (Set(1)<<50 | 1).String(); got != "chown,50" {
		t.Errorf("unknown number: %q", got)
	}
}
