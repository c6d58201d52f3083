package debian

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const sampleIndex = `Package: linux-image-6.12.95+deb12-cloud-arm64
Version: 6.12.95-1~bpo12+1
Size: 29000000
Description: Linux 6.12
 Version: a continuation, not a field

Package: linux-image-6.12.117+deb12-cloud-arm64
Version: 6.12.117-1~deb12u1
Size: 29360128

Package: linux-image-6.12.117+deb12-cloud-arm64-dbg
Version: 6.12.117-1~deb12u1
Size: 800000000

Package: linux-image-6.12.117+deb12-arm64
Version: 6.12.117-1~deb12u1
Size: 93000000

Package: linux-image-6.12-cloud-arm64
Version: 6.12.117-1~deb12u1
Size: 1484

Package: linux-image-7.3.4+deb13-cloud-arm64
Version: 7.3.4-1~bpo13+1
Size: 1500

Package: linux-binary-7.3.4+deb13-cloud-arm64
Version: 7.3.4-1~bpo13+1
Size: 9000000

Package: linux-modules-7.3.4+deb13-cloud-arm64
Version: 7.3.4-1~bpo13+1
Size: 20000000

Package: linux-base-7.3.4+deb13-cloud-arm64
Version: 7.3.4-1~bpo13+1
Size: 300000

Package: busybox-static
Version: 1:1.35
Size: 900000
`

func TestCandidates(t *testing.T) {
	index, err := parseIndex(strings.NewReader(sampleIndex), "linux-")
	if err != nil {
		t.Fatal(err)
	}
	if len(index) != 9 {
		t.Errorf("%d packages, want 9 without busybox-static: %v", len(index), index)
	}
	for pattern, want := range map[string][]string{
		"6.12.*-cloud":        {"6.12.117+deb12-cloud-arm64", "6.12.95+deb12-cloud-arm64"},
		"6.12.95+deb12-cloud": {"6.12.95+deb12-cloud-arm64"},
		"6.12*-cloud":         {"6.12.117+deb12-cloud-arm64", "6.12.95+deb12-cloud-arm64"}, // not the metapackage
		"7.*-cloud":           {"7.3.4+deb13-cloud-arm64 linux-binary linux-modules linux-base"},
		"6.12.117+deb12":      {"6.12.117+deb12-arm64"},
		"6.18.*":              nil,
	} {
		list, err := candidates(index, pattern, "arm64")
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
		var got []string
		for _, c := range list {
			line := c.release
			if len(c.pkgs) > 1 {
				for _, p := range c.pkgs {
					line += " " + strings.Join(strings.Split(p.name, "-")[:2], "-")
				}
			}
			got = append(got, line)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", pattern, diff)
		}
	}
	if _, err := candidates(index, "6.[", "arm64"); err == nil || !strings.Contains(err.Error(), path.ErrBadPattern.Error()) {
		t.Errorf("bad pattern: %v", err)
	}
}

func TestBadIndex(t *testing.T) {
	for text, want := range map[string]string{
		"Package: linux-a\nSize: 3\n\n":              "line 3: linux-a without Version or Size",
		"Package: linux-a\nVersion: 1\n":             "without Version or Size",
		"Package: linux-a\nVersion: 1\nSize: 1 MB\n": `line 3: bad Size "1 MB"`,
		"Package: x" + strings.Repeat("x", 1<<20):    "token too long",
	} {
		if list, err := parseIndex(strings.NewReader(text), "linux-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, %v; want an error with %q", text, list, err, want)
		}
	}
}

func FuzzParseIndex(f *testing.F) {
	f.Add(sampleIndex)
	f.Add("Package: linux-a\nSize: -1")
	f.Fuzz(func(t *testing.T, text string) {
		list, err := parseIndex(strings.NewReader(text), "linux-")
		if err != nil && list != nil {
			t.Fatal("error and value")
		}
		for _, p := range list {
			if !strings.HasPrefix(p.name, "linux-") || p.version == "" || p.size <= 0 {
				t.Fatalf("%+v", p)
			}
		}
	})
}
