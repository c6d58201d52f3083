//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestProfileRefuses(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "record.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprint(os.Getpid())
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "nothing to measure: name --pid PID, --cgroup PATH, or a command after --"},
		{[]string{"--pid", self, "--cgroup", "/"}, "--pid and --cgroup exclude each other"},
		{[]string{"--pid", self, "--", "true"}, "--pid and a command exclude each other"},
		{[]string{"--pid", "0"}, "--pid 0 is not a process id"},
		{[]string{"--pid", "-5"}, "--pid -5 is not a process id"},
		{[]string{"--pid", "x"}, "--pid"},
		{[]string{"--pid", fmt.Sprint(ended.Process.Pid)}, "no process " + fmt.Sprint(ended.Process.Pid) + ": it does not exist, or has ended"},
		{[]string{"--pid", fmt.Sprint(otherThread(t))}, "is a thread, not a process: name its process"},
		{[]string{"--cgroup", "/no/such/group"}, "no cgroup /no/such/group in the v2 hierarchy at "},
		{[]string{"--cgroup", "web"}, `cgroup "web": the path is relative to the root of the v2 hierarchy and must begin with /`},
		{[]string{"--pid", self, "--duration", "0"}, "--duration 0s is outside 10ms to 24h0m0s"},
		{[]string{"--pid", self, "--duration", "24h0m1s"}, "--duration 24h0m1s is outside 10ms to 24h0m0s"},
		{[]string{"--pid", self, "--rate", "0"}, "--rate 0 is outside 1 to 9999"},
		{[]string{"--pid", self, "--rate", "10000"}, "--rate 10000 is outside 1 to 9999"},
		{[]string{"--pid", self, "--threads", "some"}, `--threads "some": give groups or single`},
		{[]string{"--pid", self, "--threads", "single", "--group", "a=b"}, "--threads single and --group exclude each other"},
		{[]string{"--pid", self, "--group", "gc"}, `--group: thread group "gc": write NAME=REGEXP`},
		{[]string{"--pid", self, "--group", "gc=("}, `--group: thread group "gc=(": bad regexp`},
		{[]string{"--pid", self, "--group", "all=.*", "--group", "gc=G1.*"}, "can never match"},
		{[]string{"--pid", self, "--stack-budget", "-1"}, "--stack-budget -1 is outside 0 to 1048576"},
		{[]string{"--pid", self, "--max-stacks", "0"}, "--max-stacks 0 is outside 1 to 4194304"},
		{[]string{"--pid", self, "--max-strata", "4194305"}, "--max-strata 4194305 is outside 1 to 4194304"},
		{[]string{"--pid", self, "--max-samples", "0"}, "--max-samples 0 is outside"},
		{[]string{"--pid", self, "--max-ended", "0"}, "--max-ended 0 is outside"},
		{[]string{"--pid", self, "--max-threads", "100001"}, "--max-threads 100001 is outside 1 to 100000"},
		{[]string{"--pid", self, "--top", "-1"}, "--top -1: give 0 or more"},
		{[]string{"--pid", self, "--preset", "nosuch"}, `rules "nosuch": neither a preset`},
		{[]string{"--pid", self, "--output", full}, full + " exists and is not empty"},
		{[]string{"--output", filepath.Join(full, "new"), "--", "/no/such/command"}, "the command cannot be started"},
	} {
		var stdout, stderr bytes.Buffer
		code := execute(t.Context(), newRootCommand(), append([]string{"profile"}, c.args...), &stdout, &stderr)
		if code != exitUsage || !strings.Contains(stderr.String(), c.want) || stdout.String() != "" {
			t.Errorf("%q: exit %d, stderr %q, stdout %q; want exit %d, %q", c.args, code, stderr.String(), stdout.String(), exitUsage, c.want)
		}
	}
	if _, err := os.Stat(filepath.Join(full, "new")); err == nil {
		t.Error("the output directory of a refused call is left")
	}
}

// otherThread is a thread of this process that is not its first.
func otherThread(t *testing.T) int {
	tids, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, tid := range tids {
		if tid.Name() != fmt.Sprint(os.Getpid()) {
			var n int
			fmt.Sscan(tid.Name(), &n)
			return n
		}
	}
	t.Fatal("this process has one thread")
	return 0
}

// TestProfileWithoutPrivileges runs it without the capabilities that it needs.
func TestProfileWithoutPrivileges(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(os.Args[0], "profile", "--pid", fmt.Sprint(os.Getpid()), "--output", output)
	cmd.Env = append(os.Environ(), asRung+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with what it gave up
		for _, c := range []uintptr{unix.CAP_BPF, unix.CAP_SYS_ADMIN} {
			_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0) // refused where there is nothing to give up
		}
		failed <- cmd.Run()
	}()
	if err := <-failed; cmd.ProcessState.ExitCode() != exitUsage {
		t.Errorf("%v, want exit %d", err, exitUsage)
	}
	for _, part := range []string{"root or capabilities: lacks", "BPF (to load programs)", "run as root, or give the process the capabilities BPF,"} {
		if !strings.Contains(stderr.String(), part) {
			t.Errorf("stderr lacks %q: %s", part, stderr.String())
		}
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("the output directory is left")
	}
}

func TestProfileOptions(t *testing.T) {
	for name, c := range map[string]struct {
		o    profileOptions
		want bool
	}{
		"process":                 {profileOptions{hasPid: true}, false},
		"command":                 {profileOptions{command: []string{"true"}}, true},
		"command with a duration": {profileOptions{command: []string{"true"}, hasDuration: true}, false},
	} {
		if got := c.o.untilExit(); got != c.want {
			t.Errorf("%s: until exit %t", name, got)
		}
	}
	if rules, err := (profileOptions{}).idleRules(); rules != nil || err != nil {
		t.Errorf("no rules named: %v, %v", rules, err)
	}
	if rules, err := (profileOptions{presets: []string{"go"}}).idleRules(); rules == nil || err != nil {
		t.Errorf("preset go: %v, %v", rules, err)
	}
}

func TestProfileVerdict(t *testing.T) {
	code := func(n int) *int { return &n }
	for _, c := range []struct {
		r    profileResult
		want string
	}{
		{profileResult{}, ""},
		{profileResult{Command: &commandEnd{ExitCode: code(0)}}, ""},
		{profileResult{Command: &commandEnd{ExitCode: code(3)}}, "the command exited with code 3"},
		{profileResult{Command: &commandEnd{Signal: "SIGSEGV"}}, "the command was ended by SIGSEGV"},
		{profileResult{Command: &commandEnd{Signal: "SIGTERM", StoppedByRung: true}}, ""},
		{profileResult{Command: &commandEnd{Signal: "SIGINT"}, Ended: endedInterrupted}, ""},
		{profileResult{Void: "the host was suspended"}, "the window is void: the host was suspended"},
	} {
		got := ""
		if err := c.r.verdict(); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}

// TestStartStopped holds a command at its first instruction.
func TestStartStopped(t *testing.T) {
	var stdout lockedBuffer
	c, err := startStopped([]string{"sh", "-c", "read line; echo got $line; exit 7"}, strings.NewReader("a line\n"), &stdout, &stdout)
	if err != nil {
		t.Fatal(err)
	}
	defer c.stop()
	time.Sleep(50 * time.Millisecond)
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", c.pid))
	if err != nil || string(comm) != "sh\n" || stdout.String() != "" {
		t.Errorf("before its release: comm %q, %v, output %q", comm, err, stdout.String())
	}
	if threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.pid)); err != nil || len(threads) != 1 {
		t.Errorf("before its release: %d threads, %v", len(threads), err)
	}
	if err := c.release(); err != nil {
		t.Fatal(err)
	}
	var info unix.Siginfo
	for err = unix.EINTR; err == unix.EINTR; { // until it has ended
		err = unix.Waitid(unix.P_PID, c.pid, &info, unix.WEXITED|unix.WNOWAIT, nil)
	}
	c.stop()
	if end := c.end(); err != nil || end.ExitCode == nil || *end.ExitCode != 7 || end.StoppedByRung || stdout.String() != "got a line\n" {
		t.Errorf("%v: ended as %v, output %q", err, end, stdout.String())
	}
}

// lockedBuffer is a buffer that a command writes while a test looks at it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// TestStopBeforeRelease ends a command that never ran.
func TestStopBeforeRelease(t *testing.T) {
	c, err := startStopped([]string{"sleep", "60"}, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.stop()
	c.stop()
	if end := c.end(); end.Signal != "SIGTERM" || !end.StoppedByRung {
		t.Errorf("ended as %+v", end)
	}
}
