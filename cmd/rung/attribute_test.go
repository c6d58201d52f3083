//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/attribution"
)

const attributeProfiles = "../../testdata/profiles/"

// attributeRun runs `rung attribute` with a file work.folded and a rule file in
// the current folder.
func attributeRun(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	root := newRootCommand()
	root.SetIn(strings.NewReader("main.main;runtime.memmove 1\n"))
	code = execute(t.Context(), root, append([]string{"attribute"}, args...), &out, &err)
	return code, out.String(), err.String()
}

func attributeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestAttributeFolded(t *testing.T) {
	path := attributeFile(t, "work.folded",
		"main.main;encoding/json.Marshal 30\nmain.main;syscall.write;__x64_sys_write_[k] 50\nx;y.F[a[b]c] 20\n")
	const want = `samples by layer, leaf charge (kernel time as syscalls)
100 samples in 100 samples

   share  ± 95 %  samples  layer
  50.0 %       –       50  syscalls
  50.0 %               50      syscall:write
   0.0 %       –        0  interrupt
   0.0 %       –        0  runtime
  30.0 %       –       30  codec
  30.0 %               30      encoding/json.Marshal
   0.0 %       –        0  transport
   0.0 %       –        0  framework
   0.0 %       –        0  application
  20.0 %       –       20  other
  20.0 %               20      y.F[...]

no reliable intervals: samples carry no block label
kernel entries of 50 samples were inferred from kernel function names
`
	if code, stdout, stderr := attributeRun(t, path, "--top", "1"); code != exitOK || stdout != want || stderr != "" {
		t.Errorf("exit %d, stderr %q, stdout:\n%s\nwant:\n%s", code, stderr, stdout, want)
	}
}

func TestAttributePprof(t *testing.T) {
	code, stdout, stderr := attributeRun(t, attributeProfiles+"recorded-grpc-stream.pb.gz", "--charge", "owner", "--kernel", "owner", "--per-request", "1000", "--layer", "codec")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	for _, part := range []string{"on-CPU by layer, owner charge (kernel time to its caller)", "ms/req over 1000 requests", "google.golang.org/protobuf"} {
		if !strings.Contains(stdout, part) {
			t.Errorf("output lacks %q:\n%s", part, stdout)
		}
	}
	if strings.Contains(stdout, "Syscall6") {
		t.Errorf("--layer codec lists functions of other layers:\n%s", stdout)
	}
	for _, line := range strings.Split(stdout, "\n") {
		if n := len([]rune(line)); n > 130 {
			t.Errorf("line of %d characters: %s", n, line)
		}
	}
}

func TestAttributeJSON(t *testing.T) {
	code, stdout, stderr := attributeRun(t, "-", "--json", "--charge", "owner")
	var table attribution.Table
	if err := json.Unmarshal([]byte(stdout), &table); err != nil || code != exitOK {
		t.Fatalf("exit %d, stderr %q: %v", code, stderr, err)
	}
	if table.Samples != 1 || table.Rows[6].Layer != "application" || table.Rows[6].Samples != 1 {
		t.Errorf("table %+v", table)
	}
}

func TestAttributeRules(t *testing.T) {
	mine := attributeFile(t, "mine.yaml", "layers:\n  - name: mine\n    match:\n      - prefix: runtime.memmove\n")
	for _, args := range [][]string{
		{"-", "--preset", "go," + mine},
		{"-", "--rules", mine},
		{"-", "--preset", "", "--rules", mine},
	} {
		code, stdout, stderr := attributeRun(t, args...)
		if code != exitOK || !strings.Contains(stdout, "100.0 %       –        1  mine\n") {
			t.Errorf("%q: exit %d, stderr %q, stdout:\n%s", args, code, stderr, stdout)
		}
	}
}

func TestAttributeErrors(t *testing.T) {
	bad := attributeFile(t, "bad.yaml", "layers:\n  - name: a\n    match:\n      - prefxi: x\n")
	empty := attributeFile(t, "empty", "")
	noise := attributeFile(t, "noise.pb", "\x00\x01\x02\x03")
	badLine := attributeFile(t, "bad.folded", "a;b 1\na;b\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "usage: rung attribute PROFILE"},
		{[]string{"-", "--preset", "goo"}, exitUsage, `rules "goo": neither a preset (go) nor a file`},
		{[]string{"-", "--rules", bad}, exitUsage, bad + `:4:9: unknown key "prefxi"`},
		{[]string{"-", "--preset", ""}, exitUsage, "no layer is declared"},
		{[]string{"-", "--charge", "root"}, exitUsage, `--charge "root": want "leaf" or "owner"`},
		{[]string{"-", "--kernel", "x"}, exitUsage, `--kernel "x": want self or owner`},
		{[]string{"-", "--kernel", "owner"}, exitUsage, "--kernel owner needs --charge owner"},
		{[]string{"-", "--layer", "codek"}, exitUsage, `--layer "codek": unknown; there is syscalls`},
		{[]string{"-", "--top", "-1"}, exitUsage, "--top -1: want 0 or more"},
		{[]string{"-", "--per-request", "-1"}, exitUsage, "--per-request"},
		{[]string{"-", "--sample-type", "cpu"}, exitFailure, "folded stacks have no sample types"},
		{[]string{"/nonexistent/p"}, exitFailure, "read profile: open /nonexistent/p"},
		{[]string{empty}, exitFailure, empty + ": empty"},
		{[]string{noise}, exitFailure, noise + ": neither a pprof profile nor folded stacks"},
		{[]string{badLine}, exitFailure, badLine + ": line 2: no count"},
		{[]string{attributeProfiles + "recorded-loop.pb.gz", "--sample-type", "wall"}, exitFailure, `sample type "wall": unknown; the profile has samples, cpu`},
	} {
		code, stdout, stderr := attributeRun(t, c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%q: exit %d, stderr %q, stdout %q; want exit %d, %q", c.args, code, stderr, stdout, c.code, c.want)
		}
	}
}

func TestAttributeNames(t *testing.T) {
	for in, want := range map[string]string{
		"main.main":                    "main.main",
		"f[a].g[b[c]d].h":              "f[...].g[...].h",
		"f[...]":                       "f[...]",
		"[unknown] /srv/arm+0x10":      "[unknown] /srv/arm+0x10",
		"[missing stack]":              "[missing stack]",
		"f]":                           "f]",
		"f[":                           "f[...]",
		strings.Repeat("é", maxName+1): strings.Repeat("é", maxName-1) + "…",
	} {
		if got := short(in); got != want {
			t.Errorf("short(%q) = %q, want %q", in, got, want)
		}
	}
	if got := printable("a\x1b[2Jb"); got != `"a\x1b[2Jb"` {
		t.Errorf("printable lets control bytes through: %q", got)
	}
}
