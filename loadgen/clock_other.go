//go:build !linux

package loadgen

import (
	"errors"
	"time"
)

var processStart = time.Now()

// readMonotonic counts from the start of the process where the kernel's clock
// is out of reach: enough to drive a ladder, not to meet an agent's window.
func readMonotonic() int64 { return int64(time.Since(processStart)) }

func bootID() (string, error) { return "", errors.New("no boot id on this system") }

func ownCPU() time.Duration { return 0 }
