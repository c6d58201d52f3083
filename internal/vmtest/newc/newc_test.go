package newc

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// list reads an archive back, a line per entry: mode, rdev, name, content.
func list(t *testing.T, archive []byte) []string {
	t.Helper()
	var lines []string
	at := 0
	for {
		if at%4 != 0 || len(archive) < at+110 || string(archive[at:at+6]) != "070701" {
			t.Fatalf("no header at byte %d of %d", at, len(archive))
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(archive[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(n)
		}
		mode, size, major, minor, nameLen := field(1), field(6), field(9), field(10), field(11)
		name := string(archive[at+110 : at+110+nameLen-1])
		data := at + (110+nameLen+3)/4*4
		if name == "TRAILER!!!" {
			if rest := archive[data:]; len(rest) != 0 {
				t.Errorf("%d bytes after the trailer", len(rest))
			}
			return lines
		}
		line := fmt.Sprintf("%06o %d:%d %s %q", mode, major, minor, name, archive[data:data+size])
		lines = append(lines, line)
		at = data + (size+3)/4*4
	}
}

func TestArchive(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "abcd", "sub/b": "x", "sub/c": ""} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../a", filepath.Join(dir, "sub/link")); err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := NewWriter(&buf)
	for _, err := range []error{
		w.File("/init", 0o755, []byte("#!")),
		w.Device("/dev/console", 0o600, 5, 1),
		w.Dir("dev"),
		w.Link("/dev/fd", "/proc/self/fd"),
		w.Copy("/w/data", dir),
		w.Copy("/w/one", filepath.Join(dir, "sub/link")),
		w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		`100755 0:0 init "#!"`,
		`040755 0:0 dev ""`,
		`020600 5:1 dev/console ""`,
		`120777 0:0 dev/fd "/proc/self/fd"`,
		`040755 0:0 w ""`,
		`040755 0:0 w/data ""`,
		`100640 0:0 w/data/a "abcd"`,
		`040755 0:0 w/data/sub ""`,
		`100640 0:0 w/data/sub/b "x"`,
		`100640 0:0 w/data/sub/c ""`,
		`120777 0:0 w/data/sub/link "../a"`,
		`100640 0:0 w/one "abcd"`,
	}
	if diff := cmp.Diff(want, list(t, buf.Bytes())); diff != "" {
		t.Errorf("archive (-want +got):\n%s", diff)
	}
	if cpio, err := exec.LookPath("cpio"); err == nil {
		cmd := exec.Command(cpio, "--list", "--quiet")
		cmd.Stdin = bytes.NewReader(buf.Bytes())
		out, err := cmd.Output()
		if err != nil || len(strings.Fields(string(out))) != len(want) {
			t.Errorf("cpio reads %q, %v; want %d names", out, err, len(want))
		}
	}
}

func TestBadEntries(t *testing.T) {
	dir := t.TempDir()
	for name, add := range map[string]func(*Writer) error{
		"file twice":        func(w *Writer) error { return w.File("a", 0o644, nil) },
		"folder as file":    func(w *Writer) error { return w.File("b", 0o644, nil) },
		"file not there":    func(w *Writer) error { return w.Copy("c", filepath.Join(dir, "none")) },
		"device as a file":  func(w *Writer) error { return w.Copy("c", os.DevNull) },
		"underlying writer": func(w *Writer) error { w.w = fullDisk{}; return w.File("c", 0o644, nil) },
	} {
		w := NewWriter(&bytes.Buffer{})
		if err := w.File("a", 0o644, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Dir("b"); err != nil {
			t.Fatal(err)
		}
		if err := add(w); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }
