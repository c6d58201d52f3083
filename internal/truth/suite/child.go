//go:build linux

package suite

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// The program that calls Run is also the workload: a child of its own with a
// task in the environment. Its workers are locked threads that do the work and
// log it on their own clocks; the dialogue is lines on standard input and output:
//
//	child   {"pid":71,"anchor":4198400,"workers":[{"tid":73,"role":"reader"}, …]}
//	parent  go
//	child   {"workers":[{"tid":73,"wallNs":…}, …]}
//	parent  end (or kills it)
//
// Before "go" and after their work, workers wait in the gate: ppoll without a
// timeout, a reason that no work uses.

const workloadEnv = "RUNG_TRUTH_WORKLOAD"

// task is what a child is told to do.
type task struct {
	Name   string
	Kind   string        // a variant of the work
	Length time.Duration // of one wait, or of all work
	N      int           // waits, rounds or threads
	CPU    int           // to be pinned to, if the work pins
	Dir    string        // where files may be made
}

// big: so many threads that they may wait for the Go runtime, too.
func (t task) big() bool { return t.Name == "crowd" && t.N >= 50 }

// hello is a child's first line.
type hello struct {
	Pid     uint32    `json:"pid"`
	Anchor  uint64    `json:"anchor"` // address of Workload, to translate others
	Workers []*worker `json:"workers"`
}

// report is a child's last line.
type report struct {
	Workers []*worker `json:"workers"`
	Others  []born    `json:"others"` // threads or processes that the work made
	Error   string    `json:"error,omitempty"`
}

// Workload turns the process into a workload if it was started as one, and does
// not return then. Every program that calls Run calls this first.
func Workload() {
	text := os.Getenv(workloadEnv)
	if text == "" {
		if text = os.Getenv(chainEnv); text != "" {
			chained(text)
		}
		return
	}
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", workloadEnv, err)
		os.Exit(2)
	}
	enlist, ok := workloads[t.Name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no workload %q\n", workloadEnv, t.Name)
		os.Exit(2)
	}
	debug.SetMaxThreads(t.N + 10_000) // of the Go runtime, which gives up at 10,000
	c := newCrew(t)
	enlist(c)
	c.serve()
	os.Exit(0)
}

// workloads make the workers of a crew, by name of the task.
var workloads = map[string]func(*crew){
	"wait":    waitWork,
	"spin":    spinWork,
	"rounds":  roundsWork,
	"herd":    herdWork,
	"crowd":   crowdWork,
	"convoy":  convoyWork,
	"nursery": nurseryWork,
	"wander":  wanderWork,
	"link":    linkWork,
	"nap":     napWork,
	"stopped": stoppedWork,
}

// crew is the workers of one child.
type crew struct {
	task    task
	goFd    int // becomes readable for good at "go"
	endFd   int // never becomes readable
	workers []*worker
	ready   atomic.Int64
	busy    atomic.Int64 // workers that have work and have not ended it
	told    atomic.Uint64
	stop    atomic.Bool // asks work without an end of its own to end
	others  []born      // written by one worker, read after it has ended
}

func newCrew(t task) *crew {
	c := &crew{task: t}
	for _, fd := range []*int{&c.goFd, &c.endFd} {
		var err error
		if *fd, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
			panic(err)
		}
	}
	return c
}

// add makes a worker; nil work is parked for good.
func (c *crew) add(role string, work func(*worker)) *worker {
	w := &worker{Role: role, crew: c}
	c.workers = append(c.workers, w)
	if work != nil {
		c.busy.Add(1)
	}
	go w.live(work)
	return w
}

// serve holds the dialogue. It looks for the end of the work from time to time
// only, so that no worker has to wake it.
func (c *crew) serve() {
	for int(c.ready.Load()) < len(c.workers) {
		time.Sleep(time.Millisecond)
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode(hello{uint32(os.Getpid()), anchor(), c.workers})
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return
	}
	c.told.Store(uint64(bpf.Now()))
	unix.Write(c.goFd, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	for c.busy.Load() > 0 {
		time.Sleep(5 * time.Millisecond)
	}
	result := report{Workers: c.workers, Others: c.others}
	for _, w := range c.workers {
		w.Told = bpf.MonoNs(c.told.Load())
		if w.Failed != "" && result.Error == "" {
			result.Error = w.Role + ": " + w.Failed
		}
	}
	out.Encode(result)
	in.ReadString('\n')
}

// worker is one locked thread, and what it says of itself. Times of the thread
// and of the whole process are CLOCK_MONOTONIC and the CPU clocks.
type worker struct {
	Tid    uint32     `json:"tid"`
	Role   string     `json:"role"`
	Told   bpf.MonoNs `json:"told"`  // when it was woken to begin, at the earliest
	Began  bpf.MonoNs `json:"began"` // 0: it had no work
	Ended  bpf.MonoNs `json:"ended"`
	WallNs uint64     `json:"wallNs"` // between Began and Ended
	CPUNs  uint64     `json:"cpuNs"`  // of this thread, in between
	// Of the calls that wait: their number, the time around them, the CPU time in it.
	NominalNs uint64   `json:"nominalNs"` // what its sleeps were to take
	Waits     uint64   `json:"waits"`
	InWallNs  uint64   `json:"inWallNs"`
	InCPUNs   uint64   `json:"inCpuNs"`
	Switches  uint64   `json:"switches"` // rusage's, voluntary or not
	MajorFlts uint64   `json:"majorFlts"`
	Log       []stamp  `json:"log,omitempty"`
	Notes     []string `json:"notes,omitempty"` // what it read of its host
	Failed    string   `json:"failed,omitempty"`

	crew *crew
	// Memory that calls point at, on the heap.
	ts     unix.Timespec
	fds    [1]unix.PollFd
	events [4]unix.EpollEvent
	buf    [64]byte
}

// stamp is a reading of a worker's clocks at an instant.
type stamp struct {
	At    bpf.MonoNs `json:"at"`
	CPUNs uint64     `json:"cpuNs"`
}

func (w *worker) live(work func(*worker)) {
	runtime.LockOSThread()
	w.Tid = uint32(unix.Gettid())
	unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // its sleeps end when they are to end
	w.crew.ready.Add(1)
	if work != nil {
		w.gate(w.crew.goFd)
		began, cpu, usage := bpf.Now(), threadCPU(), usageOf()
		func() {
			defer func() {
				if r := recover(); r != nil {
					w.Failed = fmt.Sprint(r)
				}
			}()
			work(w)
		}()
		after := usageOf()
		w.CPUNs, w.Ended = threadCPU()-cpu, bpf.Now()
		w.Began, w.WallNs = began, uint64(w.Ended-began)
		w.Switches = uint64(after.Nvcsw + after.Nivcsw - usage.Nvcsw - usage.Nivcsw)
		w.MajorFlts = uint64(after.Majflt - usage.Majflt)
		w.crew.busy.Add(-1)
	}
	for {
		w.gate(w.crew.endFd)
	}
}

// gate waits until fd is readable.
func (w *worker) gate(fd int) {
	w.fds[0] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	for {
		n, _, errno := w.call(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&w.fds[0])), 1, 0, 0, 0, 0)
		if errno == 0 && n == 1 {
			return
		}
	}
}

// call makes a system call. What it points at must be on the heap.
func (w *worker) call(trap, a, b, c, d, e, f uintptr) (r1, r2 uintptr, errno unix.Errno) {
	// Not a raw call: the runtime wants to preempt threads that seem to run for
	// long, and its own waits would be the workload's.
	return unix.Syscall6(trap, a, b, c, d, e, f)
}

// timed notes the clocks around one call that waits.
func (w *worker) timed(wait func()) {
	t0, c0 := bpf.Now(), threadCPU()
	wait()
	c1, t1 := threadCPU(), bpf.Now()
	w.Waits++
	w.InWallNs += uint64(t1 - t0)
	w.InCPUNs += c1 - c0
}

func (w *worker) sleep(d time.Duration) {
	w.ts = unix.NsecToTimespec(int64(d))
	w.call(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, 0, uintptr(unsafe.Pointer(&w.ts)), 0, 0, 0)
}

// pin keeps the worker's thread on one CPU.
func (w *worker) pin(cpu int) {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		panic(err)
	}
}

// burn computes until an instant.
func (w *worker) burn(until bpf.MonoNs) {
	for bpf.Now() < until {
		sink.Add(spin(2000))
	}
}

var sink atomic.Uint64

//go:noinline
func spin(n int) (x uint64) {
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

func threadCPU() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return uint64(t.Nano())
}

func usageOf() (u unix.Rusage) {
	unix.Getrusage(unix.RUSAGE_THREAD, &u)
	return u
}

// anchor is where Workload lies in this process.
func anchor() uint64 {
	f := Workload
	return uint64(**(**uintptr)(unsafe.Pointer(&f)))
}
