package report

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostileNames are what a process may call its threads: 15 bytes of anything.
var hostileNames = []string{
	"\x1b[2J\x1b[1;31mroot", "a|b|c|d|e|f|g|h", "one\ntwo\r\n# three", "\xff\xfe\xc0\x80 bad", "\x00\x07\x08\x7f\u0085\u009b31m", "a\u202eb\u200b\ufeff\u2066",
	"`*_~[x](y)<b>", "</td><script>", "&lt;&amp;&#x1b;", "\\|\\\\||", "  \t  ", "| --- | --- |", "日本語ス", "-- \"quoted\" '",
}

// hostile is a report whose every name from outside is one of them.
func hostile(name string) *Report {
	r := troubled()
	r.Title, r.Dir, r.Warnings = name, name, []string{name}
	a := &r.Arms[0]
	a.Name, a.Warnings = name, []string{name}
	for i := range a.Steps {
		s := &a.Steps[i]
		s.Warnings, s.Losses = []string{name}, []Loss{{Name: name, Count: 1, Meaning: name}}
		if s.Account == nil {
			continue
		}
		for j := range s.Account.Groups {
			s.Account.Groups[j].Group = name
		}
		for j := range s.Account.Total.Blocked {
			b := &s.Account.Total.Blocked[j]
			b.Reason, b.Object = name, name
			for k := range b.Wakers {
				b.Wakers[k].Waker, b.Wakers[k].Comm = name, name
			}
		}
	}
	return r
}

// TestHostileNames: no name acts on a terminal, breaks a table or a document.
func TestHostileNames(t *testing.T) {
	unescaped := regexp.MustCompile(`\\.|\|`)
	for _, name := range hostileNames {
		r := hostile(name)
		var terminal, markdown, object bytes.Buffer
		if err := Terminal(&terminal, r, TerminalOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := Markdown(&markdown, r); err != nil {
			t.Fatal(err)
		}
		if err := JSON(&object, r); err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{"terminal": terminal.String(), "Markdown": markdown.String()} {
			if !utf8.ValidString(text) {
				t.Errorf("%q: %s is not UTF-8", name, where)
			}
			if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf)) }); i >= 0 {
				t.Errorf("%q: %s has %q", name, where, text[i:min(len(text), i+20)])
			}
		}
		cells, inCode := 0, false
		for line := range strings.Lines(markdown.String()) {
			inCode = inCode != strings.HasPrefix(line, "```")
			if inCode {
				continue
			}
			if strings.ContainsAny(line, "<>") {
				t.Errorf("%q: HTML in %q", name, line)
			}
			if !strings.HasPrefix(line, "| ") {
				cells = 0
				continue
			}
			n := 0
			for _, m := range unescaped.FindAllString(line, -1) {
				if m == "|" {
					n++
				}
			}
			if cells != 0 && n != cells {
				t.Errorf("%q: a row of %d bars in a table of %d: %q", name, n, cells, line)
			}
			cells = n
		}
		var back Report
		if err := json.Unmarshal(object.Bytes(), &back); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if want := strings.ToValidUTF8(name, "\ufffd"); utf8.ValidString(name) && back.Arms[0].Name != want {
			t.Errorf("%q came back as %q", name, back.Arms[0].Name)
		}
		if bytes.ContainsAny(object.Bytes(), "\x1b\x00\x07\x08\r") {
			t.Errorf("%q: raw control characters in JSON", name)
		}
	}
}
