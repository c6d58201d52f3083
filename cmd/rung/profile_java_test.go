//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rungprof/rung/attribution"
)

// startJava compiles and starts testdata/profile/Server.java, and returns when it
// has served for a second.
func startJava(t *testing.T) (pid int) {
	t.Helper()
	for _, tool := range []string{"java", "javac"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs a JDK: %v", err)
		}
	}
	classes := t.TempDir()
	if out, err := exec.Command("javac", "-d", classes, "testdata/profile/Server.java").CombinedOutput(); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	// Two CPUs' threads on any machine, and a collector that has threads.
	cmd := exec.Command("java", "-Xmx64m", "-XX:+UseG1GC", "-XX:ActiveProcessorCount=2", "-cp", classes, "Server", "120")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || line != "serving\n" {
		t.Fatalf("the server said %q, %v", line, err)
	}
	time.Sleep(time.Second)
	return cmd.Process.Pid
}

// TestProfileJava takes the account of a Java server as it stands: by the names
// that the JVM gives its threads, with reasons, and closed.
func TestProfileJava(t *testing.T) {
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("a profile needs what this host lacks: %v", err)
	}
	pid := startJava(t)
	p := runLiveProfile(t.Context(), t, "--pid", fmt.Sprint(pid), "--duration", "3s")
	if p.code != exitOK || p.Ended != endedPlanned || !strings.Contains(p.Target, "(java)") {
		t.Fatalf("exit %d, ended %s, target %q; %s", p.code, p.Ended, p.Target, p.stderr)
	}
	p.closes(t)
	// Names are cut to 15 bytes by the kernel; a JVM of two CPUs has these.
	for group, threads := range map[string]int{
		"pool-*-thread-*": 4, "client-*": 2, "acceptor": 1, "HTTP-Dispatcher": 1,
		"VM Thread": 1, "G1 Main Marker": 1, "Signal Dispatch": 1, "Reference Handl": 1, "Finalizer": 1,
	} {
		if row := p.row(t, group); row.Threads != threads || row.Lifetime.Ns != int64(threads)*p.WindowNs {
			t.Errorf("%s: %d threads, lifetime %.3f; want %d from edge to edge", group, row.Threads, row.Lifetime.MeanThreads, threads)
		}
	}
	for _, group := range []string{"C1 CompilerThre", "C2 CompilerThre", "GC Thread#*", "VM Periodic Tas"} {
		if row := p.row(t, group); row.Threads == 0 {
			t.Errorf("%s has no thread", group)
		}
	}
	// A pool's thread waits for work without a limit, the VM's periodic one with
	// one; the dispatcher polls; a client reads its socket; the acceptor accepts.
	pool, client := p.row(t, "pool-*-thread-*"), p.row(t, "client-*")
	if pool.OnCPU.Ns == 0 || meanIn(pool, "futex") < 1 {
		t.Errorf("pool %+v", pool)
	}
	if timed := meanIn(p.row(t, "VM Periodic Tas"), "futex, timed"); timed < 0.9 {
		t.Errorf("the VM's periodic thread was in timed futex waits for %.3f", timed)
	}
	if read := meanIn(client, "read (socket)") + meanIn(client, "recvfrom (socket)") + meanIn(client, "poll") + meanIn(client, "poll, timed"); read < 0.2 {
		t.Errorf("clients waited for answers for %.3f: %+v", read, client.Blocked)
	}
	dispatcher := p.row(t, "HTTP-Dispatcher")
	if wait := meanIn(dispatcher, "epoll_wait, timed") + meanIn(dispatcher, "epoll_wait"); wait < 0.3 {
		t.Errorf("the dispatcher polled for %.3f: %+v", wait, dispatcher.Blocked)
	}
	acceptor := p.row(t, "acceptor")
	if accept := meanIn(acceptor, "accept (socket)") + meanIn(acceptor, "accept4 (socket)") + meanIn(acceptor, "accept") + meanIn(acceptor, "poll"); accept < 0.99 {
		t.Errorf("the acceptor accepted for %.3f: %+v", accept, acceptor.Blocked)
	}
	// The dispatcher hands work to the pool.
	if !wokenBy(pool, "futex", "HTTP-Dispatcher") {
		t.Errorf("the pool is not woken by the dispatcher: %+v", pool.Blocked)
	}
	for _, state := range []string{stateOnCPU, attribution.StateRunQueue, attribution.StateBlocked} {
		if !hasState(p, state) {
			t.Errorf("no stacks of %s", state)
		}
	}
}

// TestProfileJavaCgroup takes it with a quota, so that the cgroup's counters and
// the throttled state are there.
func TestProfileJavaCgroup(t *testing.T) {
	if err := missingError(thisHost().requirements()); err != nil {
		t.Skipf("a profile needs what this host lacks: %v", err)
	}
	g := liveCgroups(t)
	c, err := g.add("java", 0.1)
	if err != nil {
		t.Fatal(err)
	}
	pid := startJava(t)
	for _, dir := range c.dirs {
		if err := writeCgroupFile(dir, "cgroup.procs", fmt.Sprint(pid)); err != nil {
			t.Fatal(err)
		}
	}
	p := runLiveProfile(t.Context(), t, "--cgroup", c.path, "--duration", "3s")
	if p.code != exitOK {
		t.Fatalf("exit %d; %s", p.code, p.stderr)
	}
	// Under a quota, Linux 6.18 at times adds a thread's sleep to its schedstat
	// wait: one that /proc shows in state S for 95 ms, and the account blocked in
	// futex, comes out with a wait of 93 ms.
	p.closes(t, attribution.CheckSchedstatWait)
	p.row(t, "pool-*-thread-*")
	if usage := p.record.GetCounters().UsageUsec; usage == nil || *usage == 0 {
		t.Error("no usage of the cgroup")
	}
	throttled := p.record.GetCounters().NrThrottled
	if throttled == nil || *throttled == 0 {
		t.Fatalf("a JVM that starts up under a tenth of a CPU was not throttled: %v", p.record.GetCounters())
	}
	if total := p.Account.Total.Throttled; total == nil || total.Hi.Ns == 0 {
		t.Errorf("throttled in %d periods, but no thread was: %+v", *throttled, total)
	}
	if _, err := os.Stat(filepath.Join(g.mounts.V2, c.path)); err != nil {
		t.Error(err)
	}
}

func wokenBy(row attribution.AccountRow, reason, waker string) bool {
	for _, r := range row.Blocked {
		for _, w := range r.Wakers {
			if r.Reason == reason && w.Thread && w.Waker == waker {
				return true
			}
		}
	}
	return false
}

func hasState(p liveProfile, state string) bool {
	for _, s := range p.States {
		if s.State == state && len(s.Stacks) > 0 {
			return true
		}
	}
	return false
}
