//go:build linux

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// liveChild is this binary as rung, in a process of its own: what tests of whole
// commands drive.
type liveChild struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	lines  chan string // of stderr
	seen   []string
}

// startRung starts rung with a command line. The process is killed with the test.
func startRung(t *testing.T, args ...string) *liveChild {
	t.Helper()
	c := &liveChild{t: t, lines: make(chan string, 10_000)}
	c.cmd = exec.Command(os.Args[0], args...)
	c.cmd.Env = append(os.Environ(), asRung+"=1")
	c.cmd.Stdout = &c.stdout
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for scan := bufio.NewScanner(stderr); scan.Scan(); {
			c.lines <- scan.Text()
		}
	}()
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			c.cmd.Process.Kill()
			c.cmd.Wait()
		}
	})
	return c
}

// until reads stderr up to a line with the text.
func (c *liveChild) until(text string) {
	c.t.Helper()
	limit := time.After(60 * time.Second)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("stderr ended without %q:\n%s", text, strings.Join(c.seen, "\n"))
			}
			c.seen = append(c.seen, line)
			if strings.Contains(line, text) {
				return
			}
		case <-limit:
			c.t.Fatalf("no %q on stderr:\n%s", text, strings.Join(c.seen, "\n"))
		}
	}
}

// exit waits for the end, asserts the exit code, and gives stderr.
func (c *liveChild) exit(code int) string {
	c.t.Helper()
	err := c.wait()
	stderr := strings.Join(c.seen, "\n")
	if got := c.cmd.ProcessState.ExitCode(); got != code {
		c.t.Errorf("exit %d (%v), want %d; stderr:\n%s\nstdout:\n%s", got, err, code, stderr, c.stdout.String())
	}
	return stderr
}

func (c *liveChild) wait() error {
	for line := range c.lines {
		c.seen = append(c.seen, line)
	}
	return c.cmd.Wait()
}

// kill is kill -9.
func (c *liveChild) kill() {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	_ = c.wait() // ended by the signal
}
