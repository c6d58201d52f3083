package profile

import "strings"

// Ways into the kernel other than a system call.
const (
	entryFault     = "page fault"
	entryInterrupt = "interrupt"
	entryKernel    = "kernel" // exceptions, scheduling tails, names unknown
)

// classify reads the names of a kernel stack, leaf first. entry is how the
// kernel was entered if it was not by a system call: by whichever of a fault
// and an interrupt lies nearer to the root. interrupt is the index of the
// root-most frame of interrupt handling, -1 if there is none.
//
// A thread that is preempted by an interrupt leaves the CPU from that
// interrupt's way out and comes back there: what runs then is the switch, no
// handling. A clock tick that falls due in the switch, with interrupts off,
// fires at its end and finds such a stack.
//
// Names are used since addresses of sections such as irqentry_text need
// /proc/kallsyms, which may be hidden.
func classify(names []string) (entry string, interrupt int) {
	for i, name := range names {
		if wayOut[baseName(name)] {
			if _, interrupt = classifyHandled(names[:i]); interrupt >= 0 {
				return entryInterrupt, interrupt
			}
			if entry, _ = classifyHandled(names[i:]); entry == entryInterrupt {
				entry = entryKernel
			}
			return entry, -1
		}
	}
	return classifyHandled(names)
}

func classifyHandled(names []string) (entry string, interrupt int) {
	entry, interrupt = entryKernel, -1
	for i := len(names) - 1; i >= 0 && interrupt < 0; i-- {
		name := baseName(names[i])
		switch {
		case isInterrupt(name):
			interrupt = i
			if entry == entryKernel {
				entry = entryInterrupt
			}
		case faultFunctions[name] && entry == entryKernel:
			entry = entryFault
		}
	}
	return entry, interrupt
}

// baseName takes off what compilers and %pS add: handle_softirqs.isra.0,
// "nft_do_chain [nf_tables]".
func baseName(name string) string {
	if i := strings.IndexAny(name, ". +"); i > 0 {
		return name[:i]
	}
	return name
}

// faultFunctions are entered by page faults, x86 then arm64 then common ones.
var faultFunctions = set(
	"asm_exc_page_fault", "exc_page_fault", "do_user_addr_fault", "do_kern_addr_fault",
	"el0_da", "el0_ia", "el1_abort", "do_mem_abort", "do_page_fault", "do_translation_fault",
	"handle_mm_fault", "__handle_mm_fault",
)

// wayOut functions run when an interrupt has been handled, x86 then arm64 then common.
var wayOut = set(
	"irqentry_exit_to_user_mode", "irqentry_exit", "raw_irqentry_exit_cond_resched", "irqentry_exit_cond_resched",
	"exit_to_user_mode", "exit_to_user_mode_prepare", "asm_exit_to_user_mode", "arm64_exit_to_user_mode",
	"prepare_exit_to_user_mode", "do_notify_resume", "arm64_preempt_schedule_irq",
	"exit_to_user_mode_loop", "preempt_schedule_irq", "schedule", "__schedule",
)

// interruptFunctions handle hardware and software interrupts. Beside them go
// all names with a prefix of interruptPrefixes.
var interruptFunctions = set(
	// x86
	"asm_common_interrupt", "common_interrupt", "__common_interrupt",
	"asm_spurious_interrupt", "spurious_interrupt", "asm_exc_nmi", "exc_nmi",
	"asm_call_irq_on_stack", "xen_pv_evtchn_do_upcall",
	// arm64
	"el0_interrupt", "el1_interrupt", "__el1_irq", "__el0_irq_handler_common", "__el0_fiq_handler_common",
	"el0t_64_irq", "el0t_64_irq_handler", "el0t_64_fiq", "el0t_64_fiq_handler",
	"el0t_32_irq", "el0t_32_irq_handler", "el1h_64_irq", "el1h_64_irq_handler",
	"el1h_64_fiq", "el1h_64_fiq_handler", "el1t_64_irq", "do_interrupt_handler",
	"call_on_irq_stack", "gic_handle_irq", "generic_handle_domain_irq", "handle_domain_irq",
	// common; __softirqentry_text_start is __do_softirq's other name before 6.9
	"irq_enter_rcu", "irq_exit_rcu", "__irq_exit_rcu", "irq_exit", "invoke_softirq",
	"handle_softirqs", "__do_softirq", "____do_softirq", "do_softirq", "do_softirq_own_stack",
	"__softirqentry_text_start", "run_ksoftirqd", "handle_irq_event", "__handle_irq_event_percpu",
)

var interruptPrefixes = []string{"asm_sysvec_", "sysvec_", "__sysvec_"}

func isInterrupt(name string) bool {
	if interruptFunctions[name] {
		return true
	}
	for _, p := range interruptPrefixes {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
