package loadgen

import (
	"math"
	"runtime"
	"runtime/metrics"
	"time"
)

// DriverUse is what the driver itself and its host used from the first to the
// last send. A pointer is nil where this host does not tell; Absent
// then says why.
type DriverUse struct {
	// Cores is the mean number of CPUs that the process kept busy, and
	// AllowanceCPUs the most it may: the least of GOMAXPROCS, its affinity, and
	// the quotas of its cgroup and those above.
	Cores         float64 `json:"cores"`
	AllowanceCPUs float64 `json:"allowanceCpus"`

	// ThrottledPeriods counts the quota periods, of Periods, in which a quota of
	// the driver's cgroup or of one above was spent.
	ThrottledPeriods *uint64 `json:"throttledPeriods,omitempty"`
	Periods          uint64  `json:"periods,omitempty"`
	// CPUPressure is the share of time in which some task of the driver's own
	// cgroup waited for a CPU. The host's would also rise with a throttled arm.
	CPUPressure *float64 `json:"cpuPressure,omitempty"`

	GCs          uint64  `json:"gcs"`
	GCPauseMsMax float64 `json:"gcPauseMsMax"` // upper bound of the longest pause's bucket
	GCShare      float64 `json:"gcShare"`      // of the CPU that the process may use
	// RunnableMsP99 is how long goroutines that were ready waited to run.
	RunnableMsP99 *float64 `json:"runnableMsP99,omitempty"`

	// UnsentAbove counts the samples, of UnsentSamples, in which more than
	// 64 KiB lay unsent on connections whose peer's window was open.
	UnsentAbove    int    `json:"unsentAbove"`
	UnsentSamples  int    `json:"unsentSamples"`
	UnsentBytesMax uint64 `json:"unsentBytesMax"`

	Host HostCPU `json:"host"`
	// Absent names the figures that could not be had, each with the reason.
	Absent map[string]string `json:"absent,omitempty"`
}

// HostCPU is the busy share of all CPUs of the driver's host under load, from
// samples between the first and the last send. Shares are nil without a sample.
type HostCPU struct {
	CPUs      int      `json:"cpus"`
	MeanShare *float64 `json:"meanShare,omitempty"`
	PeakShare *float64 `json:"peakShare,omitempty"`
	Samples   int      `json:"samples"`
}

// useReading is one reading of the counters that a DriverUse subtracts.
type useReading struct {
	at       time.Time
	cpu      time.Duration
	throttle *throttleCount
	pressure *time.Duration
	gcs      uint64
	gcCPU    float64 // seconds
	pauses   *metrics.Float64Histogram
	runnable *metrics.Float64Histogram
}

type throttleCount struct{ periods, throttled uint64 }

var runtimeMetrics = []string{
	"/gc/cycles/total:gc-cycles", "/cpu/classes/gc/total:cpu-seconds",
	"/sched/pauses/total/gc:seconds", "/sched/latencies:seconds",
}

// readUse reads all counters. The runtime's estimates of CPU are brought up to
// date by a collection only, so gcShare of a step without one is that of before.
func readUse(own *ownGroups) useReading {
	samples := make([]metrics.Sample, len(runtimeMetrics))
	for i, name := range runtimeMetrics {
		samples[i].Name = name
	}
	metrics.Read(samples)
	return useReading{
		at: time.Now(), cpu: ownCPU(), throttle: own.throttled(), pressure: own.pressure(),
		gcs: samples[0].Value.Uint64(), gcCPU: samples[1].Value.Float64(),
		pauses: cloneHistogram(samples[2].Value.Float64Histogram()), runnable: cloneHistogram(samples[3].Value.Float64Histogram()),
	}
}

func cloneHistogram(h *metrics.Float64Histogram) *metrics.Float64Histogram {
	return &metrics.Float64Histogram{Counts: append([]uint64(nil), h.Counts...), Buckets: h.Buckets}
}

// since is what was used between two readings.
func (now useReading) since(before useReading, own *ownGroups) DriverUse {
	elapsed := now.at.Sub(before.at)
	u := DriverUse{
		AllowanceCPUs: own.allowance(), GCs: now.gcs - before.gcs, Absent: own.absences(),
		Host: HostCPU{CPUs: runtime.NumCPU()},
	}
	if elapsed > 0 {
		u.Cores = float64(now.cpu-before.cpu) / float64(elapsed)
	}
	if now.throttle != nil && before.throttle != nil {
		n := now.throttle.throttled - before.throttle.throttled
		u.ThrottledPeriods, u.Periods = &n, now.throttle.periods-before.throttle.periods
	}
	if now.pressure != nil && before.pressure != nil && elapsed > 0 {
		share := float64(*now.pressure-*before.pressure) / float64(elapsed)
		u.CPUPressure = &share
	}
	if elapsed > 0 && u.AllowanceCPUs > 0 {
		u.GCShare = (now.gcCPU - before.gcCPU) / (elapsed.Seconds() * u.AllowanceCPUs)
	}
	if max, ok := quantileBetween(before.pauses, now.pauses, 1); ok {
		u.GCPauseMsMax = max * 1e3
	}
	if p99, ok := quantileBetween(before.runnable, now.runnable, 0.99); ok {
		ms := p99 * 1e3
		u.RunnableMsP99 = &ms
	}
	return u
}

// quantileBetween is the upper bound of the bucket in which a quantile of what was
// counted between two readings lies; false if nothing was. The last bucket has no
// upper bound and gives its lower one.
func quantileBetween(before, after *metrics.Float64Histogram, q float64) (float64, bool) {
	var total uint64
	for i := range after.Counts {
		total += after.Counts[i] - before.Counts[i]
	}
	if total == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(q * float64(total)))
	var seen uint64
	for i := range after.Counts {
		if seen += after.Counts[i] - before.Counts[i]; seen >= rank {
			if upper := after.Buckets[i+1]; !math.IsInf(upper, 1) {
				return upper, true
			}
			return after.Buckets[i], true
		}
	}
	return 0, false
}
