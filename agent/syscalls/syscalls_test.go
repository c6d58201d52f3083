package syscalls

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

func TestNameFor(t *testing.T) {
	for _, tt := range []struct {
		arch string
		nr   int32
		want string
	}{
		{"amd64", 0, "read"},
		{"amd64", 1, "write"},
		{"amd64", 20, "writev"},
		{"amd64", 202, "futex"},
		{"amd64", 262, "newfstatat"},
		{"amd64", 281, "epoll_pwait"},
		{"arm64", 0, "io_setup"},
		{"arm64", 22, "epoll_pwait"},
		{"arm64", 64, "write"},
		{"arm64", 79, "newfstatat"},
		{"arm64", 98, "futex"},
		{"arm64", 244, "syscall_244"},
		{"amd64", 400, "syscall_400"}, // a hole
		{"amd64", 100000, "syscall_100000"},
		{"amd64", -1, "syscall_-1"},
		{"riscv64", 64, "syscall_64"},
	} {
		if got := NameFor(tt.arch, tt.nr); got != tt.want {
			t.Errorf("NameFor(%q, %d) = %q, want %q", tt.arch, tt.nr, got, tt.want)
		}
	}
}

func TestNameOfRunningArchitecture(t *testing.T) {
	for nr, want := range map[int32]string{
		unix.SYS_WRITE:          "write",
		unix.SYS_SENDMSG:        "sendmsg",
		unix.SYS_SCHED_YIELD:    "sched_yield",
		unix.SYS_IO_URING_ENTER: "io_uring_enter",
	} {
		if got := NameFor(runtime.GOARCH, nr); got != want {
			t.Errorf("Name(%d) = %q, want %q", nr, got, want)
		}
	}
}

// Both tables must know every call of the other that Linux has on both.
func TestTablesAgreeOnCommonCalls(t *testing.T) {
	arm := map[string]bool{}
	for _, name := range arm64Names {
		arm[name] = true
	}
	amd := map[string]bool{}
	for _, name := range amd64Names {
		amd[name] = true
	}
	for name := range arm {
		if !amd[name] {
			t.Errorf("arm64 has %q, amd64 has not", name)
		}
	}
}

// The committed table is what gen.go writes today.
func TestGenerated(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command to run the generator with")
	}
	fresh := filepath.Join(t.TempDir(), "names.go")
	if out, err := exec.Command("go", "run", "gen.go", "-o", fresh).CombinedOutput(); err != nil {
		t.Fatalf("go run gen.go: %v\n%s", err, out)
	}
	want, err := os.ReadFile(fresh)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("names.go")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("names.go is not what gen.go writes; run `go generate` (-want +got):\n%s", diff)
	}
}
