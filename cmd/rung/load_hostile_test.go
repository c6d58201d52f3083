//go:build linux

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rungprof/rung/rundir"
)

// A full disk ends the run with its reason; what was written before is whole.
func TestLoadFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k"); err != nil {
		if errors.Is(err, syscall.EPERM) {
			t.Skip("mounting a small file system needs root")
		}
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	address, _ := startTestArm(t, "null-h1")
	dir := filepath.Join(disk, "run")
	rates := strings.Repeat("50,", 19) + "50"
	_, stderr, code := runLoadCommand(t, "--protocol", "rest-h1", "--address", address, "--rates", rates, "--duration", "200ms", "--settle", "50ms", "--gap", "0s", "--out", dir)
	if code != exitFailure || !strings.Contains(stderr, "no space left on device") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	d, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) == 0 || len(steps) == 20 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
	// The same for the table and the lines.
	fill, err := os.Create(filepath.Join(disk, "fill"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	fill.Close()
	one := []string{"--protocol", "rest-h1", "--address", address, "--rates", "50", "--duration", "200ms", "--settle", "50ms"}
	for _, args := range [][]string{
		append(one, "--csv", filepath.Join(disk, "table.csv")),
		{"--protocol", "rest-h1", "--address", address, "--closed", "1", "--iterations-per-slot", "5", "--lines", filepath.Join(disk, "lines")},
	} {
		if _, stderr, code := runLoadCommand(t, args...); code == exitOK || !strings.Contains(stderr, "no space left on device") {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}

// Ctrl-C in a step keeps the step, partial and void, and the rows before it.
func TestLoadSIGINT(t *testing.T) {
	address, _ := startTestArm(t, "null-grpc")
	dir := filepath.Join(t.TempDir(), "run")
	table := filepath.Join(t.TempDir(), "steps.csv")
	cmd := exec.Command(os.Args[0], "load", "--protocol", "grpc-stream", "--address", address, "--rates", "100,200", "--duration", "1s", "--settle", "100ms",
		"--gap", "0s", "--out", dir, "--csv", table, "--client-limited", "warn")
	cmd.Env = append(os.Environ(), asRung+"=1")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The first step's result is there, and the second is in its course.
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(dir, "steps", "01-100", "client.json")); err == nil {
			break
		}
	}
	time.Sleep(900 * time.Millisecond)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	err := cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitFailure || time.Since(began) > 5*time.Second {
		t.Errorf("after %v: exit %d, %v: %s", time.Since(began), code, err, stderr.String())
	}
	d, err := rundir.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := d.Steps()
	if err != nil || len(steps) != 2 {
		t.Fatalf("%d steps, %v: %s", len(steps), err, stderr.String())
	}
	one, two := steps[0].Client, steps[1].Client
	if one.Void != "" || !strings.Contains(two.Void, "interrupted") || two.Delivered == 0 || two.NotConnected == 0 || len(steps[1].Hlog) == 0 {
		t.Errorf("step 1 void %q; step 2 void %q, delivered %d, never tried %d", one.Void, two.Void, two.Delivered, two.NotConnected)
	}
	if rows, err := os.ReadFile(table); err != nil || bytes.Count(rows, []byte("\n")) != 3 {
		t.Errorf("table: %v\n%s", err, rows)
	}
}
