//go:build !linux

// Command rung needs Linux; elsewhere it says so.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "rung: needs Linux, found %s; run it in a Linux machine or VM, kernel 6.1 or newer\n", runtime.GOOS)
	os.Exit(2)
}
