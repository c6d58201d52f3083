package attribution

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseFolded(t *testing.T) {
	p, err := ParseFolded(strings.NewReader("# comment\n\nmain.main;a b;c_[i] 3\r\nx;tcp_sendmsg_[k];" + NoteTruncated + "\t4\nf;" + EntryFault + " 0\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Stack{
		{Frames: []Frame{{"c", ""}, {"a b", ""}, {"main.main", ""}}, Block: NoBlock, Count: 3, Value: 3},
		{Frames: []Frame{{NoteTruncated, MappingNote}, {"tcp_sendmsg", MappingKernel}, {"x", ""}}, Block: NoBlock, Count: 4, Value: 4},
		{Frames: []Frame{{EntryFault, MappingEntry}, {"f", ""}}, Block: NoBlock},
	}
	if diff := cmp.Diff(want, p.Stacks); diff != "" {
		t.Errorf("stacks differ (-want +got):\n%s", diff)
	}
}

func TestParseFoldedErrors(t *testing.T) {
	for in, want := range map[string]string{
		"":                           "no folded stack",
		"# only a comment\n":         "no folded stack",
		"a;b 1\na;b\n":               "line 2: no count",
		"a 1\n\na;b x\n":             `line 3: count "x"`,
		"a;b -1\n":                   `line 1: count "-1"`,
		"a;b 1.5\n":                  `line 1: count "1.5"`,
		"a;b 99999999999999999999\n": "line 1: count",
		"a;;b 1\n":                   "line 1: frame 2 is empty",
		" 1\n":                       "line 1: no count",
		"a 1\n" + strings.Repeat("a;", maxFoldedLine) + "a 1\n": "line 2: longer than",
	} {
		if p, err := ParseFolded(strings.NewReader(in)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.30q: %v, error %v; want %s", in, p, err, want)
		}
	}
}

func FuzzFolded(f *testing.F) {
	f.Add("main.main;work 42\n")
	f.Add("a;b_[k];" + NoteLost + " 1\nsyscall:read 2")
	f.Add("# x\n\n;; 9")
	rules := mustPreset(f, "go")
	f.Fuzz(func(t *testing.T, in string) {
		p, err := ParseFolded(strings.NewReader(in))
		if (err == nil) == (p == nil) {
			t.Fatalf("profile %v, error %v", p, err)
		}
		if err != nil {
			return
		}
		o := Options{Charge: Owner, KernelToOwner: true}
		if table, err := Attribute(p, rules, o); err == nil {
			checkConservation(t, p, table, o)
		}
	})
}

func FuzzRules(f *testing.F) {
	data, err := PresetSource("go")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte("layers:\n  - name: a\n    match:\n      - {prefix: x, regexp: 'a|b', state: on-cpu}\n"))
	f.Add([]byte("order: [b]\nlayers: [{name: b, match: [{syscall: [a, b]}]}]\nidle: [{reason: futex, idle: false}]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rules, err := ParseRules(Source{File: "f", Data: data})
		if (err == nil) == (rules == nil) {
			t.Fatalf("rules %v, error %v", rules, err)
		}
		if err != nil {
			return
		}
		p := &Profile{Stacks: []Stack{st("runtime.memmove", "main.main"), st("k:x", "e:syscall:read", "y")}}
		o := Options{Charge: Owner}
		table, err := Attribute(p, rules, o)
		if err != nil {
			t.Fatal(err)
		}
		checkConservation(t, p, table, o)
	})
}
