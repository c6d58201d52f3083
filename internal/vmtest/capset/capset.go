// Package capset names sets of Linux capabilities, as a plan for a guest, a
// command line and /proc/PID/status write them. It changes no process.
package capset

import (
	"fmt"
	"slices"
	"strings"
)

// Set is a set of capabilities: bit n is capability n of linux/capability.h.
type Set uint64

// Sets with a name of their own on the command line.
const (
	None Set = 0
	// All is every capability Linux knows; a kernel may know fewer.
	All Set = 1<<41 - 1
	// Agent is what the node agent is granted in its DaemonSet, and nothing
	// else: bpf, perfmon, sys_ptrace, dac_read_search, checkpoint_restore, syslog.
	Agent Set = 1<<39 | 1<<38 | 1<<19 | 1<<2 | 1<<40 | 1<<34
)

// names are the kernel's, without CAP_, in the order of linux/capability.h.
var names = [...]string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
	"setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// Parse reads "all", "none", "agent" or a list of kernel names in any case,
// with or without CAP_, separated by commas.
func Parse(text string) (Set, error) {
	switch text {
	case "all":
		return All, nil
	case "none":
		return None, nil
	case "agent":
		return Agent, nil
	}
	var set Set
	for _, field := range strings.Split(text, ",") {
		name := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(field)), "cap_")
		bit := slices.Index(names[:], name)
		if bit < 0 {
			return 0, fmt.Errorf("unknown capability %q in %q: want all, none, agent or names as bpf,sys_ptrace", field, text)
		}
		set |= 1 << bit
	}
	return set, nil
}

// Has reports whether capability number bit is in the set.
func (s Set) Has(bit int) bool { return s>>bit&1 == 1 }

// String lists the names in the order of their numbers, or says none or all.
func (s Set) String() string {
	switch s {
	case None:
		return "none"
	case All:
		return "all"
	}
	var list []string
	for bit := range 64 {
		switch {
		case !s.Has(bit):
		case bit < len(names):
			list = append(list, names[bit])
		default:
			list = append(list, fmt.Sprint(bit))
		}
	}
	return strings.Join(list, ",")
}
