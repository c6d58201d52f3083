//go:build linux

package bpf

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The test binary is also the workload: a child of its own with a task name in
// the environment, one locked thread that does the work and logs what it did on
// its own clocks, and a dialogue by lines on standard input and output.

const workloadEnv = "RUNG_TEST_WORKLOAD"

func TestMain(m *testing.M) {
	if task := os.Getenv(workloadEnv); task != "" {
		runWorkload(strings.Fields(task))
		os.Exit(0)
	}
	code := m.Run()
	for _, p := range shared {
		if err := p.Close(); err != nil && code == 0 {
			fmt.Println("close:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// truth is what a workload says of itself.
type truth struct {
	Tid      int
	Began    MonoNs // when it had been woken to begin
	Ended    MonoNs // when the work was done
	Waits    int    // intervals spent waiting
	CPUNs    uint64 // thread CPU clock over the work
	WallNs   uint64
	FirstNs  uint64 // CPU time in burnFirst and burnSecond
	SecondNs uint64
}

var workloads = map[string]func(args []string) truth{
	"hold":       hold,
	"split":      func([]string) truth { return split(3 * time.Second) },
	"pipe":       func(args []string) truth { return waits(args, pipeWait()) },
	"futex":      func(args []string) truth { return waits(args, futexWait) },
	"sleep":      func(args []string) truth { return waits(args, sleepWait) },
	"spin":       func(args []string) truth { return spin(args) },
	"idle":       func(args []string) truth { time.Sleep(duration(args[0])); return truth{} },
	"threads":    func(args []string) truth { return bornAndDying(duration(args[0])) },
	"spawn":      func(args []string) truth { return spawn(args) },
	"brood":      func(args []string) truth { return brood(args[0]) },
	"places":     func([]string) truth { return places(2000) },
	"manysleeps": func([]string) truth { return manySleeps() },
	"manyplace":  func([]string) truth { return manyStacks(2 * time.Second) },
}

func runWorkload(args []string) {
	runtime.LockOSThread()
	fmt.Printf("%d\n", unix.Gettid())
	park() // until the window is armed
	began := Now()
	result := workloads[args[0]](args[1:])
	result.Tid, result.Began, result.Ended = unix.Gettid(), began, Now()
	line, _ := json.Marshal(result)
	fmt.Printf("%s\n", line)
	park()
}

// park waits for a byte on standard input in poll, a reason no workload uses.
func park() {
	for {
		fds := []unix.PollFd{{Fd: 0, Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, -1); err == unix.EINTR || n == 0 {
			continue
		}
		var b [1]byte
		unix.Read(0, b[:])
		return
	}
}

func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		panic(err)
	}
	return d
}

func threadCPU() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return uint64(t.Nano())
}

var sink uint64

//go:noinline
func burnFirst(n int) uint64 {
	x := sink
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

//go:noinline
func burnSecond(n int) uint64 {
	x := sink
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

// split spends 70 % of its CPU in burnFirst, 30 % in burnSecond, and measures both.
func split(d time.Duration) truth {
	const chunk = 20_000
	var t truth
	begin := Now()
	for i := 0; Now()-begin < MonoNs(d); i++ {
		c0 := threadCPU()
		for range 7 + i%3 {
			sink = burnFirst(chunk)
		}
		c1 := threadCPU()
		for range 3 + (i%7)/3 {
			sink = burnSecond(chunk)
		}
		c2 := threadCPU()
		t.FirstNs += c1 - c0
		t.SecondNs += c2 - c1
	}
	return t
}

// waits repeats one wait, COUNT times, for about LENGTH each.
func waits(args []string, wait func(time.Duration)) truth {
	n, _ := strconv.Atoi(args[0])
	length := duration(args[1])
	t := truth{Waits: n}
	t0, c0 := Now(), threadCPU()
	for i := range n {
		wait(length + time.Duration(i%5)*length/10)
	}
	t.CPUNs, t.WallNs = threadCPU()-c0, uint64(Now()-t0)
	return t
}

func sleepWait(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	unix.Syscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
}

//go:noinline
func sleepFirst(d time.Duration) { sleepWait(d); sink++ }

//go:noinline
func sleepSecond(d time.Duration) { sleepWait(d); sink++ }

// places sleeps at two places, 70 % and 30 % of the time, and measures both.
func places(n int) truth {
	t := truth{Waits: n}
	for i := range n {
		t0 := Now()
		if i%2 == 0 {
			sleepFirst(700*time.Microsecond + time.Duration(i%7)*100*time.Microsecond)
			t.FirstNs += uint64(Now() - t0)
		} else {
			sleepSecond(300*time.Microsecond + time.Duration(i%5)*50*time.Microsecond)
			t.SecondNs += uint64(Now() - t0)
		}
	}
	return t
}

func futexWait(d time.Duration) {
	var word uint32
	ts := unix.NsecToTimespec(int64(d))
	const futexWaitPrivate = 128
	unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&word)), futexWaitPrivate, 0, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// pipeWait reads a pipe that another thread writes after each length.
func pipeWait() func(time.Duration) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		panic(err)
	}
	lengths := make(chan time.Duration, 1)
	go func() {
		runtime.LockOSThread()
		for d := range lengths {
			sleepWait(d)
			unix.Write(fds[1], []byte{1})
		}
	}()
	return func(d time.Duration) {
		lengths <- d
		var b [1]byte
		unix.Syscall(unix.SYS_READ, uintptr(fds[0]), uintptr(unsafe.Pointer(&b)), 1)
	}
}

// spin burns for a while, pinned to the CPU of args[1] if there is one.
func spin(args []string) truth {
	if len(args) > 1 {
		cpu, _ := strconv.Atoi(args[1])
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			panic(err)
		}
	}
	t0, c0 := Now(), threadCPU()
	for Now()-t0 < MonoNs(duration(args[0])) {
		sink = burnFirst(10_000)
	}
	return truth{CPUNs: threadCPU() - c0, WallNs: uint64(Now() - t0)}
}

// bornAndDying makes a thread every few milliseconds that works and ends.
func bornAndDying(d time.Duration) truth {
	t := truth{}
	for t0 := Now(); Now()-t0 < MonoNs(d); {
		done := make(chan struct{})
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			sink = burnFirst(500_000)
			close(done)
		}()
		<-done
		t.Waits++
		sleepWait(3 * time.Millisecond)
	}
	return t
}

// spawn runs this binary again as a child of its own, with another workload.
func spawn(args []string) truth {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), workloadEnv+"="+strings.Join(args, " "))
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	lines := bufio.NewReader(out)
	lines.ReadString('\n')
	in.Write([]byte("g"))
	line, _ := lines.ReadString('\n')
	var t truth
	json.Unmarshal([]byte(line), &t)
	in.Write([]byte("g"))
	cmd.Wait()
	return t
}

// brood makes processes that end without executing anything, one after the other.
func brood(n string) truth {
	count, err := strconv.Atoi(n)
	if err != nil {
		panic(err)
	}
	for range count {
		if _, err := syscall.ForkExec("/", nil, &syscall.ProcAttr{}); err == nil {
			panic("a directory was executed")
		}
	}
	return truth{}
}

// manyStacks reaches burnFirst by many different paths.
func manyStacks(d time.Duration) truth {
	for t0, i := Now(), uint(0); Now()-t0 < MonoNs(d); i++ {
		sink = path(i%512, 9)
	}
	return truth{}
}

//go:noinline
func path(bits uint, depth int) uint64 {
	if depth == 0 {
		return burnFirst(20_000)
	}
	if bits&1 == 1 {
		return path(bits>>1, depth-1) + 1
	}
	return path(bits>>1, depth-1) + 2
}

// manySleeps sleeps briefly at many places, and long at one.
func manySleeps() truth {
	var t truth
	t0 := Now()
	for i := range uint(300) {
		if i%50 == 49 {
			t1 := Now()
			sleepSecond(100 * time.Millisecond)
			t.SecondNs += uint64(Now() - t1)
			continue
		}
		t1 := Now()
		sleepPath(i, 9)
		t.FirstNs += uint64(Now() - t1)
	}
	t.WallNs = uint64(Now() - t0)
	return t
}

//go:noinline
func sleepPath(bits uint, depth int) {
	switch {
	case depth == 0:
		sleepFirst(200 * time.Microsecond)
	case bits&1 == 1:
		sleepPath(bits>>1, depth-1)
		sink++
	default:
		sleepPath(bits>>1, depth-1)
		sink += 2
	}
}

// child is a running workload, seen from the test.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    *os.File
	lines *bufio.Reader
	pid   uint32
	tid   uint32
	told  MonoNs // when start was called
}

// startWorkload starts a child that waits for go_. cgroup "" leaves it where the test runs.
func startWorkload(t *testing.T, cgroupDir string, task ...string) *child {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	// A signal to preempt the thread could end its sleep early.
	cmd.Env = append(os.Environ(), workloadEnv+"="+strings.Join(task, " "), "GOMAXPROCS=2", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if cgroupDir != "" {
		dir, err := os.Open(cgroupDir)
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	// Pdeathsig follows the thread that forks: keep it.
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	c := &child{t: t, cmd: cmd, in: in.(*os.File), lines: bufio.NewReader(out), pid: uint32(cmd.Process.Pid)}
	tid, err := strconv.Atoi(c.line())
	if err != nil {
		t.Fatalf("workload's first line: %v", err)
	}
	c.tid = uint32(tid)
	return c
}

func (c *child) line() string {
	c.t.Helper()
	line, err := c.lines.ReadString('\n')
	if err != nil {
		c.t.Fatalf("workload: %v", err)
	}
	return strings.TrimSpace(line)
}

// start lets the workload begin; result waits for what it says of itself.
func (c *child) start() {
	c.told = Now()
	c.in.Write([]byte("g"))
}

func (c *child) result() (t truth) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.line()), &t); err != nil {
		c.t.Fatal(err)
	}
	return t
}
