// Command guest is the init of a test machine: it mounts what the agent needs,
// loads modules, runs the payloads of its plan one after another and powers
// off. With "exec CAPS -- COMMAND" it is the helper that gives up capabilities.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

func main() {
	if len(os.Args) > 4 && os.Args[1] == "exec" && os.Args[3] == "--" {
		err := execWith(os.Args[2], os.Args[4:])
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(126)
	}
	if rule := os.Getenv(limitEnv); rule != "" && os.Getpid() != 1 {
		err := runLimited(rule)
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(126)
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the init of a test machine, or: guest exec CAPS -- COMMAND ARGS")
		os.Exit(2)
	}
	if err := serve(); err != nil {
		fmt.Println("guest:", err) // to the console; the host shows its tail
	}
	unix.Sync()
	err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("guest: power off:", err) // and the kernel panics, which ends the machine too
}

// serve does the plan. What it cannot do it tells the host, once there is a port.
func serve() error {
	if err := setUp(); err != nil {
		return err
	}
	port, err := openPort(wire.PortName, 10*time.Second)
	if err != nil {
		return err
	}
	out := &frames{port: port}
	if err := run(out); err != nil {
		out.send(wire.Frame{Kind: wire.KindFail, Data: []byte(err.Error())})
		return err
	}
	if err := out.send(wire.Frame{Kind: wire.KindDone}); err != nil {
		return err
	}
	_, err = port.Read(make([]byte, 1)) // the host has everything
	return err
}

func run(out *frames) error {
	text, err := os.ReadFile(wire.PlanPath)
	if err != nil {
		return err
	}
	var plan wire.Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("%s: %w", wire.PlanPath, err)
	}
	if err := setClock(plan.TimeUnixNs); err != nil {
		return err
	}
	if err := setSysctls(plan.Sysctls); err != nil {
		return err
	}
	boot := wire.Boot{Release: release(), UptimeMs: uptimeMs()}
	if err := wire.WriteJSON(out, wire.KindBoot, 0, boot); err != nil {
		return err
	}
	for i, p := range plan.Payloads {
		if err := setSysctls(p.Sysctls); err != nil {
			return fmt.Errorf("payload %s: %w", p.Name, err)
		}
		if err := out.send(wire.Frame{Kind: wire.KindStart, Payload: uint16(i)}); err != nil {
			return err
		}
		exit := runPayload(out, uint16(i), p)
		exit.UptimeMs = uptimeMs()
		if err := wire.WriteJSON(out, wire.KindExit, uint16(i), exit); err != nil {
			return err
		}
	}
	return nil
}

// setClock moves the clock forward to the host's time. A virtual board's clock
// chip is a module in some kernels; certificates and profiles carry real dates.
func setClock(unixNs int64) error {
	if time.Now().UnixNano() >= unixNs {
		return nil
	}
	tv := unix.NsecToTimeval(unixNs)
	if err := unix.Settimeofday(&tv); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}

func setSysctls(list []wire.Sysctl) error {
	for _, s := range list {
		file := filepath.Join("/proc/sys", strings.ReplaceAll(s.Name, ".", "/"))
		if err := os.WriteFile(file, []byte(s.Value), 0o644); err != nil {
			return fmt.Errorf("sysctl %s=%s: %w", s.Name, s.Value, err)
		}
	}
	return nil
}

func release() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return string(u.Release[:bytes.IndexByte(u.Release[:], 0)])
}

func uptimeMs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano() / 1e6
}

// wrapper is the command that runs argv with a set of capabilities.
func wrapper(set capset.Set, argv []string) []string {
	return append([]string{"/proc/self/exe", "exec", set.String(), "--"}, argv...)
}
