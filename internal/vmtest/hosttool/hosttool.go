// Package hosttool says which of the harness's host tools are missing and
// which Debian packages bring them.
package hosttool

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
)

// packages that bring each tool, on Debian and Ubuntu.
var packages = map[string]string{
	"apt-cache":           "apt",
	"apt-config":          "apt",
	"apt-get":             "apt",
	"dpkg-deb":            "dpkg",
	"qemu-system-aarch64": "qemu-system-arm",
	"qemu-system-x86_64":  "qemu-system-x86",
	"xz":                  "xz-utils",
	"zstd":                "zstd",
}

// Require looks all tools up in PATH. Its error names every one that is
// missing and the one command that installs them.
func Require(tools ...string) error {
	var missing, install []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err == nil {
			continue
		}
		missing = append(missing, tool)
		pkg := packages[tool]
		if pkg == "" {
			pkg = tool
		}
		if !slices.Contains(install, pkg) {
			install = append(install, pkg)
		}
	}
	if missing == nil {
		return nil
	}
	return fmt.Errorf("not installed here: %s; install with: apt-get install --no-install-recommends %s",
		strings.Join(missing, ", "), strings.Join(install, " "))
}
