// Package gobuild cross-compiles commands and tests of this module into static
// Linux executables.
package gobuild

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Module is the module around the current folder.
type Module struct{ Root string }

// Find locates it.
func Find(ctx context.Context) (Module, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return Module{}, fmt.Errorf("go env: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if !filepath.IsAbs(file) || file == os.DevNull {
		return Module{}, fmt.Errorf("not inside a Go module: run this in a clone of the project")
	}
	return Module{Root: filepath.Dir(file)}, nil
}

// Build compiles a command; pkg is relative to the module's root, as "./cmd/rung".
func (m Module) Build(ctx context.Context, arch, pkg, out string) error {
	return m.run(ctx, arch, "build", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
}

// Test compiles a package's tests.
func (m Module) Test(ctx context.Context, arch, pkg, out string) error {
	return m.run(ctx, arch, "test", "-c", "-trimpath", "-ldflags=-s -w", "-o", out, pkg)
}

func (m Module) run(ctx context.Context, arch string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.Root
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s for %s: %w\n%s", args[0], arch, err, output.Bytes())
	}
	return nil
}
