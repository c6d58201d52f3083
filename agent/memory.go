package agent

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

const (
	// Listing the target's processes, and reading them, take each at most one part
	// in lookShare of a CPU; reading can save up mostSaved before.
	lookShare = 100
	mostSaved = 50 * time.Millisecond
	// The processes are listed this often.
	listGap = time.Second
	// A process's mappings are read again after this, and then twice that, and so
	// on: libraries are loaded early in its life.
	shortestRead, longestRead = 20 * time.Millisecond, 10 * time.Second
	// mostRemembered bounds the processes that are looked after in a window.
	mostRemembered = 1024
)

// memory is which of a target's processes are known in a window, and when each is
// read again.
type memory struct {
	list  func(known []int) ([]int, error) // the target's processes, ascending
	read  func(pid uint32) error           // of one, what names its addresses
	clock func() bpf.MonoNs
	used  func() time.Duration // CPU time so far of what calls

	known   map[int]*remembered
	listing bpf.MonoNs // when they are listed next
	// What reading may take, as of an instant; below 0 after more was taken.
	saved   time.Duration
	counted bpf.MonoNs
}

// remembered is a process whose mappings were read.
type remembered struct {
	due bpf.MonoNs // when they are read again
	gap time.Duration
}

// look lists the processes if it is time, and reads those that are due. The only
// error is that the symbols are closed.
func (m *memory) look() error {
	at := m.clock()
	if at >= m.listing {
		m.renew(at)
	}
	defer m.reading()()
	for pid, p := range m.known {
		if p.due > at {
			continue
		}
		p.gap = min(2*p.gap, longestRead)
		p.due = at + bpf.MonoNs(p.gap)
		if err := m.readOne(pid); err != nil {
			return err
		}
	}
	return nil
}

// renew lists the processes: forgets those that have gone, and has the new ones read.
func (m *memory) renew(at bpf.MonoNs) {
	began := m.used()
	pids, err := m.list(slices.Collect(maps.Keys(m.known)))
	m.listing = at + bpf.MonoNs(max(listGap, lookShare*(m.used()-began)))
	if err != nil {
		return // the window tells that the target is gone
	}
	maps.DeleteFunc(m.known, func(pid int, _ *remembered) bool { _, found := slices.BinarySearch(pids, pid); return !found })
	for _, pid := range pids {
		if m.known[pid] == nil && len(m.known) < mostRemembered {
			m.known[pid] = &remembered{due: at, gap: shortestRead / 2}
		}
	}
}

// meet reads a process that has begun, or begun another program, unless reading has
// taken too much by now. The error is as look's.
func (m *memory) meet(pid int) error {
	at := m.clock()
	if m.allowance(at) <= 0 || m.known[pid] == nil && len(m.known) >= mostRemembered {
		return nil
	}
	defer m.reading()()
	m.known[pid] = &remembered{due: at + bpf.MonoNs(shortestRead), gap: shortestRead}
	return m.readOne(pid)
}

// readOne forgets a process that has gone.
func (m *memory) readOne(pid int) error {
	err := m.read(uint32(pid))
	if errors.Is(err, symbol.ErrClosed) {
		return err
	}
	if err != nil {
		delete(m.known, pid)
	}
	return nil
}

// pause is how long until the next look.
func (m *memory) pause() time.Duration {
	at := m.clock()
	due := m.listing
	for _, p := range m.known {
		due = min(due, p.due)
	}
	return max(time.Duration(due)-time.Duration(at), -m.allowance(at)*lookShare, 0)
}

// allowance is what reading may take at an instant.
func (m *memory) allowance(at bpf.MonoNs) time.Duration {
	m.saved = min(m.saved+time.Duration(at-m.counted)/lookShare, mostSaved)
	m.counted = at
	return m.saved
}

// reading takes what is used until the function it answers is called off the allowance.
func (m *memory) reading() (done func()) {
	m.allowance(m.clock())
	began := m.used()
	return func() { m.saved -= m.used() - began }
}
