// Command brief burns 300 ms of CPU time, in functions that a test knows, removes
// its own program and exits.
package main

import (
	"os"
	"syscall"
	"time"
)

var sink uint64

func main() {
	for until := used() + 200*time.Millisecond; used() < until; {
		burnAtFirst()
	}
	for until := used() + 100*time.Millisecond; used() < until; {
		burnAtLast()
	}
	os.Remove(os.Args[0])
}

// used is the CPU time so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

//go:noinline
func burnAtFirst() {
	for i := range uint64(200_000) {
		sink += i
	}
}

//go:noinline
func burnAtLast() {
	for i := range uint64(200_000) {
		sink += 3 * i
	}
}
