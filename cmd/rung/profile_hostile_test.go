//go:build linux

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protojson"
)

// TestProfileHostileNames measures threads whose names act on terminals, break
// lines and are no text: in no output do they.
func TestProfileHostileNames(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	// A program's name is that of its first thread. Dash would take these apart, so
	// each is an argument of its own.
	dir := t.TempDir()
	args := []string{"sh", "-c", `for p; do "$p" 0.6 & done; wait`, "sh"}
	for _, name := range []string{"\x1b[2J\x1b[1;31mroot", "a|b\nc\rd\te", "\xff\xfe\x80|worker-12", "`*_<b>[x](y)", "a\u202eb-1"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, program, 0o755); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	p := runLiveProfile(t.Context(), t, append([]string{"--"}, args...)...)
	if p.code != exitOK {
		t.Fatalf("exit %d: %s", p.code, p.stderr)
	}
	p.closes(t)
	clean := func(where, text string) {
		t.Helper()
		if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf)) }); i >= 0 || !utf8.ValidString(text) {
			t.Errorf("%s is no clean text: %q", where, text[max(i-20, 0):min(len(text), max(i, 0)+40)])
		}
	}
	for _, want := range []string{"?[*J?[*;*mroot", "a|b?c?d?e", "?|worker-*", "`*_<b>[x](y)", "a?b-*"} {
		if row := p.row(t, want); row.Threads != 1 || row.Lifetime.Ns == 0 {
			t.Errorf("%s: %+v", want, row)
		}
	}
	var text strings.Builder
	p.top = 0
	if err := p.print(&text, false); err != nil {
		t.Fatal(err)
	}
	clean("the terminal's output", strings.ReplaceAll(text.String(), dir, ""))
	record, err := protojson.Marshal(p.record)
	if err != nil {
		t.Fatal(err)
	}
	clean("the record", string(record))
	f, err := os.Open(p.Profile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	stacks, err := profile.Parse(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, s := range stacks.Sample {
		for _, key := range []string{"thread", "thread_group"} {
			for _, v := range s.Label[key] {
				clean("label "+key, v)
				seen++
			}
		}
	}
	if seen == 0 {
		t.Error("the profile names no thread")
	}
	for _, m := range stacks.Mapping {
		clean("a mapping", m.File)
	}
}
