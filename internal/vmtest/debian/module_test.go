package debian

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// module makes a little-endian 64-bit ELF file with a .modinfo section.
func module(t *testing.T, info string) []byte {
	t.Helper()
	const names = "\x00.modinfo\x00.shstrtab\x00"
	var head elf.Header64
	copy(head.Ident[:], "\x7fELF\x02\x01\x01")
	head.Type, head.Machine, head.Version = uint16(elf.ET_REL), uint16(elf.EM_AARCH64), 1
	head.Ehsize, head.Shentsize, head.Shnum, head.Shstrndx = 64, 64, 3, 2
	head.Shoff = uint64(64 + len(info) + len(names))
	sections := []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_PROGBITS), Off: 64, Size: uint64(len(info))},
		{Name: 10, Type: uint32(elf.SHT_STRTAB), Off: uint64(64 + len(info)), Size: uint64(len(names))},
	}
	var b bytes.Buffer
	for _, part := range []any{head, []byte(info + names), sections} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestModulesInLoadOrder(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("modules.builtin", []byte("kernel/drivers/virtio/virtio.ko\nkernel/drivers/virtio/virtio_ring.ko\n"))
	write("kernel/drivers/virtio/virtio_pci.ko", module(t, "license=GPL\x00depends=virtio,virtio-pci-dev,virtio_ring\x00"))
	write("kernel/drivers/virtio/virtio-pci-dev.ko", module(t, "depends=\x00"))
	write("kernel/drivers/char/virtio_console.ko", module(t, "depends=virtio_pci_dev\x00name=virtio_console\x00"))
	write("kernel/a.ko", module(t, "depends=missing\x00"))
	write("kernel/b.ko", []byte("no module"))
	k := &Kernel{Release: "6.1.0", modules: dir}
	list, err := k.Modules("virtio", "virtio-console", "virtio_pci")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range list {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff([]string{"virtio_pci_dev", "virtio_console", "virtio_pci"}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for name, want := range map[string]string{
		"a": "kernel 6.1.0 has no module missing", "b": "b.ko", "nosuch": "kernel 6.1.0 has no module nosuch",
	} {
		if _, err := k.Modules(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Modules(%s): %v, want an error with %q", name, err, want)
		}
	}
}

func FuzzDependencies(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, image []byte) {
		if deps, err := dependencies(image); err != nil && deps != nil {
			t.Fatal("error and value")
		}
	})
}
