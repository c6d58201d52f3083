package symbol

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleMaps = `00400000-00401000 r--p 00000000 fd:01 11                                 /app/server
00401000-00500000 r-xp 00001000 fd:01 11                                 /app/server
00c00000-00d00000 rw-p 00000000 00:00 0                                  [heap]
7f0000000000-7f0000010000 r-xp 00000000 00:00 0
7f0000100000-7f0000110000 r-xp 00000000 00:01 1024                       /memfd:jit (deleted)
7f0000200000-7f0000210000 r-xp 00002000 103:02 99                        /lib/odd name\012here.so
7f0000300000-7f0000310000 rwxp 00000000 00:00 0                          [anon:code (deleted)]
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
`

func TestParseMaps(t *testing.T) {
	got, err := parseMaps(strings.NewReader(sampleMaps))
	if err != nil {
		t.Fatal(err)
	}
	want := []area{
		{start: 0x401000, end: 0x500000, offset: 0x1000, dev: 0xfd<<32 | 1, inode: 11, path: "/app/server"},
		{start: 0x7f0000000000, end: 0x7f0000010000},
		{start: 0x7f0000100000, end: 0x7f0000110000, dev: 1, inode: 1024, path: "/memfd:jit", deleted: true},
		{start: 0x7f0000200000, end: 0x7f0000210000, offset: 0x2000, dev: 0x103<<32 | 2, inode: 99, path: "/lib/odd name\nhere.so"},
		{start: 0x7f0000300000, end: 0x7f0000310000, path: "[anon:code (deleted)]"},
		{start: 0x7ffd00000000, end: 0x7ffd00002000, path: "[vdso]"},
		{start: 0xffffffffff600000, end: 0xffffffffff601000, path: "[vsyscall]"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(area{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A mapping that grew while the file was read reaches back into the one before.
func TestParseMapsOverlap(t *testing.T) {
	got, err := parseMaps(strings.NewReader(
		"1000-5000 r-xp 0 00:00 0 \n2000-4000 r-xp 0 00:00 0 \n4000-7000 r-xp 9000 fd:01 5 /a\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []area{{start: 0x1000, end: 0x5000}, {start: 0x5000, end: 0x7000, offset: 0xa000, dev: 0xfd<<32 | 1, inode: 5, path: "/a"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(area{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseMapsRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"empty line":      "\n",
		"no range":        "401000 r-xp 00000000 fd:01 11 /a\n",
		"not hex":         "40z000-500000 r-xp 00000000 fd:01 11 /a\n",
		"empty range":     "500000-500000 r-xp 00000000 fd:01 11 /a\n",
		"backward":        "500000-400000 r-xp 00000000 fd:01 11 /a\n",
		"offset wraps":    "400000-500000 r-xp ffffffffffffff00 fd:01 11 /a\n",
		"short perms":     "400000-500000 r-x 00000000 fd:01 11 /a\n",
		"no device":       "400000-500000 r-xp 00000000 fd01 11 /a\n",
		"no inode":        "400000-500000 r-xp 00000000 fd:01\n",
		"endless line":    "400000-500000 r-xp 00000000 fd:01 11 /" + strings.Repeat("a", maxMapLine),
		"second line bad": "400000-500000 r-xp 00000000 fd:01 11 /a\nx\n",
	} {
		if got, err := parseMaps(strings.NewReader(text)); err == nil {
			t.Errorf("%s: parsed as %v", name, got)
		}
	}
	many := strings.Repeat("400000-500000 r--p 00000000 fd:01 11 /a\n", maxMapLines+1)
	if _, err := parseMaps(strings.NewReader(many)); !errors.Is(err, errTooManyMappings) {
		t.Errorf("too many lines: %v", err)
	}
}

func FuzzParseMaps(f *testing.F) {
	f.Add(sampleMaps)
	f.Add("1000-5000 r-xp 0 00:00 0 \n2000-7000 r-xp 9000 fd:01 5 /a\n")
	if own, err := os.ReadFile("/proc/self/maps"); err == nil {
		f.Add(string(own))
	}
	f.Fuzz(func(t *testing.T, text string) {
		areas, err := parseMaps(strings.NewReader(text))
		if err != nil && areas != nil {
			t.Fatal("both areas and an error")
		}
		var end uint64
		for _, a := range areas {
			if a.start >= a.end || a.start < end {
				t.Fatalf("areas out of order: %+v", areas)
			}
			end = a.end
		}
	})
}
