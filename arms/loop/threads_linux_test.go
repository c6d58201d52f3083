package loop

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threads gives the ids of this process's threads by name.
func threads(t *testing.T) map[string]int {
	t.Helper()
	found := make(map[string]int)
	files, err := filepath.Glob("/proc/self/task/*/comm")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		comm, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSpace(string(comm))] = id
	}
	return found
}

// blockedIn is the number of the system call a thread is in, −1 for none.
func blockedIn(t *testing.T, id int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", id))
	if err != nil {
		t.Fatal(err)
	}
	number, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		return -1 // "running"
	}
	return n
}

// eventually waits for the threads to block in the calls given by name.
func eventually(t *testing.T, when string, want map[string]int) {
	t.Helper()
	got := make(map[string]int)
	for range 200 {
		ids := threads(t)
		wrong := false
		for name, call := range want {
			id, ok := ids[name]
			if !ok {
				got[name] = -2
				wrong = true
				continue
			}
			got[name] = blockedIn(t, id)
			wrong = wrong || got[name] != call
		}
		if !wrong {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("%s: threads are in system calls %v (−1: none, −2: no such thread), want %v", when, got, want)
}

// TestThreadsBlockWhereTheySay: each thread is found by its name in the very
// system call that the package comment promises.
func TestThreadsBlockWhereTheySay(t *testing.T) {
	leader, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("lock", func(t *testing.T) {
		addr, _ := serve(t, Config{Workers: 2, LockHold: 500 * time.Millisecond}, nil)
		eventually(t, "idle", map[string]int{"loop-0": unix.SYS_EPOLL_PWAIT, "worker-0": unix.SYS_FUTEX, "worker-1": unix.SYS_FUTEX})

		ids := threads(t)
		for range 2 {
			conn, _ := dial(t, addr)
			io.WriteString(conn, post(`{"name":"World"}`))
		}
		// One holds the lock asleep and one waits for it, whichever it is.
		holders := func() (asleep, waiting int) {
			for _, name := range []string{"worker-0", "worker-1"} {
				switch blockedIn(t, ids[name]) {
				case unix.SYS_CLOCK_NANOSLEEP:
					asleep++
				case unix.SYS_FUTEX:
					waiting++
				}
			}
			return asleep, waiting
		}
		for range 200 {
			if asleep, waiting := holders(); asleep == 1 && waiting == 1 {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Error("there is never one holder asleep and one waiter in futex")
	})
	t.Run("downstream", func(t *testing.T) {
		addr, s := serve(t, Config{Workers: 1, Downstream: 500 * time.Millisecond}, nil)
		eventually(t, "idle", map[string]int{"worker-0": unix.SYS_FUTEX, "downstream": unix.SYS_READ})
		conn, reader := dial(t, addr)
		io.WriteString(conn, post(`{"name":"World"}`))
		eventually(t, "asked", map[string]int{"loop-0": unix.SYS_EPOLL_PWAIT, "worker-0": unix.SYS_READ, "downstream": unix.SYS_CLOCK_NANOSLEEP})
		readReply(t, reader)
		s.Stop(t.Context())
		for range 200 {
			if ids := threads(t); ids["loop-0"]+ids["worker-0"]+ids["downstream"] == 0 {
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
		t.Errorf("after the end there are still threads %v", threads(t))
	})
	if now, err := os.ReadFile("/proc/self/comm"); err != nil || string(now) != string(leader) {
		t.Errorf("the process was renamed from %q to %q (%v)", leader, now, err)
	}
}

// TestWaitsTakeTheirTime: the lock serialises and the downstream does not.
func TestWaitsTakeTheirTime(t *testing.T) {
	const wait, clients = 50 * time.Millisecond, 6
	elapsed := func(c Config) time.Duration {
		addr, _ := serve(t, c, nil)
		began := time.Now()
		done := make(chan struct{})
		for range clients {
			conn, reader := dial(t, addr)
			go func() {
				defer func() { done <- struct{}{} }()
				io.WriteString(conn, post(`{"name":"World"}`))
				reader.ReadByte()
			}()
		}
		for range clients {
			<-done
		}
		return time.Since(began)
	}
	if took := elapsed(Config{Workers: clients, LockHold: wait}); took < clients*wait {
		t.Errorf("%d requests held one lock for %v each and were done after %v", clients, wait, took)
	}
	if took := elapsed(Config{Workers: clients, Downstream: wait}); took < wait || took >= clients*wait {
		t.Errorf("%d requests waited for the downstream, %v each, and were done after %v", clients, wait, took)
	}
}
