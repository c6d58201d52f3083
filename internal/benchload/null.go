//go:build linux

package main

import (
	"fmt"
)

// selftest is what `rung load --selftest --json` prints.
type selftest struct {
	Dip  float64
	Rows []struct {
		Slots                                      int
		DeliveredHz, P95Ms, CPUUsPerRequest, Cores float64
		PerProcess                                 *struct{ DeliveredHz, P95Ms, CPUUsPerRequest, Cores float64 }
	}
}

// null repeats the table of a driver against a service that does nothing.
func (b *bench) null() error {
	d, err := b.drive(nil, "--selftest", "--selftest-runs", pick(b, "5", "1"), "--duration", pick(b, "1s", "300ms"))
	if err != nil {
		return err
	}
	var got selftest
	if err := d.result(&got); err != nil {
		return err
	}
	for _, row := range got.Rows {
		b.state(fmt.Sprintf("c=%d, delivered", row.Slots), row.DeliveredHz, "1/s", "")
		b.state(fmt.Sprintf("c=%d, p95", row.Slots), row.P95Ms, "ms", "")
		b.state(fmt.Sprintf("c=%d, CPU per request", row.Slots), row.CPUUsPerRequest, "µs", "")
		b.state(fmt.Sprintf("c=%d, cores busy", row.Slots), row.Cores, "", "")
		if p := row.PerProcess; p != nil {
			b.state(fmt.Sprintf("c=%d, a process per request: delivered", row.Slots), p.DeliveredHz, "1/s", "")
			b.state(fmt.Sprintf("c=%d, a process per request: p95", row.Slots), p.P95Ms, "ms", "")
			b.state(fmt.Sprintf("c=%d, a process per request: CPU per request", row.Slots), p.CPUUsPerRequest, "µs", "")
			b.state(fmt.Sprintf("c=%d, a process per request: cores busy", row.Slots), p.Cores, "", "")
		}
	}
	b.judge("lowest share of the best rate with fewer slots", got.Dip, "", "≥ 0.9", got.Dip >= 0.9, "medians")
	return nil
}
