package agent

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// urgently ties the goroutine to its thread and gives that real-time priority,
// until the function it answers is called: otherwise the reader of an edge
// stands in the run queue behind the very load that is measured. With four
// spinners on two CPUs a tenth of the edges was read over 1 to 16 ms late
// without it, over 5 to 20 µs with it (BenchmarkEdge). Without CAP_SYS_NICE, or
// in a v1 cpu group without real-time budget, the thread keeps its priority, and
// the bracket in the record tells the delay. What is done meanwhile must be
// short: nothing else runs on that CPU.
func urgently() (calm func()) {
	runtime.LockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return runtime.UnlockOSThread
	}
	err = unix.SchedSetAttr(0, &unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
	if err != nil {
		return runtime.UnlockOSThread
	}
	return func() {
		before.Size = unix.SizeofSchedAttr
		if unix.SchedSetAttr(0, before, 0) != nil {
			return // still tied: the thread ends with its goroutine
		}
		runtime.UnlockOSThread()
	}
}
