// Command probe says where it runs: kernel, lockdown, capabilities, sysctls,
// cgroup. Given what to expect, it fails where the machine is otherwise.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/capset"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("probe", flag.ContinueOnError)
	lockdown := flags.String("lockdown", "", "expected lockdown `level`")
	caps := flags.String("caps", "", "expected capability `set` of this process: all five sets, or all for uid 0")
	var sysctls []string
	flags.Func("sysctl", "expected `name=value`", func(s string) error { sysctls = append(sysctls, s); return nil })
	if err := flags.Parse(args); err != nil {
		return err
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "kernel       %s %s\n", unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]))
	fmt.Fprintf(stdout, "time         %s\n", time.Now().UTC().Format(time.RFC3339))
	return errors.Join(
		checkLockdown(stdout, *lockdown),
		checkCaps(stdout, *caps),
		checkSysctls(stdout, sysctls),
		checkCgroup(stdout),
	)
}

func checkLockdown(stdout io.Writer, want string) error {
	text, err := os.ReadFile("/sys/kernel/security/lockdown")
	if err != nil && want == "" {
		fmt.Fprintln(stdout, "lockdown     not known:", err)
		return nil
	} else if err != nil {
		return err
	}
	levels := strings.TrimSpace(string(text))
	fmt.Fprintln(stdout, "lockdown    ", levels)
	if want != "" && !strings.Contains(levels, "["+want+"]") {
		return fmt.Errorf("lockdown is %s, expected [%s]", levels, want)
	}
	return nil
}

func checkCaps(stdout io.Writer, expected string) error {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return err
	}
	defer f.Close()
	sets, err := parseCaps(f)
	if err != nil {
		return err
	}
	order := []string{"CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb"}
	for _, name := range order {
		fmt.Fprintf(stdout, "%s       %v\n", name, sets[name])
	}
	if expected == "" {
		return nil
	}
	want, err := capset.Parse(expected)
	if err != nil {
		return err
	}
	if want == capset.All {
		order = order[:3] // uid 0 needs no inherited ones
	}
	var wrong error
	for _, name := range order {
		if sets[name] != want {
			wrong = errors.Join(wrong, fmt.Errorf("%s is %v, expected %v", name, sets[name], want))
		}
	}
	// And they are what the kernel goes by: uid 0 without sys_admin mounts nothing.
	const sysAdmin = 21
	err = unix.Mount("none", "/", "no-such-file-system", 0, "")
	if refused := err == unix.EPERM; refused == want.Has(sysAdmin) {
		wrong = errors.Join(wrong, fmt.Errorf("mount answers %v with capabilities %v", err, want))
	}
	return wrong
}

// parseCaps reads the capability sets of a /proc/PID/status:
//
//	CapEff:	000001c000080004
func parseCaps(r io.Reader) (map[string]capset.Set, error) {
	sets := map[string]capset.Set{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if !strings.HasPrefix(name, "Cap") {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("parse %s of status: %w", name, err)
		}
		sets[name] = capset.Set(bits)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return sets, nil
}

func checkSysctls(stdout io.Writer, expected []string) error {
	var wrong error
	for _, pair := range expected {
		name, want, _ := strings.Cut(pair, "=")
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		got := strings.TrimSpace(string(text))
		fmt.Fprintf(stdout, "sysctl       %s=%s\n", name, got)
		if got != want {
			wrong = errors.Join(wrong, fmt.Errorf("%s is %s, expected %s", name, got, want))
		}
	}
	return wrong
}

// checkCgroup wants cgroup v2 with the cpu controller open to children.
func checkCgroup(stdout io.Writer) error {
	text, err := os.ReadFile("/sys/fs/cgroup/cgroup.subtree_control")
	if err != nil {
		return fmt.Errorf("no cgroup v2: %w", err)
	}
	fmt.Fprintf(stdout, "cgroup v2    %s", text)
	for _, name := range strings.Fields(string(text)) {
		if name == "cpu" {
			return nil
		}
	}
	return fmt.Errorf("cgroup controller cpu is not enabled")
}
