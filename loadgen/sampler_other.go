//go:build !linux

package loadgen

import "errors"

func hostTimes() (cpuTimes, error) { return cpuTimes{}, errors.New("no /proc/stat on this system") }

func (*countedConn) unsentOf() uint64 { return 0 }
