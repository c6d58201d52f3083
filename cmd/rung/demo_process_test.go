//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// startTestProcess runs this test binary as rung.
func startTestProcess(t *testing.T, args ...string) (*process, *lines) {
	t.Helper()
	t.Setenv(asRung, "1")
	got := &lines{}
	p, err := startProcess(processSpec{name: "child", args: args, logPath: filepath.Join(t.TempDir(), "child.log"), onStdout: got.add})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	return p, got
}

type lines struct{ all []string }

func (l *lines) add(line string) { l.all = append(l.all, line) }

func TestProcessThatEnds(t *testing.T) {
	p, got := startTestProcess(t, "version")
	if err := p.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got.all) != 1 || !strings.HasPrefix(got.all[0], "rung ") {
		t.Errorf("lines %q", got.all)
	}
	if !p.died() {
		t.Error("a child that ended unasked has died")
	}
	p.stop() // of an ended child: nothing
}

func TestProcessThatFails(t *testing.T) {
	p, _ := startTestProcess(t, "join", "--cgroup", "/nonexistent", "--", "version")
	said := make(chan string, 1)
	_, err := p.ready(t.Context(), said)
	if err == nil || !strings.Contains(err.Error(), "exit status 1") || !strings.Contains(err.Error(), "enter cgroup /nonexistent") {
		t.Errorf("got %v, want exit status and the log's end", err)
	}
}

func TestProcessIsStopped(t *testing.T) {
	p, _ := startTestProcess(t, "arm", "--mode", "null-h1", "--listen", "127.0.0.1:0")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	select {
	case <-p.exited:
	default:
		t.Error("wait returned before its child was reaped")
	}
	if p.died() {
		t.Error("a child that was stopped has not died")
	}
}

func TestReadyOfArm(t *testing.T) {
	t.Setenv(asRung, "1")
	said := make(chan string, 1)
	p, err := startProcess(processSpec{name: "arm", args: []string{"arm", "--mode", "null-h1", "--listen", "127.0.0.1:0"},
		logPath: filepath.Join(t.TempDir(), "arm.log"), onStdout: sayOnce(armReadyPrefix, said)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	address, err := p.ready(t.Context(), said)
	if err != nil || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("address %q, error %v", address, err)
	}
	p.stop()
	if p.exitErr != nil {
		t.Errorf("an arm that is asked to end exits 0, got %v", p.exitErr)
	}
}

func TestLineWriter(t *testing.T) {
	var log bytes.Buffer
	var got lines
	w := &lineWriter{log: &log, line: got.add}
	for _, part := range []string{"a", "b\r\nc\n\nd", "", "\n", "rest"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("%q: %d, %v", part, n, err)
		}
	}
	if want := []string{"ab", "c", "", "d"}; !slices.Equal(got.all, want) {
		t.Errorf("lines %q, want %q", got.all, want)
	}
	if log.String() != "ab\r\nc\n\nd\nrest" {
		t.Errorf("log %q", log.String())
	}
	w.Write(bytes.Repeat([]byte("x"), maxLine))
	if last := got.all[len(got.all)-1]; len(last) != maxLine+4 || len(w.part) != 0 {
		t.Errorf("a line without end: %d handed out, %d kept", len(last), len(w.part))
	}
}

func TestLogTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct{ content, want string }{
		{"", ""},
		{"one\n", "    one"},
		{"one\ntwo\nthree", "    two\n    three"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := logTail(path, 2); got != c.want {
			t.Errorf("%q: %q, want %q", c.content, got, c.want)
		}
	}
	if got := logTail(path+"-none", 2); got != "" {
		t.Errorf("no log: %q", got)
	}
}

func TestPlainProgress(t *testing.T) {
	var out bytes.Buffer
	p := startProgress(&out, 90*time.Second)
	p.phase("first", 30*time.Second)
	p.note("hm")
	p.replan(20 * time.Second)
	p.phase("second", time.Second)
	p.finish()
	want := "[0:00/1:30] first\nrung: hm\n[0:00/0:20] second\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	for d, want := range map[time.Duration]string{0: "0:00", 59_600 * time.Millisecond: "1:00", 67 * time.Second: "1:07"} {
		if got := clock(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}
