package attribution

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestRuleFileErrors(t *testing.T) {
	const ok = "layers:\n  - name: codec\n    match:\n      - prefix: encoding/\n"
	for name, c := range map[string]struct {
		file, want string
	}{
		"unknown key at the top":   {ok + "layres: []\n", `t.yaml:5:1: unknown key "layres"`},
		"unknown key in a layer":   {"layers:\n  - name: codec\n    matches: []\n", `t.yaml:3:5: unknown key "matches"`},
		"unknown key in a clause":  {"layers:\n  - name: codec\n    match:\n      - prefxi: encoding/\n", `t.yaml:4:9: unknown key "prefxi"`},
		"unknown key in idle":      {ok + "idle:\n  - reasons: futex\n", `t.yaml:6:5: unknown key "reasons"`},
		"bad regexp":               {"layers:\n  - name: codec\n    match:\n      - regexp: \"a(b\"\n", "t.yaml:4:17: bad regexp: error parsing regexp: missing closing ): `a(b`"},
		"unbalanced regexp":        {"layers:\n  - name: codec\n    match:\n      - regexp: \"a)|(b\"\n", "t.yaml:4:17: bad regexp: error parsing regexp: unexpected ): `a)|(b`"},
		"duplicate layer":          {ok + "  - name: codec\n    match:\n      - prefix: json.\n", `t.yaml:5:11: layer "codec" is declared twice`},
		"duplicate key":            {ok + "layers: []\n", `t.yaml:5:1: mapping key "layers" already defined at [1:1]`},
		"unknown layer in order":   {"order: [codec, codek]\n" + ok, `t.yaml:1:16: layer "codek": unknown; there is codec`},
		"layer twice in order":     {"order: [codec, codec]\n" + ok, `t.yaml:1:16: layer "codec" stands twice in the order`},
		"other is implicit":        {"layers:\n  - name: other\n    match:\n      - prefix: x.\n", "t.yaml:2:11: layer \"other\" is implicit: what no rule names"},
		"no clause":                {"layers:\n  - name: codec\n", `t.yaml:2:11: layer "codec" has no match clause`},
		"nameless layer":           {"layers:\n  - match:\n      - prefix: x.\n", "t.yaml: a layer has no name"},
		"empty file":               {"", "t.yaml: empty"},
		"no layer":                 {"idle:\n  - reason: futex\n", "t.yaml: no layer is declared; declare at least one under `layers`"},
		"two documents":            {ok + "---\n" + ok, "t.yaml: more than one YAML document"},
		"empty clause":             {"layers:\n  - name: a\n    match:\n      - {}\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all glob":           {"layers:\n  - name: a\n    match:\n      - glob: \"*\"\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all of Go":          {"layers:\n  - name: a\n    match:\n      - glob: \"*.*\"\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all regexp":         {"layers:\n  - name: a\n    match:\n      - regexp: \".+\"\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all mapping":        {"layers:\n  - name: a\n    match:\n      - mapping: \"*\"\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all state":          {"layers:\n  - name: a\n    match:\n      - state: on-cpu\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all thread group":   {"layers:\n  - name: a\n    match:\n      - thread_group: \"*\"\n", "t.yaml:4:9: the clause matches every frame, which would hide `other`"},
		"catch-all in two clauses": {"layers:\n  - name: a\n    match:\n      - regexp: \"[a-n].*\"\n      - regexp: \"[^a-n].*\"\n", "t.yaml:2:11: the clauses of layer \"a\" together match every frame, which would hide `other`"},
		"catch-all in two layers":  {"layers:\n  - name: a\n    match:\n      - regexp: \"[a-n].*\"\n  - name: b\n    match:\n      - regexp: \"[^a-n].*\"\n", "t.yaml: the layers together match every frame, which would hide `other`"},
		"catch-all transparent":    {ok + "transparent:\n  - glob: \"*\"\n", "t.yaml:6:5: the clause matches every frame, which would hide `other`"},
		"catch-all idle":           {ok + "idle:\n  - thread_group: \"*\"\n", "t.yaml:6:5: the idle rule takes every wait of every thread; name a thread group or a reason"},
		"unknown entry":            {"layers:\n  - name: a\n    match:\n      - entry: syscal\n", `t.yaml:4:16: entry "syscal": unknown; there is syscall, page fault, interrupt, kernel`},
		"code and kernel at once":  {"layers:\n  - name: a\n    match:\n      - prefix: x.\n        syscall: read\n", "t.yaml:4:9: a clause on functions or mappings and on kernel entries can never match; make two"},
		"number for a string":      {"layers:\n  - name: 3\n    match:\n      - prefix: x.\n", "t.yaml:2:11: want a string (quote it if it is one)"},
		"empty string":             {"layers:\n  - name: a\n    match:\n      - prefix: \"\"\n", "t.yaml:4:17: an empty string matches nothing or everything; leave the key out"},
		"empty list":               {"layers:\n  - name: a\n    match:\n      - prefix: []\n", "t.yaml:4:17: empty list; leave the key out"},
		"clause is a string":       {"layers:\n  - name: a\n    match:\n      - encoding/\n", "t.yaml:4:9: want keys and values"},
		"not YAML":                 {"layers: [\n", "t.yaml:1:9: sequence end token ']' not found"},
		"alias":                    {"layers:\n  - name: a\n    match:\n      - thread_group: *x\n", `t.yaml:4:24: could not find alias "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseRules(Source{File: "t.yaml", Data: []byte(c.file)})
			var re *RuleError
			if !errors.As(err, &re) || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestComposition(t *testing.T) {
	file := Source{File: "mine.yaml", Data: []byte(`
order: [database, codec]
layers:
  - name: database
    about: queries
    match:
      - prefix: database/sql.
  - name: application
    match:
      - prefix: github.com/acme/shop/
  - name: framework
    match:
      - prefix: encoding/json.Valid
transparent:
  - prefix: github.com/acme/shop/retry.
idle:
  - thread_group: "worker-*"
    reason: futex
`)}
	goSource, err := PresetSource("go")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := ParseRules(Source{File: "preset go", Data: goSource}, file)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"database", "codec", "syscalls", "interrupt", "runtime", "transport", "framework", "application", Other}
	if got := rules.Layers(); !slices.Equal(got, want) {
		t.Errorf("layers %v, want %v", got, want)
	}
	for function, layer := range map[string]string{
		"database/sql.(*DB).Query":    "database",
		"github.com/acme/shop/x.F":    "application",
		"main.main":                   "application",
		"encoding/json.Valid":         "framework", // the later file is tried first
		"encoding/json.Marshal":       "codec",
		"github.com/acme/other/x.F":   Other,
		"github.com/acme/shop/retry.": "application",
	} {
		if got := rules.names[rules.layerOf(subject{function: function})]; got != layer {
			t.Errorf("%s is in %s, want %s", function, got, layer)
		}
	}
	if !rules.isTransparent(subject{function: "github.com/acme/shop/retry.Do"}) || !rules.isTransparent(subject{function: "runtime.memmove"}) {
		t.Error("transparent lists are not joined")
	}
	if idle, _ := rules.isIdle("worker-*", "", "futex"); !idle {
		t.Error("the later file's idle rule does not come first")
	}
	if err := rules.Check("databse"); err == nil || !strings.Contains(err.Error(), "database") {
		t.Errorf("unknown layer: error %v does not list the known ones", err)
	}
}

func TestPresets(t *testing.T) {
	if !slices.Contains(Presets(), "go") {
		t.Fatalf("presets %v lack go", Presets())
	}
	for _, name := range Presets() {
		mustPreset(t, name)
	}
	_, err := Preset("goo")
	if err == nil || !strings.Contains(err.Error(), "go") {
		t.Errorf("unknown preset: %v", err)
	}
	want := []string{"syscalls", "interrupt", "runtime", "codec", "transport", "framework", "application", Other}
	if got := mustPreset(t, "go").Layers(); !slices.Equal(got, want) {
		t.Errorf("layers %v, want %v", got, want)
	}
}

func TestClauseConditions(t *testing.T) {
	rules, err := ParseRules(Source{File: "t.yaml", Data: []byte(`
layers:
  - name: reads
    match:
      - syscall: ["read*", recvfrom]
  - name: faults
    match:
      - entry: page fault
  - name: compiler
    match:
      - thread_group: "C* CompilerThre"
  - name: jvm
    match:
      - mapping: "*/libjvm.so"
  - name: mine
    match:
      - glob: "a.?"
      - regexp: "b|c"
      - prefix: [d., "e[...]"]
        state: on-cpu
`)})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(name string) subject { return subject{function: name, mapping: MappingEntry} }
	for s, want := range map[subject]string{
		entry("syscall:readv"):                          "reads",
		entry("syscall:recvfrom"):                       "reads",
		entry("syscall:write"):                          Other,
		entry(EntryFault):                               "faults",
		entry(EntryInterrupt):                           Other,
		{function: "readv"}:                             Other,
		{function: "x", threadGroup: "C* CompilerThre"}: "compiler",
		{function: EntryFault, mapping: MappingEntry, threadGroup: "C* CompilerThre"}: "faults",
		{function: "x", mapping: "/opt/lib/libjvm.so"}:                                "jvm",
		{function: "x", mapping: "libjvm.so"}:                                         Other,
		{function: "a.x"}:                                                             "mine",
		{function: "a.xy"}:                                                            Other,
		{function: "b"}:                                                               "mine",
		{function: "bc"}:                                                              Other, // anchored
		{function: "d.x", state: "on-cpu"}:                                            "mine",
		{function: "e[...]x", state: "on-cpu"}:                                        "mine",
		{function: "d.x", state: "blocked"}:                                           Other,
	} {
		if got := rules.names[rules.layerOf(s)]; got != want {
			t.Errorf("%+v is in %s, want %s", s, got, want)
		}
	}
}

func TestMatchGlob(t *testing.T) {
	for _, c := range []struct {
		glob, s string
		want    bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"a*b", "ab", true}, {"a*b", "axxb", true}, {"a*b", "axxbc", false},
		{"*a*a*", "xaya", true}, {"*a*a*", "xay", false}, {"?", "", false}, {"??", "ab", true}, {"a[b]", "ab", false},
		{"a[b]", "a[b]", true}, {"worker-*", "worker-*", true}, {"**", "x", true}, {"*ab", "aab", true},
	} {
		if got := matchGlob(c.glob, c.s); got != c.want {
			t.Errorf("matchGlob(%q, %q) = %v", c.glob, c.s, got)
		}
	}
}
