//go:build linux

package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/rungprof/rung/loadgen"
)

// stall stops a process for a second in the middle of a step and holds the result
// against what the schedule predicts. Of N requests at an even rate over T, those
// due in a stop of L wait L, L - 1/rate, …: the 99.9th percentile, above which lie
// N/1000 of them, is L - T/1000.
func (b *bench) stall() error {
	const rateHz = 500.0
	length := pick(b, 10*time.Second, 5*time.Second)
	predicted := func(stopped time.Duration) float64 { return 1e3 * (stopped.Seconds() - length.Seconds()/1000) }

	r, stopped, err := b.stopped(false, rateHz, length, 4000)
	if err != nil {
		return err
	}
	want := predicted(stopped)
	b.near("service stopped, response p99.9", r.ResponseMs.P999, want, 0.02, "ms", "cap above rate × 1 s")
	b.near("service stopped, service time p99.9", r.ServiceMs.P999, want, 0.02, "ms", "cap above rate × 1 s")
	b.judge("service stopped, overflow", float64(r.Overflow), "requests", "0", r.Overflow == 0, "cap above rate × 1 s")

	const fastHz, capacity = 2000.0, 128
	r, stopped, err = b.stopped(false, fastHz, length, capacity)
	if err != nil {
		return err
	}
	b.near("service stopped, overflow of a smaller cap", float64(r.Overflow), fastHz*stopped.Seconds()-capacity, 0.02, "requests", fmt.Sprintf("cap %d, %.0f/s, stopped for %.4f s", capacity, fastHz, stopped.Seconds()))

	r, stopped, err = b.stopped(true, rateHz, length, 4000)
	if err != nil {
		return err
	}
	b.near("driver stopped, response p99.9", r.ResponseMs.P999, predicted(stopped), 0.02, "ms", "")
	b.atMost("driver stopped, service time p99.9", r.ServiceMs.P999, "ms", 100, "a tenth of the stop")
	flagged := 0.0
	if len(r.ClientLimited) > 0 {
		flagged = 1
	}
	b.judge("driver stopped, flagged as client-limited", flagged, "", "1", flagged == 1, "")
	return nil
}

// stopped drives a step during which the service, or the driver, is stopped for a
// second by SIGSTOP; it gives how long that was in truth.
func (b *bench) stopped(driverItself bool, rateHz float64, length time.Duration, maxInFlight int) (loadgen.StepResult, time.Duration, error) {
	none := loadgen.StepResult{}
	arm, address, err := b.arm("--mode", "null-grpc")
	if err != nil {
		return none, 0, err
	}
	defer arm.end()
	d, err := b.drive(nil, "--protocol", "grpc-stream", "--address", address, "--connections", "2", "--streams", "2", "--max-in-flight", fmt.Sprint(maxInFlight),
		"--timeout", "5s", "--rates", fmt.Sprint(rateHz), "--duration", length.String(), "--settle", "100ms")
	if err != nil {
		return none, 0, err
	}
	select {
	case <-d.began:
	case err := <-d.done:
		return none, 0, fmt.Errorf("rung load ended early: %v %s", err, d.stderr.String())
	}
	time.Sleep(length / 4)
	victim := arm
	if driverItself {
		victim = d.process
	}
	began := time.Now()
	victim.signal(syscall.SIGSTOP)
	time.Sleep(time.Second)
	stopped := time.Since(began)
	victim.signal(syscall.SIGCONT)
	var got ladder
	if err := d.result(&got); err != nil {
		return none, 0, err
	}
	if len(got.Steps) != 1 || got.Steps[0].Void != "" || got.Steps[0].ResponseMs == nil {
		return none, 0, fmt.Errorf("rung load: %+v", got)
	}
	return got.Steps[0], stopped, nil
}
