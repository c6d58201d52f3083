//go:build linux

package suite

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// host is what the suite knows of the machine.
type host struct {
	cpus    []int   // that this process may run on
	tickNs  float64 // of the scheduler
	tick    string  // where that is from
	objects bool    // the kernel side can tell a pipe from a socket
	cgroup2 string  // where the v2 hierarchy is mounted
}

func lookAtHost() (*host, error) {
	h := &host{cpus: allowedCPUs()}
	hz, from := configHz()
	h.tickNs, h.tick = 1e9/float64(hz), from
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	var fn *btf.Func
	err = spec.TypeByName("bpf_rdonly_cast", &fn) // since v6.2
	if err != nil && !errors.Is(err, btf.ErrNotFound) {
		return nil, fmt.Errorf("kernel BTF: %w", err)
	}
	h.objects = err == nil
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			h.cgroup2 = f[1]
		}
	}
	return h, nil
}

func allowedCPUs() (cpus []int) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		panic(err) // it cannot fail for oneself
	}
	for cpu := range len(set) * 64 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// last is the CPU that work is pinned to: interrupts mostly go to the first.
func (h *host) last() int { return h.cpus[len(h.cpus)-1] }

// slowestHz is that of the slowest kernels: nobody ticks less often.
const slowestHz = 100

// configHz is the kernel's CONFIG_HZ, or the slowest there is.
func configHz() (hz int, from string) {
	var release unix.Utsname
	unix.Uname(&release)
	for _, path := range []string{"/proc/config.gz", "/boot/config-" + unix.ByteSliceToString(release.Release[:])} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		defer f.Close()
		var text io.Reader = f
		if strings.HasSuffix(path, ".gz") {
			if text, err = gzip.NewReader(f); err != nil {
				continue
			}
		}
		if hz := parseHz(text); hz > 0 {
			return hz, path
		}
	}
	return slowestHz, "no kernel configuration to read: the slowest"
}

// parseHz finds CONFIG_HZ in a kernel configuration; 0 when it has none.
func parseHz(r io.Reader) int {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "CONFIG_HZ="); ok {
			hz, err := strconv.Atoi(value)
			if err != nil || hz < 1 {
				return 0
			}
			return hz
		}
	}
	return 0
}

// stolenNs is the time that the hypervisor took from all CPUs since boot, in
// steps of 10 ms. Switch stamps contain it; what threads are charged does not.
func stolenNs() (float64, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	return parseStolen(text)
}

// parseStolen reads the first line of /proc/stat: "cpu" and times in 1/100 s, the
// eighth being stolen.
//
//	cpu  882776 13675 244941 2717949 5132 0 13371 463 0 0
func parseStolen(text []byte) (float64, error) {
	line, _, _ := bytes.Cut(text, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 9 || string(f[0]) != "cpu" {
		return 0, fmt.Errorf("/proc/stat: %q has no stolen time", line)
	}
	n, err := strconv.ParseUint(string(f[8]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("/proc/stat: %q: %w", line, err)
	}
	return float64(n) * 1e7, nil
}

// makeCgroup makes a child of parent; remove tries for a while, because members
// leave as they are reaped.
func makeCgroup(parent, name string) (dir string, remove func() error, err error) {
	dir = filepath.Join(parent, fmt.Sprintf("rung-truth-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", nil, fmt.Errorf("make a cgroup: %w; run as root where cgroups can be written", err)
	}
	return dir, func() error { return removeCgroup(dir) }, nil
}

func removeCgroup(dir string) (err error) {
	for range 200 {
		if err = os.Remove(dir); err == nil {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove a cgroup: %w", err)
}
