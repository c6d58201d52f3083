package bpf

import (
	"bytes"
	"embed"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

//go:embed *.o
var objects embed.FS

// Under lockdown=confidentiality the kernel refuses programs that read its
// memory by probe, and kprobes: no object may hold either.
func TestObjectsLoadUnderLockdown(t *testing.T) {
	files, err := objects.ReadDir(".")
	if err != nil || len(files) != 2 {
		t.Fatalf("objects %v, %v: want one for each architecture", files, err)
	}
	refused := map[asm.BuiltinFunc]bool{
		asm.FnProbeRead: true, asm.FnProbeReadStr: true,
		asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true,
	}
	for _, file := range files {
		path := file.Name()
		object, err := objects.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
		if err != nil {
			t.Fatal(err)
		}
		instructions := 0
		for name, prog := range spec.Programs {
			if prog.Type == ebpf.Kprobe {
				t.Errorf("%s: %s is a kprobe", path, name)
			}
			for _, in := range prog.Instructions {
				instructions++
				if in.IsBuiltinCall() && refused[asm.BuiltinFunc(in.Constant)] {
					t.Errorf("%s: %s calls %v", path, name, asm.BuiltinFunc(in.Constant))
				}
			}
		}
		if instructions < 500 {
			t.Errorf("%s: %d instructions scanned, too few to mean anything", path, instructions)
		}
	}
}
