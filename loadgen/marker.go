package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// MarkerPrefix begins a marker line; a JSON object follows it on the same line.
const MarkerPrefix = "#RUNG-STEP "

// WriteMarker writes one marker line in one Write, so that lines of concurrent
// writers do not mix.
func WriteMarker(w io.Writer, m *rungv1.Marker) error {
	raw, err := protojson.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode marker: %w", err)
	}
	line := bytes.NewBufferString(MarkerPrefix)
	// protojson varies its spaces from build to build; a marker has none.
	if err := json.Compact(line, raw); err != nil {
		return fmt.Errorf("encode marker: %w", err)
	}
	line.WriteByte('\n')
	if _, err := w.Write(line.Bytes()); err != nil {
		return fmt.Errorf("write marker: %w", err)
	}
	return nil
}

// ParseMarker reads a marker line. ok is false for a line that is none; a line
// with the prefix and something else behind it is an error.
func ParseMarker(line []byte) (m *rungv1.Marker, ok bool, err error) {
	body, ok := bytes.CutPrefix(line, []byte(MarkerPrefix))
	if !ok {
		return nil, false, nil
	}
	m = &rungv1.Marker{}
	if err := protojson.Unmarshal(bytes.TrimSpace(body), m); err != nil {
		return nil, true, fmt.Errorf("parse marker %q: %w", line, err)
	}
	if m.GetEdge() == rungv1.Marker_EDGE_UNSPECIFIED {
		return nil, true, fmt.Errorf("parse marker %q: no edge", line)
	}
	return m, true, nil
}

func (d *driver) mark(s Step, edge rungv1.Marker_Edge, atMonoNs int64) error {
	if d.hooks.Markers == nil {
		return nil
	}
	return WriteMarker(d.hooks.Markers, &rungv1.Marker{
		Run: d.cfg.Run, Arm: d.cfg.Arm, Step: s.Name(), Edge: edge, OfferedHz: s.OfferedHz,
		AtMonoNs: uint64(atMonoNs), BootId: d.bootID,
		AtWall: wallOf(atMonoNs).UTC().Format(time.RFC3339Nano),
	})
}
