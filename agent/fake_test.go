package agent

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rungprof/rung/bpf"
)

// fakeKernel holds windows as the kernel side does, with an account made up.
type fakeKernel struct {
	mu       sync.Mutex
	slots    map[bpf.Slot]string // cgroup id or pid
	next     bpf.Slot
	windows  map[bpf.Slot]map[uint32]bpf.Window
	last     map[bpf.Slot]uint32
	released []string // "slot/id"
	threads  []bpf.Thread
	samples  []bpf.Sample
	offCPU   []bpf.OffCPU
	parked   []bpf.Slot
	parkErr  error
	parkHold chan struct{} // Park waits for it, if set
	stacks   map[uint64]bpf.Stack
	counters bpf.Counters
	costs    []bpf.ProgramCost
	costsErr error
	armErr   error
	edges    int           // read so far
	hold     chan struct{} // Samples waits for it, if set
	begun    chan fakeProcess
}

// fakeProcess is one that began.
type fakeProcess struct {
	slot bpf.Slot
	tgid uint32
}

func newFakeKernel() *fakeKernel {
	return &fakeKernel{
		slots: map[bpf.Slot]string{}, windows: map[bpf.Slot]map[uint32]bpf.Window{}, last: map[bpf.Slot]uint32{},
		counters: bpf.Counters{}, stacks: map[uint64]bpf.Stack{}, begun: make(chan fakeProcess),
	}
}

func (k *fakeKernel) add(what string) (bpf.Slot, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, known := range k.slots {
		if known == what {
			return 0, fmt.Errorf("%s is a target already", what)
		}
	}
	k.next++
	k.slots[k.next] = what
	k.windows[k.next] = map[uint32]bpf.Window{}
	return k.next, nil
}

func (k *fakeKernel) AddCgroup(id uint64) (bpf.Slot, error) { return k.add(fmt.Sprint("cgroup ", id)) }
func (k *fakeKernel) AddTree(pid uint32) (bpf.Slot, error)  { return k.add(fmt.Sprint("pid ", pid)) }

func (k *fakeKernel) Remove(s bpf.Slot) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.slots[s]; !ok {
		return errors.New("no such slot")
	}
	delete(k.slots, s)
	return nil
}

func (k *fakeKernel) Arm(s bpf.Slot, w bpf.Window) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.armErr != nil:
		return k.armErr
	case k.slots[s] == "":
		return errors.New("no such slot")
	case w.ID != k.last[s]+1, w.BlockNs == 0, w.End != 0 && w.End <= w.Start:
		return fmt.Errorf("bad window %+v after %d", w, k.last[s])
	case len(k.windows[s]) >= 2:
		return errors.New("two older windows are not drained")
	}
	k.last[s] = w.ID
	k.windows[s][w.ID] = w
	return nil
}

func (k *fakeKernel) SetEnd(s bpf.Slot, id uint32, end bpf.MonoNs) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.windows[s][id]
	if !ok || end <= w.Start {
		return fmt.Errorf("window %d cannot end at %d", id, end)
	}
	w.End = end
	k.windows[s][id] = w
	return nil
}

func (k *fakeKernel) WatchProcesses(ctx context.Context, told func(bpf.Slot, uint32)) error {
	for {
		select {
		case is := <-k.begun:
			told(is.slot, is.tgid)
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *fakeKernel) Threads(s bpf.Slot, id uint32) ([]bpf.Thread, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.windows[s][id]
	if !ok || w.End == 0 || bpf.Now() < w.End {
		return nil, fmt.Errorf("window %d has not ended", id)
	}
	return k.threads, nil
}

func (k *fakeKernel) Samples(s bpf.Slot, id uint32) ([]bpf.Sample, error) {
	if k.hold != nil {
		<-k.hold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	samples := k.samples
	k.samples = nil
	return samples, nil
}

func (k *fakeKernel) Park(s bpf.Slot) error {
	if k.parkHold != nil {
		<-k.parkHold
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.parked = append(k.parked, s)
	return k.parkErr
}

func (k *fakeKernel) OffCPU(s bpf.Slot, id uint32) ([]bpf.OffCPU, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, ok := k.windows[s][id]
	if !ok || w.End == 0 || bpf.Now() < w.End {
		return nil, fmt.Errorf("window %d has not ended", id)
	}
	rows := k.offCPU
	k.offCPU = nil
	return rows, nil
}

func (k *fakeKernel) Stack(hash uint64) (bpf.Stack, bool) {
	stack, ok := k.stacks[hash]
	return stack, ok
}

func (k *fakeKernel) Release(s bpf.Slot, id uint32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.windows[s][id]; !ok {
		return fmt.Errorf("window %d is not armed", id)
	}
	delete(k.windows[s], id)
	k.released = append(k.released, fmt.Sprintf("%d/%d", s, id))
	return nil
}

func (k *fakeKernel) Counters() (bpf.Counters, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Clone(k.counters), nil
}

// Costs is the last thing the agent reads at an edge.
func (k *fakeKernel) Costs() ([]bpf.ProgramCost, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.edges++
	return k.costs, k.costsErr
}

// awaitEdges waits until that many edges have been read.
func (k *fakeKernel) awaitEdges(n int) {
	for {
		k.mu.Lock()
		read := k.edges
		k.mu.Unlock()
		if read >= n {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func (k *fakeKernel) MapBytes() uint64 { return 4096 }

func (k *fakeKernel) KernelName(addr uint64) (string, uint64, error) {
	return fmt.Sprintf("kernel_function_%x", addr), 0, nil
}

func (k *fakeKernel) slotCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.slots)
}

// fakeHost is a v2 host with two services, as files below a temporary directory.
func fakeHost(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, map[string]string{
		"proc/self/mountinfo":            "23 1 0:28 / @/cg rw - cgroup2 cgroup2 rw\n",
		"proc/sys/kernel/random/boot_id": "boot-1\n",
		"proc/sys/kernel/kptr_restrict":  "2\n",
		"proc/71/stat":                   procStat(71, 1, 100),
		"proc/71/task/71/stat":           "71 (svc) S 1 71 71\n",
		"proc/71/task/72/stat":           "72 (worker) R) S 1 71 71\n",
		"proc/71/task/71/schedstat":      "1000 200 3\n",
		"proc/71/task/72/schedstat":      "5000 600 7\n",
		"sys/devices/system/cpu/online":  "0-1\n",
		"sys/kernel/security/lockdown":   "none integrity [confidentiality]\n",
		"cg/cgroup.procs":                "1\n",
		"cg/web/cgroup.procs":            "71\n",
		"cg/web/cpu.stat":                "usage_usec 4000\nuser_usec 3000\nsystem_usec 1000\nnr_periods 10\nnr_throttled 4\nthrottled_usec 777\n",
		"cg/web/cpu.max":                 "50000 100000\n",
		"cg/web/cpu.pressure":            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
		"cg/web/memory.current":          "4096\n",
		"cg/web/memory.stat":             "anon 10\n",
		"cg/db/cgroup.procs":             "",
		"cg/db/cpu.stat":                 "usage_usec 1\nuser_usec 1\nsystem_usec 0\n",
	})
	return root
}

// write makes files below root; @ stands for root in their texts.
func write(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "@", root)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// procStat is the text of a /proc/PID/stat with a resident set of 25 pages.
func procStat(pid, ppid int, start uint64) string {
	return fmt.Sprintf("%d (svc) S %d 1 1 0 -1 4194560 0 0 0 0 5 6 0 0 20 0 2 0 %d 4096000 25 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", pid, ppid, start)
}
