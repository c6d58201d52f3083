package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/rungprof/rung/internal/vmtest/debian"
	"github.com/rungprof/rung/internal/vmtest/newc"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// File is a host file or folder to be copied into the guest.
type File struct {
	Host  string
	Guest string // absolute; wire.PayloadDir + base name if empty
}

func (f File) withDefault() File {
	if f.Guest == "" {
		f.Guest = wire.PayloadDir + "/" + filepath.Base(f.Host)
	}
	return f
}

// applets of busybox that have a name in /bin; the others are `busybox NAME`.
var applets = []string{"cat", "dd", "dmesg", "echo", "env", "false", "grep", "head", "kill", "ls", "mkdir", "ps", "rm", "sh", "sleep", "true"}

// writeInitramfs writes the guest's root file system: init, the plan, modules
// in load order, busybox, and the caller's files. Uncompressed: unpacking zstd or xz in
// an emulated guest takes longer than reading four times the bytes.
func writeInitramfs(file string, cfg Config, plan wire.Plan, modules []debian.Module) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	w := newc.NewWriter(out)
	data, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return w.Device("/dev/console", 0o600, 5, 1) }, // init's stdout, before devtmpfs
		func() error { return w.Copy("/init", cfg.Init) },
		func() error { return w.File(wire.PlanPath, 0o644, data) },
		func() error { return w.Dir(wire.PayloadDir) },
		// What os/user and the resolver of a static binary ask for.
		func() error { return w.File("/etc/passwd", 0o644, []byte("root:x:0:0:root:/root:/bin/false\n")) },
		func() error { return w.File("/etc/group", 0o644, []byte("root:x:0:\n")) },
		func() error { return w.File("/etc/hosts", 0o644, []byte("127.0.0.1 localhost\n")) },
	}
	for _, dir := range []string{"/proc", "/sys", "/tmp", "/run", "/root", wire.ModuleDir} {
		steps = append(steps, func() error { return w.Dir(dir) })
	}
	for i, m := range modules {
		name := path.Join(wire.ModuleDir, fmt.Sprintf("%03d-%s.ko", i, m.Name))
		steps = append(steps, func() error { return w.File(name, 0o644, m.Image) })
	}
	if cfg.Busybox != "" {
		steps = append(steps, func() error { return w.Copy("/bin/busybox", cfg.Busybox) })
		for _, name := range applets {
			steps = append(steps, func() error { return w.Link("/bin/"+name, "busybox") })
		}
	}
	for _, f := range cfg.Files {
		f = f.withDefault()
		steps = append(steps, func() error { return w.Copy(f.Guest, f.Host) })
	}
	steps = append(steps, w.Close, out.Close)
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
