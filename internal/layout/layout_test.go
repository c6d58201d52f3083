// Package layout holds the rule of who may import whom, as a test. It answers
// nothing at run time.
package layout

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// rule says what the packages below a directory may import of this module,
// beside each other.
type rule struct {
	imports []string
	// pure: no input or output, no clock, no log, no randomness of its own.
	pure bool
	// tests may import these in addition.
	tests []string
}

const anything = "*"

// rules by directory. The longest one that is a package's directory, or above
// it, holds.
var rules = map[string]rule{
	"api":         {},
	"bpf":         {},
	"attribution": {pure: true},
	"ladder":      {pure: true},
	"campaign":    {imports: []string{"ladder"}, pure: true},
	"foreign":     {pure: true},
	"hsperf":      {pure: true},
	"arms":        {},
	"rundir":      {imports: []string{"api"}},
	"agent":       {imports: []string{"bpf", "attribution", "api"}},
	"loadgen":     {imports: []string{"ladder", "api"}, tests: []string{"arms"}},
	"report":      {imports: []string{"attribution", "ladder"}},
	"cmd/rung":    {imports: []string{anything}},

	"internal/layout":    {},
	"internal/protogen":  {},
	"internal/democheck": {imports: []string{"report", "attribution", "ladder"}},
	"internal/vmtest":    {},
	"internal/bench":     {imports: []string{anything}},
	"internal/benchload": {imports: []string{"loadgen"}},
	"internal/truth":     {imports: []string{"bpf"}},
}

// onlyFor lists directories that few may import, whatever their own rules say.
var onlyFor = map[string][]string{
	"arms":    {"cmd/rung"},
	"agent":   {"cmd/rung", "internal/bench"},
	"loadgen": {"cmd/rung", "internal/benchload"},
}

// impure are the standard library's ways to the outside.
var impure = []string{
	"os", "os/exec", "os/signal", "io/ioutil", "net", "net/http", "syscall", "log", "log/slog",
	"math/rand", "crypto/rand", "runtime/debug", "testing",
}

func TestImports(t *testing.T) {
	root, module := moduleRoot(t)
	seen := make(map[string]bool)
	for _, file := range goFiles(t, root) {
		dir := filepath.ToSlash(filepath.Dir(file))
		owner := governing(dir)
		if owner == "" {
			t.Errorf("%s: no import rule for package %s; add one to rules", file, dir)
			continue
		}
		seen[owner] = true
		isTest := strings.HasSuffix(file, "_test.go")
		for _, path := range imports(t, filepath.Join(root, file)) {
			if rules[owner].pure && !isTest && slices.Contains(impure, path) {
				t.Errorf("%s imports %s: %s is pure", file, path, owner)
			}
			target, ours := strings.CutPrefix(path, module+"/")
			if !ours {
				continue
			}
			if problem := refuse(owner, target, isTest); problem != "" {
				t.Errorf("%s imports %s: %s", file, target, problem)
			}
		}
	}
	for dir := range rules {
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			t.Errorf("rule for %s: %v; take it out of rules", dir, err)
		}
	}
	if len(seen) == 0 {
		t.Error("no package found")
	}
}

// The rules themselves: what they must refuse.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		from, to string
		test, ok bool
	}{
		{"cmd/rung", "agent/symbol", false, true},
		{"agent/cgroup", "agent/symbol", false, true},
		{"agent", "bpf", false, true},
		{"agent", "loadgen", false, false},
		{"loadgen", "agent", false, false},
		{"loadgen", "agent", true, false},
		{"loadgen", "arms", false, false},
		{"loadgen", "arms", true, true},
		{"loadgen", "rundir", false, false},
		{"report", "rundir", false, false},
		{"report", "ladder", false, true},
		{"rundir", "api/rung/v1", false, true},
		{"rundir", "report", false, false},
		{"attribution", "ladder", false, false},
		{"bpf", "api/rung/v1", false, false},
		{"ladder", "apiextra", false, false},
	} {
		owner := governing(c.from)
		if problem := refuse(owner, c.to, c.test); (problem == "") != c.ok {
			t.Errorf("%s imports %s (test %v): %q, want allowed %v", c.from, c.to, c.test, problem, c.ok)
		}
	}
	if got := governing("newpackage"); got != "" {
		t.Errorf("a package without a rule is governed by %q", got)
	}
}

// refuse says why owner's packages may not import target, "" when they may.
func refuse(owner, target string, isTest bool) string {
	to := governing(target)
	if to == owner {
		return ""
	}
	allowed := rules[owner].imports
	if isTest {
		allowed = append(slices.Clone(allowed), rules[owner].tests...)
	}
	if to == "" {
		return "no rule for that package"
	}
	if !slices.Contains(allowed, anything) && !slices.Contains(allowed, to) {
		return owner + " may import " + strings.Join(append([]string{"itself"}, allowed...), ", ")
	}
	if users, limited := onlyFor[to]; limited && !slices.Contains(users, owner) && !isTest {
		return to + " is only for " + strings.Join(users, ", ")
	}
	return ""
}

// governing is the directory whose rule holds for a package's directory.
func governing(dir string) string {
	for d := dir; d != "." && d != "/"; d = filepath.ToSlash(filepath.Dir(d)) {
		if _, ok := rules[d]; ok {
			return d
		}
	}
	return ""
}

// moduleRoot is the directory of go.mod, and the module's path in it.
func moduleRoot(t *testing.T) (dir, module string) {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(data), "\n")
	return dir, strings.TrimSpace(strings.TrimPrefix(first, "module "))
}

// goFiles are all Go files of the module, relative to its root.
func goFiles(t *testing.T, root string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if e.IsDir() && path != root && (name == "testdata" || name == "build" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !e.IsDir() && strings.HasSuffix(name, ".go") {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func imports(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	paths := make([]string, len(file.Imports))
	for i, spec := range file.Imports {
		if paths[i], err = strconv.Unquote(spec.Path.Value); err != nil {
			t.Fatal(err)
		}
	}
	return paths
}
