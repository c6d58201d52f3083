//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The closed loop: two threads on one CPU hand a byte to and fro through pipes
// and do a fixed piece of work in each turn. That CPU is never idle by their
// doing, so what a profiler takes is missing from their throughput. What is
// measured is the CPU time of a turn, by the threads' own clocks: a neighbour
// that takes the CPU away is not in it, and a profiler's programs are, since
// they run on the threads' time.

// slice is a number of turns of the loop.
type slice struct {
	Turns    int
	CPUNs    int64 // of both threads
	Switches int64 // voluntary and not, of both
	// ProbeNs is the CPU time of a fixed piece of work without any switch, around
	// the turns: how fast the CPU was just then.
	ProbeNs int64
}

func (s slice) perTurn() float64 { return float64(s.CPUNs) / float64(s.Turns) }

// cost is that of a turn, in the probe's work. What slows the whole CPU, such as a
// neighbour on its other half, slows both, and is worse than what is looked for.
// A sampling clock slows both, too: at 199 Hz 0.1 % is missing from its loss.
func (s slice) cost() float64 { return s.perTurn() / float64(s.ProbeNs) }

// handoff runs slices of as many turns as each line of input says, at about
// args[0] switches per second of CPU time on CPU args[1].
func handoff(args []string, in *bufio.Reader) any {
	rate, _ := strconv.Atoi(args[0])
	cpu, _ := strconv.Atoi(args[1])
	l := newLoop(cpu)
	l.calibrate(rate)
	for {
		line, err := json.Marshal(l.run(1))
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", line)
		for {
			text, err := in.ReadString('\n')
			if err != nil {
				os.Exit(0)
			}
			turns, err := strconv.Atoi(strings.TrimSpace(text))
			if err != nil {
				panic(err)
			}
			line, _ := json.Marshal(l.run(turns))
			fmt.Printf("%s\n", line)
		}
	}
}

type loop struct {
	ping, pong [2]int
	steps      int // of work per turn
	turns      [2]chan int
	done       chan slice
}

func newLoop(cpu int) *loop {
	l := &loop{done: make(chan slice)}
	for _, fds := range []*[2]int{&l.ping, &l.pong} {
		if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
			panic(err)
		}
	}
	for side := range 2 {
		l.turns[side] = make(chan int)
		go func() {
			runtime.LockOSThread()
			if err := pin(cpu); err != nil {
				panic(err)
			}
			for turns := range l.turns[side] {
				l.done <- l.side(side, turns)
			}
		}()
	}
	return l
}

// side is one thread's part of a slice.
func (l *loop) side(side, turns int) slice {
	var before, after unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &before)
	c0 := clockNs(unix.CLOCK_THREAD_CPUTIME_ID)
	x := uint64(side)
	x = work(x, probeSteps)
	c1 := clockNs(unix.CLOCK_THREAD_CPUTIME_ID)
	for range turns {
		if side == 1 {
			rawByte(unix.SYS_READ, l.ping[0])
		}
		x = work(x, l.steps)
		if side == 0 {
			rawByte(unix.SYS_WRITE, l.ping[1])
			rawByte(unix.SYS_READ, l.pong[0])
		} else {
			rawByte(unix.SYS_WRITE, l.pong[1])
		}
	}
	c2 := clockNs(unix.CLOCK_THREAD_CPUTIME_ID)
	x = work(x, probeSteps)
	probe := c1 - c0 + clockNs(unix.CLOCK_THREAD_CPUTIME_ID) - c2
	unix.Getrusage(unix.RUSAGE_THREAD, &after)
	switches := after.Nvcsw + after.Nivcsw - before.Nvcsw - before.Nivcsw
	kept[side] = x
	return slice{turns, c2 - c1, int64(switches), probe}
}

const probeSteps = 500_000 // about a millisecond

var kept [2]uint64 // so that no work is left out

func rawByte(call uintptr, fd int) {
	var b [1]byte
	unix.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(&b)), 1)
}

func (l *loop) run(turns int) slice {
	l.turns[0] <- turns
	l.turns[1] <- turns
	a, b := <-l.done, <-l.done
	return slice{turns, a.CPUNs + b.CPUNs, a.Switches + b.Switches, a.ProbeNs + b.ProbeNs}
}

// calibrate chooses the work of a turn, in which there are two switches and two
// pieces of work.
func (l *loop) calibrate(rate int) {
	median := func() float64 {
		var all []float64
		for range 9 {
			all = append(all, l.run(2000).perTurn())
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	bare := median()
	l.steps = 2000
	step := (median() - bare) / 2 / 2000
	l.steps = max(0, int((2e9/float64(rate)-bare)/2/step))
}

// loopChild is the loop in a process of its own.
type loopChild struct {
	*child
	turns int // of a slice of about 30 ms
	rate  float64
}

func (b *bench) startLoop(dirs []string, rate int) (*loopChild, error) {
	cpu, err := lastCPU()
	if err != nil {
		return nil, err
	}
	c, err := startChild(dirs, "handoff", strconv.Itoa(rate), strconv.Itoa(cpu))
	if err != nil {
		return nil, err
	}
	l := &loopChild{child: c, turns: max(100, rate/2*30/1000)}
	var first slice
	if err := errors.Join(c.say("go"), c.hear(&first)); err != nil {
		return nil, errors.Join(err, c.kill())
	}
	s, err := l.slices(10)
	if err != nil {
		return nil, errors.Join(err, c.kill())
	}
	var cpuNs, switches int64
	for _, each := range s {
		cpuNs, switches = cpuNs+each.CPUNs, switches+each.Switches
	}
	l.rate = float64(switches) / float64(cpuNs) * 1e9
	return l, nil
}

// slices runs n of them, one after the other.
func (l *loopChild) slices(n int) ([]slice, error) {
	var out []slice
	for range n {
		var s slice
		if err := l.say(strconv.Itoa(l.turns)); err != nil {
			return nil, err
		}
		if err := l.hear(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
