package debian

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// apt is apt with a state of its own below one folder and for another
// architecture: nothing of the machine's own apt is changed, no foreign
// architecture is added to it, and no privilege is needed. The machine's
// download settings (proxies) and archive keys are used.
type apt struct {
	dir  string
	arch string
}

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// update writes the configuration and fetches the package lists.
func (a apt) update(ctx context.Context, suites []string) error {
	uris, err := exec.CommandContext(ctx, "apt-get", "update", "--print-uris").Output()
	if err != nil {
		return fmt.Errorf("ask apt for its sources: %w", err)
	}
	list, err := sources(string(uris), suites)
	if err != nil {
		return err
	}
	dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return fmt.Errorf("ask apt for its settings: %w", err)
	}
	for _, dir := range []string{"lists/partial", "cache/archives/partial", "parts"} {
		if err := os.MkdirAll(filepath.Join(a.dir, dir), 0o755); err != nil {
			return err
		}
	}
	var deb strings.Builder
	options := ""
	if _, err := os.Stat(keyring); err == nil {
		options = "[signed-by=" + keyring + "] "
	}
	for _, s := range list {
		fmt.Fprintf(&deb, "deb %s%s %s main\n", options, s.site, s.suite)
	}
	for name, text := range map[string]string{
		"apt.conf": a.config(string(dump)), "sources.list": deb.String(), "status": "",
	} {
		if err := os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	_, err = a.run(ctx, "", "apt-get", "--error-on=any", "update")
	return err
}

// config is the private apt.conf: how the machine downloads, and our places.
// The machine's apt.conf.d is left out, since its hooks act on the machine.
func (a apt) config(dump string) string {
	var b strings.Builder
	for _, line := range strings.Split(dump, "\n") {
		if strings.HasPrefix(line, "Acquire::") && !strings.HasPrefix(line, "Acquire::IndexTargets") {
			fmt.Fprintln(&b, line)
		}
	}
	fmt.Fprintf(&b, `Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "%[1]s/parts";
Dir::Etc::SourceList "%[1]s/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "%[1]s";
Dir::State::status "%[1]s/status";
Dir::Cache "%[1]s/cache";
APT::Architecture "%[2]s";
APT::Architectures { "%[2]s"; };
APT::Sandbox::User "root";
Acquire::GzipIndexes "true";
Acquire::Languages { "none"; };
Acquire::Retries "3";
`, a.dir, a.arch)
	return b.String()
}

// ready reports whether lists have been fetched.
func (a apt) ready() bool {
	lists, _ := filepath.Glob(filepath.Join(a.dir, "lists/*_Packages*"))
	return len(lists) > 0
}

// index lists the archive's packages that are used here.
func (a apt) index(ctx context.Context) ([]pkg, error) {
	out, err := a.run(ctx, "", "apt-cache", "dumpavail")
	if err != nil {
		return nil, err
	}
	return parseIndex(bytes.NewReader(out), "linux-image-", "linux-binary-", "linux-modules-", "linux-base-", "busybox-static")
}

// download fetches packages, their hashes checked against the signed lists,
// and unpacks them below dir.
func (a apt) download(ctx context.Context, dir string, pkgs []pkg) error {
	debs, err := os.MkdirTemp(a.dir, "debs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(debs)
	args := []string{"download"}
	for _, p := range pkgs {
		args = append(args, p.name+"="+p.version)
	}
	if _, err := a.run(ctx, debs, "apt-get", args...); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := a.run(ctx, "", "dpkg-deb", "--extract", file, dir); err != nil {
			return err
		}
	}
	return nil
}

// unpackInto makes dir hold the packages' files, all or none of them, in the
// place of what it held.
func (a apt) unpackInto(ctx context.Context, dir string, pkgs []pkg) error {
	tmp, err := os.MkdirTemp(filepath.Dir(dir), "tmp-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if err := a.download(ctx, tmp, pkgs); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Rename(tmp, dir)
}

func (a apt) run(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "APT_CONFIG="+filepath.Join(a.dir, "apt.conf"), "LC_ALL=C")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
