//go:build linux

package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
)

// threadKey is the identity of a thread: its number may be used again.
type threadKey struct {
	tid     uint32
	startNs uint64
}

// reported is one record of the report stream.
type reported struct {
	head   rungReportHead
	thread *rungThread // nil: the programs never saw the thread
}

// Kinds of throttle clock, as throttle.h names them.
const (
	throttleNone = iota
	throttleExact
	throttleBound
)

// Sizes of the stream's parts, as report_thread writes them.
const (
	headSize   = int(unsafe.Sizeof(rungReportHead{}))
	threadSize = int(unsafe.Sizeof(rungThread{}))
	seqSize    = 8
)

// parseReport visits the records of a stream, or as many as are whole so far,
// and gives what is left of it. What is visited is used again. Records caught in
// the middle of a change are counted as torn and left out.
func parseReport(stream []byte, visit func(*reported)) (rest []byte, torn int) {
	var r reported
	var th rungThread
	for {
		rest = stream
		if len(stream) < headSize {
			return rest, torn
		}
		stream = stream[copy(bytesOf(&r.head), stream):]
		if r.thread = nil; r.head.HasAccount != 0 {
			if len(stream) < threadSize+seqSize {
				return rest, torn
			}
			r.thread = &th
			stream = stream[copy(bytesOf(&th), stream):]
			after := binary.NativeEndian.Uint64(stream)
			stream = stream[seqSize:]
			if r.head.Seq%2 == 1 || th.Seq != r.head.Seq || after != r.head.Seq {
				torn++
				continue
			}
		}
		visit(&r)
	}
}

// bytesOf is the memory of a struct that the programs share.
func bytesOf[T rungReportHead | rungThread](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}

// Threads gives the account of each thread that existed within a window whose
// End has passed, ordered by Tid and then StartNs. Ended threads are removed
// from the kernel's table; the rest can be read again.
func (p *Profiler) Threads(s Slot, id uint32) ([]Thread, error) {
	p.mu.Lock()
	t, found, err := p.window(s, id)
	if err != nil {
		p.mu.Unlock()
		return nil, err
	}
	w, added := *found, t.added
	p.mu.Unlock()
	if w.End == 0 || Now() < w.End {
		return nil, fmt.Errorf("window %d has not ended", id)
	}

	var threads []Thread
	add := func(r *reported) {
		if th, ok := closeThread(r, w, s, added); ok {
			threads = append(threads, th)
		}
	}
	alive, err := p.report(s, add)
	if err != nil {
		return nil, err
	}
	// One that ended between the two readings was whole in the first.
	err = p.takeDead(s, id, func(key threadKey, dead *rungThread) {
		if !alive[key] {
			add(&reported{
				head:   rungReportHead{Tid: key.tid, Tgid: dead.Tgid, StartNs: key.startNs, Comm: dead.Comm},
				thread: dead,
			})
		}
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(threads, func(i, j int) bool {
		a, b := &threads[i], &threads[j]
		return a.Tid < b.Tid || a.Tid == b.Tid && a.StartNs < b.StartNs
	})
	return threads, nil
}

// report visits each thread of a target once, and gives which; it reads again
// while records come out torn.
func (p *Profiler) report(s Slot, visit func(*reported)) (map[threadKey]bool, error) {
	p.reporting.Lock()
	defer p.reporting.Unlock()
	if err := p.objects.ReportSlot.Set(uint32(s)); err != nil {
		return nil, fmt.Errorf("report threads: %w", err)
	}
	seen := map[threadKey]bool{}
	once := func(r *reported) {
		if key := (threadKey{r.head.Tid, r.head.StartNs}); !seen[key] {
			seen[key] = true
			visit(r)
		}
	}
	const tries = 8
	for try := 1; ; try++ {
		torn, err := p.readReport(once)
		switch {
		case err != nil:
			return nil, fmt.Errorf("report threads: %w", err)
		case torn == 0:
			return seen, nil
		case try == tries:
			return nil, fmt.Errorf("report threads: %d records changed while being read, %d times over", torn, tries)
		}
	}
}

// readReport parses one run of the report as it comes: of 10,000 threads it has
// 13 MB.
func (p *Profiler) readReport(visit func(*reported)) (torn int, err error) {
	f, err := p.reports.Open()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 256<<10)
	for have := 0; ; {
		n, err := f.Read(buf[have:])
		rest, t := parseReport(buf[:have+n], visit)
		torn += t
		have = copy(buf, rest)
		switch {
		case errors.Is(err, io.EOF) && have > 0:
			return torn, errors.New("it ends in the middle of a record")
		case errors.Is(err, io.EOF):
			return torn, nil
		case err != nil:
			return torn, err
		}
	}
}

// takeDead visits the ended threads of a target, and removes those that no later
// window holds something of.
func (p *Profiler) takeDead(s Slot, id uint32, visit func(threadKey, *rungThread)) error {
	var key rungDeadKey
	var th rungThread
	var done []rungDeadKey
	it := p.objects.Dead.Iterate()
	for it.Next(&key, &th) {
		if Slot(key.Slot) != s {
			continue
		}
		visit(threadKey{key.Tid, key.StartNs}, &th)
		if th.Accounts[(id+1)%2].Window != id+1 {
			done = append(done, key)
		}
	}
	if err := it.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("read ended threads: %w", err)
	}
	if err := deleteAll(p.objects.Dead, done); err != nil {
		return fmt.Errorf("remove ended threads: %w", err)
	}
	return nil
}

// closeThread turns a record into the account of one window: what the programs
// credited, and the interval still open, cut at the edges. It answers false for
// a thread that did not exist within the window.
func closeThread(r *reported, w Window, s Slot, added MonoNs) (Thread, bool) {
	start, end := uint64(w.Start), uint64(w.End)
	th := Thread{
		Tid: r.head.Tid, Tgid: r.head.Tgid, StartNs: r.head.StartNs,
		Comm: commString(r.head.Comm),
	}
	state, since, reason := r.head.State, max(uint64(added), r.head.StartNs), r.head.Reason
	born, exec := r.head.StartNs, r.head.Exec
	known := r.thread != nil && Slot(r.thread.Slot) == s
	if !known && rungState(state) == rungStateSTATE_UNKNOWN {
		return Thread{}, false // beyond MaxThreads: nothing is known of its time
	}
	if known {
		born, since, exec = r.thread.Born, r.thread.Since, r.thread.Exec
		if rungState(r.thread.State) != rungStateSTATE_UNKNOWN {
			state, reason = r.thread.State, r.thread.Reason
		}
	}
	died := end
	if known && rungState(state) == rungStateSTATE_DEAD {
		died = since
		th.Exited = died < end
	}
	from, to := max(born, start), min(died, end)
	if to <= from {
		return Thread{}, false
	}
	th.LifetimeNs = to - from
	if known && r.thread.Accounts[w.ID%2].Window == w.ID {
		addAccount(&th, &r.thread.Accounts[w.ID%2])
	}

	if from = max(since, from); from < to {
		open := to - from
		switch rungState(state) {
		case rungStateSTATE_ON_CPU:
			th.OnCPUWallNs += open
			if now := r.head.Now; r.head.Exec > exec && now > since {
				th.OnCPUChargedNs += uint64(float64(r.head.Exec-exec) * float64(open) / float64(now-since))
			}
		case rungStateSTATE_RUN_QUEUE:
			var since0 rungThrottle
			if known {
				since0 = r.thread.Throttle
			}
			th.runnable(since, r.head.Now, from, to, since0, r.head.Throttle)
		case rungStateSTATE_STOPPED:
			th.StoppedNs += open
		case rungStateSTATE_BLOCKED:
			th.block(Reason(reason), open)
		}
	}
	th.NoEvent = th.Switches+th.Wakeups == 0 && th.states() == 1
	return th, true
}

// states counts the states and reasons that have time.
func (t *Thread) states() int {
	n := len(t.Blocked)
	for _, ns := range []uint64{t.OnCPUWallNs, t.RunQueueNs, t.ThrottledNs, t.StoppedNs} {
		if ns > 0 {
			n++
		}
	}
	return n
}

// runnable credits the part from … to of a runnable interval that began at
// since and was still open at now, when end was read. It mirrors credit_runnable.
func (t *Thread) runnable(since, now, from, to uint64, begin, end rungThrottle) {
	var known uint64
	if begin.Blind == 0 && begin.Possible != 0 && begin.Kind == end.Kind && begin.Kind != throttleNone && end.Clock > begin.Clock {
		known = min(end.Clock-begin.Clock, now-since)
	}
	unsure := begin.Possible != 0 && begin.Kind == throttleBound && (known > 0 || begin.FromStart+end.FromStart > 0)
	if begin.Blind != 0 {
		unsure = end.Clock > 0 || end.FromStart != 0
	}
	throttledFrom, throttledTo := now-known, now
	if begin.FromStart != 0 {
		throttledFrom, throttledTo = since, since+known
	}
	var throttled uint64
	if lo, hi := max(from, throttledFrom), min(to, throttledTo); hi > lo {
		throttled = hi - lo
	}
	t.ThrottledNs += throttled
	t.RunQueueNs += to - from - throttled
	if unsure {
		t.ThrottledSlackNs += to - from - throttled
	}
}

func addAccount(th *Thread, a *rungAccount) {
	th.OnCPUWallNs += a.OnCpuWall
	th.OnCPUChargedNs += a.OnCpuCharged
	th.RunQueueNs += a.RunQueue
	th.StoppedNs += a.Stopped
	th.ThrottledNs += a.Throttled
	th.ThrottledSlackNs += a.ThrottledSlack
	th.OnCPUSkewNs += a.OnCpuSkew
	th.RunQueueSkewNs += a.RunQueueSkew
	th.Switches += a.Switches
	th.Wakeups += a.Wakeups
	for _, b := range a.Blocked {
		if b.Intervals > 0 {
			th.Blocked = append(th.Blocked, Blocked{Reason(b.Reason), b.Ns, uint64(b.Intervals)})
		}
	}
}

// block credits one more interval to a reason.
func (t *Thread) block(reason Reason, ns uint64) {
	for i := range t.Blocked {
		if t.Blocked[i].Reason == reason {
			t.Blocked[i].Ns += ns
			t.Blocked[i].Intervals++
			return
		}
	}
	t.Blocked = append(t.Blocked, Blocked{reason, ns, 1})
}

// BlockedNs sums over reasons.
func (t *Thread) BlockedNs() uint64 {
	var ns uint64
	for _, b := range t.Blocked {
		ns += b.Ns
	}
	return ns
}

func commString(comm [16]int8) string {
	b := make([]byte, 0, len(comm))
	for _, c := range comm {
		if c == 0 {
			break
		}
		b = append(b, byte(c))
	}
	// A thread may call itself anything, and the kernel cuts names within a character.
	return strings.ToValidUTF8(string(b), "\ufffd")
}
