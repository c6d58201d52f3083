package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungprof/rung/attribution"
)

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		v        float64
		decimals int
		want     string
	}{
		{0, 1, "0.0"}, {-0.04, 1, "0.0"}, {-0.06, 1, "−0.1"}, {12.345, 2, "12.35"}, {math.NaN(), 1, absent}, {math.Inf(1), 0, absent},
	} {
		if got := number(c.v, c.decimals); got != c.want {
			t.Errorf("number(%v, %d) = %q, want %q", c.v, c.decimals, got, c.want)
		}
	}
	for v, want := range map[float64]string{0.0312: "0.0312", 0.27: "0.270", 1.418: "1.42", 12.61: "12.6", 101.3: "101", 25248.7: "25249", 0: "0.00"} {
		if got := millis(v); got != want {
			t.Errorf("millis(%v) = %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{12.5: "12.5", 1200: "1200", 464.25: "464.2", 31558.4: "31558"} {
		if got := rate(v); got != want {
			t.Errorf("rate(%v) = %q, want %q", v, got, want)
		}
	}
}

func TestWrapText(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  []string
	}{
		{"", 10, []string{""}},
		{"one two three", 7, []string{"one two", "three"}},
		{"abcdefghij", 4, []string{"abcd", "efgh", "ij"}},
		{"日本語 日本", 5, []string{"日本", "語", "日本"}},
		{"Σ ± · –", 3, []string{"Σ ±", "· –"}},
	} {
		if diff := cmp.Diff(c.want, wrapText(c.text, c.width)); diff != "" {
			t.Errorf("%q at %d (-want +got):\n%s", c.text, c.width, diff)
		}
	}
	if got := wrapLines("wonderful x", 4, 10); !cmp.Equal(got, []string{"", "wonderful", "x"}) {
		t.Errorf("narrow first line: %q", got)
	}
}

// A table with more columns than fit goes on below itself; no cell is lost.
func TestManyArmsSplit(t *testing.T) {
	r := fourArms()
	for i := range 7 {
		c := r.Matched.Columns[0]
		c.Arm = fmt.Sprintf("arm-with-a-long-name-%d", i)
		r.Matched.Columns = append(r.Matched.Columns, c)
	}
	var out bytes.Buffer
	if err := Terminal(&out, r, TerminalOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Matched.Columns {
		if !strings.Contains(out.String(), c.Arm) {
			t.Errorf("%s is not in the output", c.Arm)
		}
	}
	for line := range strings.Lines(out.String()) {
		if textWidth(strings.TrimSuffix(line, "\n")) > DefaultWidth {
			t.Errorf("too wide: %s", line)
		}
	}
}

func TestManyGroupsAreGathered(t *testing.T) {
	a := account()
	for i := range 20 {
		g := group(fmt.Sprintf("pool-with-name-%c", 'a'+i), 2, 1e6, 0, 0, 0, 0)
		a.Groups = append(a.Groups, g)
		a.Total.OnCPU.Ns += g.OnCPU.Ns
		a.Total.Lifetime.Ns += g.Lifetime.Ns
		a.Total.Threads += g.Threads
	}
	block := accountTable(a, DefaultWidth)
	checkAccountBlock(t, block)
	heads := ""
	for _, c := range block.columns {
		heads += strings.Join(c.head, " ") + "|"
	}
	if !strings.Contains(heads, "other groups") || !strings.Contains(heads, "worker-* 4 threads|loop-* 1 thread|") || !strings.HasSuffix(heads, "all 45 threads|") {
		t.Errorf("columns are %s", heads)
	}
	if parts := splitTable(block, DefaultWidth); len(parts) != 1 {
		t.Errorf("the table takes %d parts", len(parts))
	}
	if whole := accountTable(a, 0); len(whole.columns) != 1+len(a.Groups)+1 {
		t.Errorf("without a limit there are %d columns", len(whole.columns))
	}
}

func TestWorstCheck(t *testing.T) {
	check := func(value, bound float64) attribution.Check {
		return attribution.Check{Name: "c", Value: value, Want: 1, Bound: &bound, OK: math.Abs(value-1) <= bound}
	}
	a := &Arm{}
	for i, c := range []attribution.Check{check(1.02, 0.1), check(1.01, 0.02), check(0.99, 0.5), {Name: "c", Absent: "not read"}} {
		s := step(i, fmt.Sprintf("%02d-1", i), 1, 1)
		s.Checks = []attribution.Check{c}
		a.Steps = append(a.Steps, s)
	}
	if got, ok := worstCheck(a, "c"); !ok || got.step != "01-1" {
		t.Errorf("worst is %s, %v", got.step, ok)
	}
	a.Steps = a.Steps[3:]
	if got, ok := worstCheck(a, "c"); !ok || got.Absent == "" {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := worstCheck(a, "other"); ok {
		t.Error("found a check that no step has")
	}
}

func TestOtherIsNamedWhereItWeighs(t *testing.T) {
	r := fourArms()
	row := &r.Matched.Columns[2].Table.Rows[7]
	row.Share.Value = 0.12
	row.Functions = []attribution.Function{{Name: "main.planted", Share: 0.11}}
	notes := otherNotes(&r.Matched)
	if len(notes) != 1 || !strings.Contains(notes[0], "grpc-unary: no rule knows 12.0 %") || !strings.Contains(notes[0], "main.planted 11.0 %") {
		t.Errorf("notes are %q", notes)
	}
}

func TestShellQuote(t *testing.T) {
	for in, want := range map[string]string{"a/b-1.gz": "a/b-1.gz", "it's here": `'it'\''s here'`, "": "''", "$(x)": "'$(x)'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}

// Whatever a name holds, it neither steers the terminal nor widens the output.
func FuzzTerminal(f *testing.F) {
	f.Add("rest-h1", "futex", uint8(100))
	f.Add("\x1b[2J\r\n", "日本語日本語日本語日本語日本語日本語日本語日本語日本語", uint8(40))
	f.Add("a\u202eb\u200b", "👩\u200d👩\u200d👧", uint8(60))
	f.Fuzz(func(t *testing.T, name, text string, width uint8) {
		r := troubled()
		r.Arms[0].Name = name
		r.Arms[0].Steps[1].Account.Groups[0].Group = name
		r.Arms[0].Steps[1].Account.Total.Blocked[0].Reason = text
		r.Arms[0].Steps[1].Losses = []Loss{{Name: text, Count: 1, Meaning: name}}
		r.Arms[0].Warnings = []string{text, name + text}
		var out bytes.Buffer
		if err := Terminal(&out, r, TerminalOptions{Width: int(width) + 1}); err != nil {
			t.Fatal(err)
		}
		limit := max(int(width)+1, 40)
		for _, line := range strings.Split(out.String(), "\n") {
			if strings.ContainsAny(line, "\x1b\r\t\x00\x07") {
				t.Fatalf("control character in %q", line)
			}
			if w := textWidth(line); w > limit && !strings.Contains(line, "go tool pprof") {
				t.Fatalf("%d columns of %d: %q", w, limit, line)
			}
		}
	})
}
