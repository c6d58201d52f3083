//go:build linux

package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// pacing alternates the driver with a bare loop that reads a timerfd through Go's
// netpoller and does nothing else.
func (b *bench) pacing() error {
	arm, address, err := b.arm("--mode", "null-grpc")
	if err != nil {
		return err
	}
	defer arm.end()
	const rateHz = 4000
	length := pick(b, 3*time.Second, time.Second)
	var p50, p99, bare50, bare99, ratio50, ratio99 []float64
	worst := 0.0
	for range pick(b, 7, 3) {
		one, two, err := bareLoop(rateHz, length)
		if err != nil {
			return err
		}
		steps, err := b.ladder(nil, "--protocol", "grpc-stream", "--address", address, "--connections", "2", "--max-in-flight", "8192",
			"--rates", fmt.Sprint(rateHz), "--duration", length.String(), "--settle", "100ms")
		if err != nil {
			return err
		}
		r := steps[0]
		worst = max(worst, math.Abs(1-float64(r.Sent)/float64(r.Scheduled)))
		bare50, bare99 = append(bare50, one), append(bare99, two)
		p50, p99 = append(p50, r.LatenessMs.P50), append(p99, r.LatenessMs.P99)
		ratio50, ratio99 = append(ratio50, r.LatenessMs.P50/one), append(ratio99, r.LatenessMs.P99/two)
	}
	b.state("bare loop, lateness p50", median(bare50), "ms", "")
	b.state("bare loop, lateness p99", median(bare99), "ms", "")
	b.state("driver, lateness p50", median(p50), "ms", "")
	b.state("driver, lateness p99", median(p99), "ms", "")
	b.atMost("lateness p50, driver / bare loop", median(ratio50), "", 1.5, "median of the rounds' ratios")
	b.atMost("lateness p99, driver / bare loop", median(ratio99), "", 1.5, "median of the rounds' ratios")
	b.atMost("sent off scheduled, where no cap was hit", 100*worst, "%", 0.1, "the worst round")
	return nil
}

// bareLoop gives the median and the 99th percentile of its lateness in ms.
func bareLoop(rateHz float64, length time.Duration) (p50, p99 float64, err error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return 0, 0, err
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	defer timer.Close()
	now := func() int64 {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return ts.Nano()
	}
	var late []float64
	var buf [8]byte
	origin := now()
	for i := 0; float64(i) < rateHz*length.Seconds(); i++ {
		due := origin + int64(float64(i)/rateHz*1e9)
		for now() < due {
			spec := unix.ItimerSpec{Value: unix.NsecToTimespec(due)}
			if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &spec, nil); err != nil {
				return 0, 0, err
			}
			if _, err := timer.Read(buf[:]); err != nil {
				return 0, 0, err
			}
		}
		late = append(late, float64(now()-due)/1e6)
	}
	slices.Sort(late)
	return late[len(late)/2], late[len(late)*99/100], nil
}
