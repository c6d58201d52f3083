//go:build linux

package bpf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf/ringbuf"
)

// WatchProcesses calls told for each process of a target that begins, or begins
// another program, while the target has a window; until ctx ends, which is no
// error. A process may have ended when it is told of. One call at a time.
func (p *Profiler) WatchProcesses(ctx context.Context, told func(s Slot, tgid uint32)) error {
	reader, err := ringbuf.NewReader(p.objects.Processes)
	if err != nil {
		return fmt.Errorf("watch the processes of targets: %w", err)
	}
	defer reader.Close()
	// A deadline would wait for the read that it is to end.
	defer context.AfterFunc(ctx, func() { reader.Close() })()
	var record ringbuf.Record
	for {
		if err := reader.ReadInto(&record); err != nil {
			if ctx.Err() != nil && errors.Is(err, ringbuf.ErrClosed) {
				return nil
			}
			return fmt.Errorf("watch the processes of targets: %w", err)
		}
		var is rungProcess
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &is); err != nil {
			return fmt.Errorf("watch the processes of targets: %w", err)
		}
		told(Slot(is.Slot), is.Tgid)
	}
}
