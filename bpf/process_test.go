//go:build linux

package bpf

import (
	"context"
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// watch counts what is told of the processes of slot s, until the function it
// answers is called.
func watch(t *testing.T, p *Profiler, s Slot) (stop func() map[uint32]int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	told := map[uint32]int{}
	ended := make(chan error, 1)
	go func() {
		ended <- p.WatchProcesses(ctx, func(of Slot, tgid uint32) {
			if of == s {
				told[tgid]++
			}
		})
	}()
	return func() map[uint32]int {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the watch does not end with its context")
		}
		return told
	}
}

// A child is told of when it is born and when it executes its program; one of
// another process is not, nor is anything without a window.
func TestWatchProcesses(t *testing.T) {
	p := load(t, 99)
	c := startWorkload(t, "", "spawn", "spin", "100ms")
	s := tree(t, p, c)
	without := watch(t, p, s)
	time.Sleep(50 * time.Millisecond)
	if told := without(); len(told) != 0 {
		t.Errorf("told of %v without a window", told)
	}
	stop := watch(t, p, s)
	w := arm(t, p, s, 1)
	c.start()
	if err := exec.Command("/proc/self/exe", "-test.run", "^$").Run(); err != nil { // ours, and no target's
		t.Fatal(err)
	}
	c.result()
	children := map[uint32]bool{}
	for _, th := range finish(t, p, s, &w) {
		if th.Tgid != c.pid {
			children[th.Tgid] = true
		}
	}
	told := stop()
	// Go's library may make a child that executes nothing, to try its pidfd.
	executed := 0
	for tgid := range children {
		if told[tgid] == 2 {
			executed++
		}
		delete(told, tgid)
	}
	if executed != 1 || len(told) != 0 {
		t.Errorf("of the children %v %d were told of twice, and %v beside them; want one, and none", children, executed, told)
	}
}

// What is not read in time is counted.
func TestProcessesUnread(t *testing.T) {
	p := load(t, 99)
	const born = 9000
	c := startWorkload(t, "", "brood", fmt.Sprint(born))
	s := tree(t, p, c)
	arm(t, p, s, 1)
	c.start()
	c.result()
	counters, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	untold := int(counters["process_untold"])
	stop := watch(t, p, s)
	time.Sleep(500 * time.Millisecond)
	told := 0
	for _, times := range stop() {
		told += times
	}
	// The ring has room for 8,192.
	if told+untold != born || untold < born-8192 {
		t.Errorf("told of %d and counted %d, want %d together", told, untold, born)
	}
}
