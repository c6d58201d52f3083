package debian

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rungprof/rung/internal/vmtest/hosttool"
)

// Module is one kernel module, uncompressed, with its signature.
type Module struct {
	Name  string // with underscores, as lsmod prints it
	Image []byte
}

// Modules returns the named modules and what they depend on, in the order to
// load them. Those built into the kernel are left out; one that is neither
// built in nor there is an error.
func (k *Kernel) Modules(names ...string) ([]Module, error) {
	files := map[string]string{}
	err := filepath.WalkDir(k.modules, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.Contains(d.Name(), ".ko") {
			files[moduleName(p)] = p
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	list, err := os.ReadFile(filepath.Join(k.modules, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	builtin := map[string]bool{}
	for _, p := range strings.Fields(string(list)) {
		builtin[moduleName(p)] = true
	}
	var (
		ordered []Module
		add     func(name string) error
		seen    = map[string]bool{}
	)
	add = func(name string) error {
		name = moduleName(name)
		if builtin[name] || seen[name] {
			return nil
		}
		seen[name] = true
		file, ok := files[name]
		if !ok {
			return fmt.Errorf("kernel %s has no module %s", k.Release, name)
		}
		image, err := readModule(file)
		if err != nil {
			return err
		}
		deps, err := dependencies(image)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, dep := range deps {
			if err := add(dep); err != nil {
				return err
			}
		}
		ordered = append(ordered, Module{Name: name, Image: image})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return ordered, nil
}

// moduleName is a module's name out of its path, with - as _.
func moduleName(p string) string {
	name, _, _ := strings.Cut(filepath.Base(p), ".ko")
	return strings.ReplaceAll(name, "-", "_")
}

// readModule reads a module's file, decompressed.
func readModule(file string) ([]byte, error) {
	tool := map[string]string{".xz": "xz", ".zst": "zstd"}[filepath.Ext(file)]
	if tool == "" {
		return os.ReadFile(file)
	}
	if err := hosttool.Require(tool); err != nil {
		return nil, err
	}
	image, err := exec.Command(tool, "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("%s -dc %s: %w", tool, file, err)
	}
	return image, nil
}

// dependencies reads "depends=" of a module's .modinfo section, a run of
// key=value strings with a zero byte after each.
func dependencies(image []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, err
	}
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("no .modinfo section")
	}
	data, err := section.Data()
	if err != nil {
		return nil, err
	}
	for _, entry := range strings.Split(string(data), "\x00") {
		if list, ok := strings.CutPrefix(entry, "depends="); ok {
			return slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" }), nil
		}
	}
	return nil, nil
}
