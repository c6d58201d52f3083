//go:build !linux

// Command benchload needs Linux; elsewhere it says so.
package main

import (
	"fmt"
	"os"
	"runtime"
)

func main() {
	fmt.Fprintf(os.Stderr, "benchload: needs Linux, found %s; run it under Linux 6.1 or newer\n", runtime.GOOS)
	os.Exit(2)
}
