package gate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const featureLog = `=== RUN   TestEachProgram
    programs_test.go:83: program {"name":"on_fork","instructions":58,"verified":48,"verifyMs":0.169,"loadMs":28.5}
    programs_test.go:83: program {"name":"on_switch","instructions":3872,"verified":222724,"verifyMs":208,"loadMs":237.9}
    programs_test.go:163: feature {"name":"throttled","answer":"a bound"}
PASS
`

func TestParseFeatures(t *testing.T) {
	programs, features, err := ParseFeatures(strings.NewReader(featureLog))
	if err != nil {
		t.Fatal(err)
	}
	want := []Program{{"on_fork", 58, 48, 0.169, 28.5}, {"on_switch", 3872, 222724, 208, 237.9}}
	if diff := cmp.Diff(want, programs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Feature{{"throttled", "a bound"}}, features); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`a: program {"name":`, `a: feature {]`} {
		if _, _, err := ParseFeatures(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}

func TestMissing(t *testing.T) {
	missing, err := Missing([]byte(`[{"name":"Linux","found":"linux","status":"ok"},
		{"name":"kernel 6.1 or newer","found":"5.10.0-32","status":"missing","remedy":"boot"}]`))
	if diff := cmp.Diff([]string{"kernel 6.1 or newer: 5.10.0-32"}, missing); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, bad := range []string{"", "[]", "ok  Linux"} {
		if _, err := Missing([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTable(t *testing.T) {
	programs, features, err := ParseFeatures(strings.NewReader(featureLog))
	if err != nil {
		t.Fatal(err)
	}
	got := Table([]Row{
		{Kernel: "5.10.0-32", Lockdown: "none", Refused: "kernel 6.1 or newer: 5.10.0-32"},
		{Kernel: "6.1.0-57", Lockdown: "none", Check: "ok", Programs: programs, Features: features, Tests: "62 passed"},
		{Kernel: "6.1.0-57", Lockdown: "confidentiality", Check: "ok", Programs: programs[:1], Failed: "panic | oops"},
	})
	const want = "| kernel | lockdown | `rung check` | programs attached | verified, most | load, all | kernel tests | throttled |\n" +
		`| --- | --- | --- | --- | --- | --- | --- | --- |
| 5.10.0-32 | none | refused: kernel 6.1 or newer: 5.10.0-32 | – | – | – | – | – |
| 6.1.0-57 | none | ok | 2 | 222724 (on_switch) | 266 ms | 62 passed | a bound |
| 6.1.0-57 | confidentiality | ok | 1 | 48 (on_fork) | 28 ms | **panic \| oops** | – |

Instructions / verified / ms to load, by program:

| program | 6.1.0-57 |
| --- | --- |
| on_fork | 58 / 48 / 28 |
| on_switch | 3872 / 222724 / 238 |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
