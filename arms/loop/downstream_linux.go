package loop

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"golang.org/x/sys/unix"
)

// downstream stands for a service that answers every question after the same
// time, however many are open. One thread can play it: with equal delays the
// answers are due in the order of the questions.
type downstream struct {
	delay     time.Duration
	questions pipe
	answers   []pipe // one per worker
	hungUp    bool   // questions.write is closed
}

type pipe struct{ read, write int }

// A question is the worker's index and when its answer is due, in nanoseconds
// of CLOCK_MONOTONIC, in the host's byte order. It is far below PIPE_BUF, so
// questions arrive whole.
const questionBytes = 16

func newDownstream(workers int, delay time.Duration) (*downstream, error) {
	d := &downstream{delay: delay, answers: make([]pipe, 0, workers)}
	var err error
	if d.questions, err = newPipe(); err != nil {
		return nil, err
	}
	for range workers {
		p, err := newPipe()
		if err != nil {
			d.release()
			return nil, err
		}
		d.answers = append(d.answers, p)
	}
	return d, nil
}

// newPipe has blocking ends, as reads are to block in the kernel.
func newPipe() (pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, fmt.Errorf("create a pipe: %w", err)
	}
	return pipe{read: ends[0], write: ends[1]}, nil
}

// ask blocks in read until the answer comes. Each worker calls it for itself.
func (d *downstream) ask(worker int) error {
	var question [questionBytes]byte
	binary.NativeEndian.PutUint64(question[:8], uint64(worker))
	binary.NativeEndian.PutUint64(question[8:], uint64(monotonicNs()+d.delay.Nanoseconds()))
	if _, err := retryInterrupted(func() (int, error) { return unix.Write(d.questions.write, question[:]) }); err != nil {
		return fmt.Errorf("ask the downstream: %w", err)
	}
	var answer [1]byte
	n, err := retryInterrupted(func() (int, error) { return unix.Read(d.answers[worker].read, answer[:]) })
	if err == nil && n == 0 {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("read the downstream's answer: %w", err)
	}
	return nil
}

// run answers until hangUp.
func (d *downstream) run() {
	var question [questionBytes]byte
	for {
		n, err := retryInterrupted(func() (int, error) { return unix.Read(d.questions.read, question[:]) })
		if err != nil || n != questionBytes {
			return
		}
		worker := binary.NativeEndian.Uint64(question[:8])
		sleepUntil(int64(binary.NativeEndian.Uint64(question[8:])))
		retryInterrupted(func() (int, error) { return unix.Write(d.answers[worker].write, question[:1]) })
	}
}

// hangUp ends run. No worker may ask any more.
func (d *downstream) hangUp() {
	if !d.hungUp {
		d.hungUp = true
		unix.Close(d.questions.write)
	}
}

// release closes all there is; run must have ended, or never begun.
func (d *downstream) release() {
	d.hangUp()
	unix.Close(d.questions.read)
	for _, p := range d.answers {
		unix.Close(p.read)
		unix.Close(p.write)
	}
}
