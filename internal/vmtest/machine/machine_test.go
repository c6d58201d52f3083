package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungprof/rung/internal/vmtest/debian"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

// play lets follow hear a guest that sends these frames and then reads an
// answer; it returns what follow said and what the guest read.
func play(t *testing.T, o Observer, res *Result, frames ...wire.Frame) (followed, answered error) {
	t.Helper()
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "port"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan error, 1)
	go func() { done <- follow(listener, o, res, time.Now()) }()
	conn, err := net.Dial("unix", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := wire.Write(conn, f); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(frames); n > 0 && frames[n-1].Kind == wire.KindDone {
		answer := make([]byte, 1)
		if _, answered = conn.Read(answer); answered == nil && answer[0] != wire.Ack {
			answered = fmt.Errorf("answer %x", answer)
		}
	}
	conn.Close()
	return <-done, answered
}

func TestFollow(t *testing.T) {
	var log []string
	var stdout, stderr bytes.Buffer
	observer := Observer{
		Start:  func(i int) { log = append(log, fmt.Sprintf("start %d", i)) },
		Output: func(int) (io.Writer, io.Writer) { return &stdout, &stderr },
		Exit:   func(i int, exit wire.Exit) { log = append(log, fmt.Sprintf("exit %d: %d", i, exit.Code)) },
	}
	var res Result
	err, answered := play(t, observer, &res,
		wire.Frame{Kind: wire.KindBoot, Data: []byte(`{"Release":"6.12.1","UptimeMs":1900}`)},
		wire.Frame{Kind: wire.KindStart, Payload: 0},
		wire.Frame{Kind: wire.KindStdout, Payload: 0, Data: []byte("out\x00")},
		wire.Frame{Kind: wire.KindStderr, Payload: 0, Data: []byte("err")},
		wire.Frame{Kind: wire.KindExit, Payload: 0, Data: []byte(`{"Code":3}`)},
		wire.Frame{Kind: wire.KindStart, Payload: 1},
		wire.Frame{Kind: wire.KindExit, Payload: 1, Data: []byte(`{"Code":127,"Error":"start /w/a: no"}`)},
		wire.Frame{Kind: wire.KindDone},
	)
	if err != nil || answered != nil {
		t.Fatalf("%v, %v", err, answered)
	}
	if diff := cmp.Diff([]string{"start 0", "exit 0: 3", "start 1", "exit 1: 127"}, log); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	want := []wire.Exit{{Code: 3}, {Code: 127, Error: "start /w/a: no"}}
	if diff := cmp.Diff(want, res.Exits); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if stdout.String() != "out\x00" || stderr.String() != "err" || res.Boot.Release != "6.12.1" || res.Ready == 0 {
		t.Errorf("stdout %q, stderr %q, %+v", &stdout, &stderr, res)
	}
}

func TestFollowAGuestThatStops(t *testing.T) {
	for name, c := range map[string]struct {
		frames []wire.Frame
		want   string
	}{
		"says nothing": {nil, "its port closed: EOF"},
		"stops early":  {[]wire.Frame{{Kind: wire.KindStart}}, "its port closed: EOF"},
		"says why":     {[]wire.Frame{{Kind: wire.KindFail, Data: []byte("sysctl a=b: no")}}, "sysctl a=b: no"},
		"bad exit":     {[]wire.Frame{{Kind: wire.KindExit, Data: []byte("{")}}, "unexpected end of JSON input"},
	} {
		var res Result
		if err, _ := play(t, Observer{}, &res, c.frames...); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "port"))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := follow(listener, Observer{}, &Result{}, time.Now()); err == nil {
		t.Error("no error without a guest")
	}
}

func TestArguments(t *testing.T) {
	cfg := Config{Arch: "arm64", Kernel: &debian.Kernel{Image: "/k/vmlinuz"}, Append: []string{"lockdown=confidentiality"}}
	args, err := cfg.arguments("/i", "/tmp/a,b/port", "/c")
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{
		{"-cpu", "max,pauth-impdef=on"}, {"-smp", "2"}, {"-m", "1024M"}, {"-nic", "none"}, {"-kernel", "/k/vmlinuz"}, {"-initrd", "/i"},
		{"-append", "console=ttyAMA0 panic=-1 quiet loglevel=4 lockdown=confidentiality"},
		{"-chardev", "socket,id=port,path=/tmp/a,,b/port"},
	} {
		found := false
		for i := range args[1:] {
			found = found || args[i] == pair[0] && args[i+1] == pair[1]
		}
		if !found {
			t.Errorf("%s %s is not in %q", pair[0], pair[1], args)
		}
	}
	cfg = Config{Arch: "amd64", Kernel: cfg.Kernel, CPU: "EPYC", CPUs: 4, Memory: "2G"}
	if args, err = cfg.arguments("/i", "/p", "/c"); err != nil || args[0] != "qemu-system-x86_64" ||
		!slices.Contains(args, "EPYC") || !slices.Contains(args, "4") || !slices.Contains(args, "2G") {
		t.Errorf("%q, %v", args, err)
	}
	if _, err := (Config{Arch: "mips"}).arguments("/i", "/p", "/c"); err == nil {
		t.Error("no error for mips")
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "console")
	if err := os.WriteFile(file, []byte("one\r\ntwo\r\nthree\r\n\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := tail(file, 2); got != "two\nthree" {
		t.Errorf("%q", got)
	}
	if got := tail(file+"x", 2); !strings.Contains(got, "no such file") {
		t.Errorf("%q", got)
	}
	err := error(&Error{Reason: "the guest stopped", Console: "Kernel panic"})
	var guest *Error
	if !errors.As(err, &guest) || err.Error() != "the guest stopped; end of the guest's console:\nKernel panic" {
		t.Errorf("%v", err)
	}
}
