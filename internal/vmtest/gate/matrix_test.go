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
    programs_test.go:47: truth {"name":"waits","percent":0.125}
    programs_test.go:47: truth {"name":"waits","percent":0.04}
    stop_test.go:9: truth is not told: here
PASS
`

func TestParseFindings(t *testing.T) {
	got, err := ParseFindings(strings.NewReader(featureLog))
	if err != nil {
		t.Fatal(err)
	}
	want := Findings{
		Programs: []Program{{"on_fork", 58, 48, 0.169, 28.5}, {"on_switch", 3872, 222724, 208, 237.9}},
		Features: []Feature{{"throttled", "a bound"}},
		Truths:   []Truth{{"waits", 0.125}, {"waits", 0.04}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`a: program {"name":`, `a: feature {]`, `a: truth {"percent":"x"}`} {
		if _, err := ParseFindings(strings.NewReader(bad)); err == nil {
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
	found, err := ParseFindings(strings.NewReader(featureLog))
	if err != nil {
		t.Fatal(err)
	}
	exact := found
	exact.Features = []Feature{{"throttled", "exact, by thread"}}
	got := Table([]Row{
		{Kernel: "5.10.0-32-cloud-arm64", Lockdown: "off", Refused: "kernel 6.1 or newer: 5.10.0-32", Boots: 1},
		{Kernel: "6.1.0-57-cloud-arm64", Lockdown: "off", Checked: true, Findings: found, Passed: 62, Boots: 1},
		{Kernel: "6.18.15+deb13-cloud-arm64", Lockdown: "on", Checked: true, Findings: exact, Passed: 62, Boots: 2},
		{Kernel: "7.3.4", Lockdown: "on", Failed: strings.Repeat("Test|Something ", 9), Boots: 1},
	})
	const want = `| kernel | lock | check | tests | waits | quota | throttled | on-CPU | off-CPU | verified | load |
| --- | --- | --- | --: | --: | --: | --: | --: | --: | --: | --: |
| 5.10.0-32 | off | refused | – | – | – | – | – | – | – | – |
| 6.1.0-57 | off | ok, 2 | 62 | 0.12 | – | – | – | – | 222,724 | 0.3 |
| 6.18.15+deb13 | on | ok, 2 | 62 | 0.12 | – | – | – | – | 222,724 | 0.3 |
| 7.3.4 | on | – | **failed** | – | – | – | – | – | – | – |

- *throttled*: a bound on 6.1.0-57; exact, by thread on 6.18.15+deb13.
- 5.10.0-32, lockdown off: kernel 6.1 or newer: 5.10.0-32.
- 6.18.15+deb13, lockdown on: the guest panicked or hung; this is boot 2.
- 7.3.4, lockdown on: **Test|Something Test|Something Test|Something Test|Something Test|Something
  Test|Something Test|Something Test|Something Test|Something **
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTableWidth(t *testing.T) {
	r := Row{Kernel: "6.12.117+deb12-cloud-arm64", Lockdown: "off", Checked: true, Passed: 123}
	for _, c := range truths {
		r.Truths = append(r.Truths, Truth{c.name, 12.345})
	}
	r.Programs = []Program{{Name: "a", Verified: 999999, LoadMs: 99949}}
	r.Features = []Feature{{"throttled", strings.Repeat("exact ", 30)}}
	for line := range strings.Lines(Table([]Row{r}) + Legend) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestSplice(t *testing.T) {
	const document = "a\n<!-- kernels arm64 -->\nold\n<!-- /kernels arm64 -->\nb\n"
	got, err := Splice(document, "kernels arm64", "new\n")
	if want := strings.Replace(document, "old", "new", 1); got != want || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, name := range []string{"kernels amd64", "old"} {
		if _, err := Splice(document, name, ""); err == nil {
			t.Errorf("%s was found", name)
		}
	}
	if _, err := Splice("<!-- a -->\n", "a", ""); err == nil {
		t.Error("no end was found")
	}
}
