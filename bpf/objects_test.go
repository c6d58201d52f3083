package bpf

import (
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// Under lockdown=confidentiality the kernel refuses programs that read its
// memory by probe, and kprobes: no object may hold either.
func TestObjectsLoadUnderLockdown(t *testing.T) {
	objects, err := filepath.Glob("*.o")
	if err != nil || len(objects) != 2 {
		t.Fatalf("objects %v, %v: want one for each architecture", objects, err)
	}
	refused := map[asm.BuiltinFunc]bool{
		asm.FnProbeRead: true, asm.FnProbeReadStr: true,
		asm.FnProbeReadKernel: true, asm.FnProbeReadKernelStr: true,
	}
	for _, path := range objects {
		spec, err := ebpf.LoadCollectionSpec(path)
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
