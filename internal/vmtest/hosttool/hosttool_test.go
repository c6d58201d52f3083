package hosttool

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRequire(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "xz"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if err := Require("xz"); err != nil {
		t.Error(err)
	}
	err := Require("qemu-system-aarch64", "xz", "apt-get", "apt-config")
	want := "not installed here: qemu-system-aarch64, apt-get, apt-config; " +
		"install with: apt-get install --no-install-recommends qemu-system-arm apt"
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
