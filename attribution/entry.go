package attribution

import "strings"

// inferEntry puts an entry pseudo-frame at the root side of a stack's kernel
// frames where other tools left none. The name of the syscall then comes from the
// kernel's functions, which Rung's own profiles never rely on. It reports whether
// the stack had kernel frames without an entry.
func inferEntry(s *Stack) bool {
	n := 0
	for n < len(s.Frames) && (s.Frames[n].Mapping == MappingKernel || s.Frames[n].Mapping == MappingEntry) {
		if s.Frames[n].Mapping == MappingEntry {
			return false
		}
		n++
	}
	if n == 0 {
		return false
	}
	entry, at := entryOf(s.Frames[:n])
	frames := make([]Frame, 0, len(s.Frames)+1)
	frames = append(frames, s.Frames[:at]...)
	frames = append(frames, Frame{entry, MappingEntry})
	s.Frames = append(frames, s.Frames[at:]...)
	return true
}

// entryOf returns the leaf-most entry that the names show, and how many frames lie
// on its leaf side.
func entryOf(kernel []Frame) (string, int) {
	for i, f := range kernel {
		name := f.Function
		if cut := strings.IndexAny(name, "+."); cut > 0 { // "+0x1c", ".isra.0"
			name = name[:cut]
		}
		if isInterrupt(name) {
			return EntryInterrupt, i + 1
		}
		if isFault(name) {
			return EntryFault, i + 1
		}
		if syscall := syscallOf(name); syscall != "" {
			return EntrySyscall + syscall, i + 1
		}
	}
	return EntryKernel, len(kernel)
}

func isInterrupt(name string) bool {
	switch name {
	case "handle_softirqs", "__do_softirq", "do_softirq", "__irq_exit_rcu", "irq_exit_rcu", "irq_exit",
		"common_interrupt", "asm_common_interrupt", "do_IRQ", "el1_interrupt", "el0_interrupt",
		"gic_handle_irq", "call_on_irq_stack":
		return true
	}
	return strings.HasPrefix(name, "asm_sysvec_") || strings.HasPrefix(name, "sysvec_")
}

func isFault(name string) bool {
	switch name {
	case "asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "handle_mm_fault",
		"do_mem_abort", "do_page_fault", "el0_da", "el0_ia":
		return true
	}
	return false
}

func syscallOf(name string) string {
	for _, prefix := range []string{"__x64_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_", "ksys_"} {
		if s, ok := strings.CutPrefix(name, prefix); ok && s != "" {
			return s
		}
	}
	return ""
}
