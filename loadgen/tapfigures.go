package loadgen

// HTTP2Figures are what the frames of a step's connections told. Stalls are of
// sending, by the peer's windows; times add up over connections and streams.
type HTTP2Figures struct {
	// MaxConcurrentStreams is the least that any peer allows; nil is no limit.
	MaxConcurrentStreams *uint32 `json:"maxConcurrentStreams,omitempty"`
	// InitialWindowBytes is the least that any peer grants a new stream.
	InitialWindowBytes uint32 `json:"initialWindowBytes"`

	ConnectionStalls  uint64 `json:"connectionStalls"`
	ConnectionStallNs uint64 `json:"connectionStallNs"`
	StreamStalls      uint64 `json:"streamStalls"`
	StreamStallNs     uint64 `json:"streamStallNs"`

	GoAways uint64            `json:"goAways"`
	Resets  map[string]uint64 `json:"resets,omitempty"` // RST_STREAM of the peer, by error code
}

// minus is what was counted since.
func (c tapCounts) minus(before tapCounts) tapCounts {
	c.connStalls, c.connStallNs = c.connStalls-before.connStalls, c.connStallNs-before.connStallNs
	c.streamStalls, c.streamStallNs = c.streamStalls-before.streamStalls, c.streamStallNs-before.streamStallNs
	c.goAways -= before.goAways
	resets := map[string]uint64{}
	for k, n := range c.resets {
		if n > before.resets[k] {
			resets[k] = n - before.resets[k]
		}
	}
	c.resets = resets
	return c
}

func (c *tapCounts) plus(more tapCounts) {
	c.connStalls, c.connStallNs = c.connStalls+more.connStalls, c.connStallNs+more.connStallNs
	c.streamStalls, c.streamStallNs = c.streamStalls+more.streamStalls, c.streamStallNs+more.streamStallNs
	c.goAways += more.goAways
	c.resets = add(c.resets, more.resets)
}

// add adds counts to others, which may be nil.
func add(to, more map[string]uint64) map[string]uint64 {
	for k, n := range more {
		if to == nil {
			to = map[string]uint64{}
		}
		to[k] += n
	}
	return to
}

// tapped sums the counts of all connections of the run, closed ones included.
func (d *dialer) tapped() tapCounts {
	d.mu.Lock()
	defer d.mu.Unlock()
	sum := tapCounts{}
	sum.plus(d.past)
	for c := range d.conns {
		if c.tap != nil {
			_, counts := c.tap.read()
			sum.plus(counts)
		}
	}
	return sum
}

// http2Since is what the frames told since an earlier sum; nil with the reason
// where the connections carry none.
func (d *dialer) http2Since(before tapCounts) (f *HTTP2Figures, absent string) {
	if !d.http2 {
		return nil, "HTTP/1.1 has no frames"
	}
	c := d.tapped().minus(before)
	f = &HTTP2Figures{
		ConnectionStalls: c.connStalls, ConnectionStallNs: c.connStallNs, StreamStalls: c.streamStalls, StreamStallNs: c.streamStallNs,
		GoAways: c.goAways,
	}
	if len(c.resets) > 0 {
		f.Resets = c.resets
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := false
	for conn := range d.conns {
		s, _ := conn.tap.read()
		if !s.seen {
			continue
		}
		if m := s.maxStreams; m != nil && (f.MaxConcurrentStreams == nil || *m < *f.MaxConcurrentStreams) {
			f.MaxConcurrentStreams = m
		}
		if !seen || s.initialWindow < f.InitialWindowBytes {
			f.InitialWindowBytes = s.initialWindow
		}
		seen = true
	}
	if !seen {
		return nil, "no connection was open at the end of the step"
	}
	return f, ""
}
