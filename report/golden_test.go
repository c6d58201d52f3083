package report

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var golden = map[string]func() *Report{
	"four-arms": fourArms,
	"troubled":  troubled,
	"empty":     func() *Report { return &Report{SchemaVersion: SchemaVersion, Title: "Rung report", Dir: "d"} },
}

var formats = map[string]func(io.Writer, *Report) error{
	".txt":  func(w io.Writer, r *Report) error { return Terminal(w, r, TerminalOptions{}) },
	".md":   Markdown,
	".json": JSON,
}

func TestGolden(t *testing.T) {
	for name, make := range golden {
		for ext, write := range formats {
			var got, again bytes.Buffer
			if err := write(&got, make()); err != nil {
				t.Fatal(err)
			}
			if err := write(&again, make()); err != nil || !bytes.Equal(got.Bytes(), again.Bytes()) {
				t.Errorf("%s%s: two renderings differ (%v)", name, ext, err)
			}
			path := filepath.Join("testdata", name+ext)
			if *update {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("%s (-want +got; go test ./report -update rewrites it):\n%s", path, diff)
			}
		}
	}
}

func TestTerminalWidth(t *testing.T) {
	for name, make := range golden {
		for _, width := range []int{0, 60, 80, 100, 160} {
			var out bytes.Buffer
			if err := Terminal(&out, make(), TerminalOptions{Width: width}); err != nil {
				t.Fatal(err)
			}
			limit := width
			if limit == 0 {
				limit = DefaultWidth
			}
			for i, line := range strings.Split(out.String(), "\n") {
				if w := textWidth(line); w > limit && !strings.Contains(line, "go tool pprof") {
					t.Errorf("%s at width %d, line %d is %d columns:\n%s", name, width, i+1, w, line)
				}
			}
		}
	}
}

func TestColourOnlyOnRequest(t *testing.T) {
	var plain, coloured bytes.Buffer
	if err := Terminal(&plain, troubled(), TerminalOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := Terminal(&coloured, troubled(), TerminalOptions{Colour: true}); err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(plain.Bytes(), '\x1b') {
		t.Error("plain output holds an escape, maybe one out of a name")
	}
	if !strings.Contains(coloured.String(), ansiRed) {
		t.Error("the void step is not red")
	}
	strip := strings.NewReplacer(ansiBold, "", ansiDim, "", ansiRed, "", ansiReset, "")
	if diff := cmp.Diff(plain.String(), strip.Replace(coloured.String())); diff != "" {
		t.Errorf("colour changes the text:\n%s", diff)
	}
}
