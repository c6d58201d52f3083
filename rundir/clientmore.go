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
	GCShare          float64           `json:"gcShare"` // of the CPU it may use
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

// ClientFrames is what the load generator tells of its connections and streams.
// It lies flat in client.json.
type ClientFrames struct {
	PerConnection []ConnectionCounts `json:"perConnection,omitempty"`
	Messages      uint64             `json:"messages,omitempty"` // of calls that answer with a stream
	StreamsEnded  map[string]uint64  `json:"streamsEnded,omitempty"`
	StreamEnds    *StreamEnds        `json:"streamEnds,omitempty"` // of the driver's last step
	HTTP2         *HTTP2Figures      `json:"http2,omitempty"`
	HTTP2Absent   string             `json:"http2Absent,omitempty"`
}

// ConnectionCounts is what became of one connection's requests.
type ConnectionCounts struct {
	Connection   int    `json:"connection"`
	Delivered    uint64 `json:"delivered"`
	Errors       uint64 `json:"errors"`
	Deferred     uint64 `json:"deferred"`
	NotConnected uint64 `json:"notConnected"`
}

// StreamEnds is how the streams ended that the driver closed.
type StreamEnds struct {
	Closed    uint64            `json:"closed"`
	By        map[string]uint64 `json:"by,omitempty"`
	StillOpen uint64            `json:"stillOpen"`
}

// HTTP2Figures are what the frames of a step's connections told: the service's
// settings, and how long its windows held the driver's sending up.
type HTTP2Figures struct {
	MaxConcurrentStreams *uint32           `json:"maxConcurrentStreams,omitempty"` // nil is no limit
	InitialWindowBytes   uint32            `json:"initialWindowBytes"`
	ConnectionStalls     uint64            `json:"connectionStalls"`
	ConnectionStallNs    uint64            `json:"connectionStallNs"`
	StreamStalls         uint64            `json:"streamStalls"`
	StreamStallNs        uint64            `json:"streamStallNs"`
	GoAways              uint64            `json:"goAways"`
	Resets               map[string]uint64 `json:"resets,omitempty"`
}
