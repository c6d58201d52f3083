package machine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rungprof/rung/internal/vmtest/wire"
)

// board is what differs between architectures.
type board struct {
	qemu    string
	machine string
	cpu     string
	console string // the kernel's name for the first serial port
	thread  string // of the emulator: multi, one per guest CPU, or single
}

var boards = map[string]board{
	// Plain "max" computes pointer authentication in QARMA, in software: the
	// boot takes four times as long as with the emulator's own hash.
	"arm64": {"qemu-system-aarch64", "virt,gic-version=3", "max,pauth-impdef=on", "ttyAMA0", "multi"},
	// An amd64 kernel changes its own code while other CPUs run it, which attaching
	// programs does often: with a thread per CPU the guest hangs or panics in minutes.
	"amd64": {"qemu-system-x86_64", "q35", "max", "ttyS0", "single"},
}

// Qemu names the emulator for an architecture, as Debian spells it.
func Qemu(arch string) (string, error) {
	b, ok := boards[arch]
	if !ok {
		return "", fmt.Errorf("unknown architecture %q: want arm64 or amd64", arch)
	}
	return b.qemu, nil
}

// arguments is qemu's command line. Always TCG, also where the host has
// /dev/kvm: a run is the same on every host, and nested PVM hosts offer a
// /dev/kvm that cannot run a stock kernel.
func (c Config) arguments(initrd, port, console string) ([]string, error) {
	b, ok := boards[c.Arch]
	if !ok {
		return nil, fmt.Errorf("unknown architecture %q: want arm64 or amd64", c.Arch)
	}
	cpu, cpus, memory := c.CPU, c.CPUs, c.Memory
	if cpu == "" {
		cpu = b.cpu
	}
	if cpus == 0 {
		cpus = 2
	}
	if memory == "" {
		memory = "1024M"
	}
	// panic=-1 with -no-reboot: a panic ends qemu at once.
	cmdline := append([]string{"console=" + b.console, "panic=-1", "quiet", "loglevel=4"}, c.Append...)
	return []string{
		b.qemu, "-M", b.machine, "-cpu", cpu, "-accel", "tcg,thread=" + b.thread,
		"-smp", strconv.Itoa(cpus), "-m", memory,
		"-nodefaults", "-nographic", "-nic", "none", "-no-reboot",
		"-kernel", c.Kernel.Image, "-initrd", initrd, "-append", strings.Join(cmdline, " "),
		"-chardev", "file,id=console,path=" + escape(console), "-serial", "chardev:console",
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-chardev", "socket,id=port,path=" + escape(port),
		"-device", "virtserialport,chardev=port,name=" + wire.PortName,
	}, nil
}

// escape protects a value in one of qemu's comma-separated lists.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }
