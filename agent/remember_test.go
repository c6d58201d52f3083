package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// TestFamily lists a process tree: its children are found as they come, also ones
// of lower numbers and ones whose parent has gone, and those of others are not.
func TestFamily(t *testing.T) {
	r := newRig(t, Target{Name: "tree", Pid: 71})
	f := &family{agent: r.agent, root: 71, others: map[int]bool{}}
	var known []int
	list := func(want string) {
		t.Helper()
		got, err := f.list(known)
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("processes %v, %v; want %s", got, err, want)
		}
		known = got
	}
	list("[71]")
	write(t, r.root, map[string]string{
		"proc/80/stat": procStat(80, 1, 300), "proc/90/stat": procStat(90, 71, 301), "proc/70/stat": procStat(70, 90, 302), "proc/81/stat": procStat(81, 80, 303),
	})
	list("[70 71 90]")
	if !f.others[80] || !f.others[81] || f.others[70] {
		t.Errorf("others %v", f.others)
	}
	remove := func(pid string) {
		if err := os.RemoveAll(filepath.Join(r.root, "proc", pid)); err != nil {
			t.Fatal(err)
		}
	}
	remove("90")
	remove("80")
	list("[70 71]")
	if f.others[80] {
		t.Error("a number that is free again is still another's")
	}
	known = append(known, 81) // the kernel side told of it
	list("[70 71 81]")
	if f.others[81] {
		t.Error("a process that is known is still another's")
	}
	remove("71")
	list("[70 81]")
}

// TestBorn hands a new process to every window of its target, and to no other; a
// window that does not come to its looks loses some, and delays nothing.
func TestBorn(t *testing.T) {
	r := newRig(t)
	b := &r.agent.born
	first, deafFirst := b.listen(1)
	second, deafSecond := b.listen(1)
	other, deafOther := b.listen(2)
	r.kernel.begun <- fakeProcess{1, 42}
	if a, b := <-first, <-second; a != 42 || b != 42 {
		t.Errorf("told of %d and %d, want 42", a, b)
	}
	deafFirst()
	for pid := range uint32(2 * mostTold) {
		r.kernel.begun <- fakeProcess{1, pid}
	}
	r.kernel.begun <- fakeProcess{2, 7}
	if pid := <-other; pid != 7 {
		t.Errorf("told of %d, want 7", pid)
	}
	if len(first) != 0 || len(second) != mostTold {
		t.Errorf("%d and %d wait, want 0 and %d", len(first), len(second), mostTold)
	}
	deafSecond()
	deafOther()
	if len(b.ears) != 0 {
		t.Errorf("%d targets are still listened to", len(b.ears))
	}
}

// memoryRig is a memory over processes and clocks made up.
type memoryRig struct {
	memory
	t     *testing.T
	at    bpf.MonoNs
	cpu   time.Duration
	pids  []int
	lists int
	reads map[int]int
	// CPU time of each.
	listTakes, readTakes time.Duration
	readErr              error
}

func newMemoryRig(t *testing.T) *memoryRig {
	r := &memoryRig{t: t, at: 1e9, reads: map[int]int{}}
	r.memory = memory{
		list: func([]int) ([]int, error) {
			r.lists++
			r.cpu += r.listTakes
			return r.pids, nil
		},
		read: func(pid uint32) error {
			r.reads[int(pid)]++
			r.cpu += r.readTakes
			return r.readErr
		},
		clock: func() bpf.MonoNs { return r.at },
		used:  func() time.Duration { return r.cpu },
		known: map[int]*remembered{}, saved: mostSaved, counted: r.at,
	}
	return r
}

// run looks whenever it is time, for a time.
func (r *memoryRig) run(d time.Duration) {
	for end := r.at + bpf.MonoNs(d); r.at < end; {
		if err := r.look(); err != nil {
			r.t.Fatal(err)
		}
		r.at += bpf.MonoNs(max(r.pause(), time.Microsecond))
	}
}

// TestMemory reads a process more and more seldom, and a new one at once.
func TestMemory(t *testing.T) {
	r := newMemoryRig(t)
	r.pids = []int{71}
	r.run(500 * time.Millisecond)
	// After 0, 20, 60, 140 and 300 ms.
	if r.lists != 1 || r.reads[71] != 5 {
		t.Errorf("%d lists, %d reads; want 1 and 5", r.lists, r.reads[71])
	}
	if err := r.meet(72); err != nil || r.reads[72] != 1 {
		t.Errorf("a new process was read %d times, %v", r.reads[72], err)
	}
	r.pids = []int{71, 72}
	r.run(100 * time.Millisecond)
	if r.reads[72] != 3 {
		t.Errorf("a new process was read %d times within 100 ms, want 3", r.reads[72])
	}
	r.run(10 * time.Minute)
	if gap := r.known[71].gap; gap != longestRead {
		t.Errorf("after long, a reading each %v", gap)
	}
	if err := r.meet(71); err != nil || r.known[71].gap != shortestRead {
		t.Errorf("a process that has begun another program is read every %v, %v", r.known[71].gap, err)
	}
	r.pids = []int{72}
	r.run(listGap)
	if r.known[71] != nil || r.known[72] == nil {
		t.Errorf("known %v", r.known)
	}
}

// A process that has gone is forgotten; closed symbols end the looking.
func TestMemoryErrors(t *testing.T) {
	r := newMemoryRig(t)
	r.readErr = os.ErrNotExist
	if err := r.meet(72); err != nil || r.known[72] != nil {
		t.Errorf("known %v, %v", r.known, err)
	}
	r.readErr = fmt.Errorf("read: %w", symbol.ErrClosed)
	if err := r.meet(72); err == nil {
		t.Error("meets on, with the symbols closed")
	}
	r.pids = []int{71}
	if err := r.look(); err == nil {
		t.Error("looks on, with the symbols closed")
	}
}

// A process is read when it begins though listing takes long, as on a host of many
// processes; a target that begins thousands takes no more than its share.
func TestMemoryAllowance(t *testing.T) {
	r := newMemoryRig(t)
	r.pids, r.listTakes = []int{71}, 200*time.Millisecond
	r.run(500 * time.Millisecond)
	if err := r.meet(72); err != nil || r.reads[72] != 1 {
		t.Errorf("a new process was read %d times, %v", r.reads[72], err)
	}
	r.run(99 * time.Second)
	if r.lists != 5 {
		t.Errorf("%d lists of 200 ms within 99 s, want 5", r.lists)
	}
	r = newMemoryRig(t)
	r.readTakes = time.Millisecond
	for pid := range 10_000 {
		r.at += bpf.MonoNs(time.Millisecond)
		if err := r.meet(100 + pid); err != nil {
			t.Fatal(err)
		}
	}
	// 50 ms saved up, and 100 of 10 s.
	if n := len(r.reads); n < 145 || n > 155 {
		t.Errorf("%d of 10,000 processes were read, want 150", n)
	}
	r.run(time.Minute)
	if r.lists < 50 {
		t.Errorf("%d lists within a minute after that", r.lists)
	}
}
