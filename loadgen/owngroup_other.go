//go:build !linux

package loadgen

import (
	"runtime"
	"time"
)

// ownGroups knows no cgroups where there are none.
type ownGroups struct{}

func findOwnGroups() *ownGroups                { return &ownGroups{} }
func (*ownGroups) allowance() float64          { return float64(runtime.GOMAXPROCS(0)) }
func (*ownGroups) throttled() *throttleCount   { return nil }
func (*ownGroups) pressure() *time.Duration    { return nil }
func (*ownGroups) absences() map[string]string { return map[string]string{"cgroup": "not Linux"} }
