package agent

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// readHost gathers what about this host bears on the figures. What cannot be
// read is said to be unknown, with the file's name.
func readHost(proc, sys, cgroupMode string) *rungv1.Host {
	h := &rungv1.Host{
		Arch: runtime.GOARCH, Cpus: uint32(runtime.NumCPU()), TickNs: tickNs(), CgroupMode: cgroupMode,
		Kernel: "unknown", KptrRestrict: "unknown",
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		h.Kernel = unix.ByteSliceToString(name.Release[:])
		h.Arch = unix.ByteSliceToString(name.Machine[:])
	}
	if text, err := os.ReadFile(filepath.Join(sys, "devices/system/cpu/online")); err == nil {
		if n, err := countCPUs(string(text)); err == nil {
			h.Cpus = n
		}
	}
	if text, err := os.ReadFile(filepath.Join(proc, "sys/kernel/kptr_restrict")); err == nil {
		h.KptrRestrict = strings.TrimSpace(string(text))
	}
	options, err := readKernelConfig(proc, h.Kernel)
	h.ChargedOmits = chargedOmits(options, err)
	h.Lockdown = lockdown(sys, options)
	return h
}

// countCPUs counts a list such as "0-3,8".
func countCPUs(list string) (uint32, error) {
	var n uint32
	for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.ParseUint(low, 10, 16)
		last, err2 := strconv.ParseUint(high, 10, 16)
		if err1 != nil || err2 != nil || last < first {
			return 0, fmt.Errorf("CPU list %q: %q is no range", list, part)
		}
		n += uint32(last-first) + 1
	}
	return n, nil
}

// lockdown is the kernel's lockdown mode: "none", "integrity", "confidentiality".
func lockdown(sys string, options map[string]bool) string {
	text, err := os.ReadFile(filepath.Join(sys, "kernel/security/lockdown"))
	if err == nil {
		if match := regexp.MustCompile(`\[(\w+)\]`).FindSubmatch(text); match != nil {
			return string(match[1])
		}
	}
	if enabled, known := options["CONFIG_SECURITY_LOCKDOWN_LSM"]; known && !enabled {
		return "none"
	}
	return "unknown (/sys/kernel/security/lockdown is not readable; securityfs may not be mounted)"
}

// watchedOptions are the kernel options that the record speaks of.
var watchedOptions = []string{"CONFIG_IRQ_TIME_ACCOUNTING", "CONFIG_PARAVIRT_TIME_ACCOUNTING", "CONFIG_SECURITY_LOCKDOWN_LSM"}

// chargedOmits says which time that a thread holds a CPU the kernel does not
// charge to it, given its options or why they are unknown.
func chargedOmits(options map[string]bool, err error) []string {
	if err != nil {
		return []string{fmt.Sprintf("unknown: %v", err)}
	}
	var omits []string
	if options["CONFIG_IRQ_TIME_ACCOUNTING"] {
		omits = append(omits, "interrupts (CONFIG_IRQ_TIME_ACCOUNTING)")
	}
	if options["CONFIG_PARAVIRT_TIME_ACCOUNTING"] {
		omits = append(omits, "time stolen by the hypervisor, where it tells (CONFIG_PARAVIRT_TIME_ACCOUNTING)")
	}
	return omits
}

// readKernelConfig reads the watched options of the running kernel from
// PROC/config.gz or /boot/config-RELEASE.
func readKernelConfig(proc, release string) (map[string]bool, error) {
	packed, err := os.Open(filepath.Join(proc, "config.gz"))
	if err == nil {
		defer packed.Close()
		plain, err := gzip.NewReader(packed)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", packed.Name(), err)
		}
		return parseKernelConfig(plain)
	}
	// Seen from a container, the host's /boot is below the first process's root.
	for _, root := range []string{"/", filepath.Join(proc, "1/root")} {
		plain, err := os.Open(filepath.Join(root, "boot", "config-"+filepath.Base(release)))
		if err == nil {
			defer plain.Close()
			return parseKernelConfig(plain)
		}
	}
	return nil, fmt.Errorf("neither /proc/config.gz nor /boot/config-%s is readable", release)
}

// parseKernelConfig finds the watched options in a kernel's .config text:
//
//	CONFIG_IRQ_TIME_ACCOUNTING=y
//	# CONFIG_PARAVIRT_TIME_ACCOUNTING is not set
//
// An option that the text does not name is off: it does not exist for that
// kernel's architecture or version.
func parseKernelConfig(r io.Reader) (map[string]bool, error) {
	options := map[string]bool{}
	for _, name := range watchedOptions {
		options[name] = false
	}
	lines := bufio.NewScanner(io.LimitReader(r, 4<<20))
	seen := false
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "=")
		seen = seen || ok && strings.HasPrefix(name, "CONFIG_")
		if _, watched := options[name]; ok && watched {
			options[name] = value == "y"
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("parse kernel configuration: %w", err)
	}
	if !seen {
		return nil, fmt.Errorf("parse kernel configuration: no CONFIG_ line")
	}
	return options, nil
}
