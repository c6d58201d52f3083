package rundir

// ClientMore is what the load generator tells beyond a step's counts: of itself,
// of its host and of each connection. It lies flat in client.json.
type ClientMore struct {
	Driver *DriverUse `json:"driver,omitempty"`
	// ClientLimited says why the step measured the driver and not the service;
	// empty where the driver had headroom, and in runs of before that was told.
	ClientLimited []ClientLimit `json:"clientLimited,omitempty"`
}

// ClientLimit is one reason why the driver was the limit of a step.
type ClientLimit struct {
	Kind string `json:"kind"` // schedule, own-cpu, throttled, cpu-pressure, gc or unsent-bytes
	Why  string `json:"why"`
}

// DriverUse is what the driver and its host used from the first to the last send.
// A nil pointer is a figure that could not be had; Absent says why.
type DriverUse struct {
	Cores            float64           `json:"cores"`
	AllowanceCPUs    float64           `json:"allowanceCpus"`
	ThrottledPeriods *uint64           `json:"throttledPeriods,omitempty"`
	Periods          uint64            `json:"periods,omitempty"`
	CPUPressure      *float64          `json:"cpuPressure,omitempty"` // share of the time, own cgroup
	GCs              uint64            `json:"gcs"`
	GCPauseMsMax     float64           `json:"gcPauseMsMax"`
	GCShare          float64           `json:"gcShare"` // of the driver's CPU
	RunnableMsP99    *float64          `json:"runnableMsP99,omitempty"`
	UnsentAbove      int               `json:"unsentAbove"` // samples above 64 KiB
	UnsentSamples    int               `json:"unsentSamples"`
	UnsentBytesMax   uint64            `json:"unsentBytesMax"`
	Host             HostCPU           `json:"host"`
	Absent           map[string]string `json:"absent,omitempty"`
}

// HostCPU is the busy share of all CPUs of the driver's host under load.
type HostCPU struct {
	CPUs      int      `json:"cpus"`
	MeanShare *float64 `json:"meanShare,omitempty"`
	PeakShare *float64 `json:"peakShare,omitempty"`
	Samples   int      `json:"samples"`
}
