// Command brief burns CPU for 300 ms, in functions that a test knows, removes its
// own program and exits.
package main

import (
	"os"
	"time"
)

var sink uint64

func main() {
	for until := time.Now().Add(200 * time.Millisecond); time.Now().Before(until); {
		burnAtFirst()
	}
	for until := time.Now().Add(100 * time.Millisecond); time.Now().Before(until); {
		burnAtLast()
	}
	os.Remove(os.Args[0])
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
