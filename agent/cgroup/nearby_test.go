package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestNearby(t *testing.T) {
	root := t.TempDir()
	for _, group := range []string{"system.slice/web.service", "system.slice/web.socket", "system.slice/db.service", "kubepods/pod1", "user.slice"} {
		if err := os.MkdirAll(filepath.Join(root, group), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.procs"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := Roots{Mounts: Mounts{V2: root}}
	for group, want := range map[string][]string{
		"/system.slice/webb.service":  {"/system.slice/web.service", "/system.slice/db.service"},
		"/system.slice/web":           {"/system.slice/web.socket", "/system.slice/web.service"},
		"/system.slcie/web.service":   {"/system.slice"},
		"/Kubepods/pod1":              {"/kubepods"},
		"/kubepods/pod2/container":    {"/kubepods/pod1"},
		"/nothing/of/the/kind":        {"/kubepods", "/system.slice", "/user.slice"},
		"/user.slice/x":               nil,
		"relative":                    nil,
		"/system.slice/../etc/passwd": nil,
	} {
		if got := r.Nearby(group); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", group, got, want)
		}
	}
	_, err := r.ID("/system.slice/webb.service")
	if !errors.Is(err, fs.ErrNotExist) || !strings.HasSuffix(err.Error(), "(there is /system.slice/web.service, /system.slice/db.service)") {
		t.Errorf("%v", err)
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"web", "wbe", 2}, {"kitten", "mittens", 2}, {"same", "same", 0}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
