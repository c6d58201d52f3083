//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/bpf"
)

// peer is another profiler, as its users start it.
type peer struct {
	name string
	// tools are tried in turn: packages name one and the same differently.
	tools []string
	args  func(pid uint32, file string) []string
	// settle is how long it takes until it measures: none of them says.
	settle time.Duration
	// total is what it says of a thread, in seconds: off the CPU, or on it.
	total func(output, file string, tid uint32) (float64, error)
	onCPU bool
}

// offcputimeScript is offcputime for bpftrace, of one process, by tracepoint:
// the one of its distribution needs kprobes.
const offcputimeScript = `tracepoint:sched:sched_switch {
	if (pid == PID) { @start[tid] = nsecs; @k[tid] = kstack; @u[tid] = ustack; }
	$s = @start[args->next_pid];
	if ($s) {
		@off[@k[args->next_pid], @u[args->next_pid]] = sum(nsecs - $s);
		@total[args->next_pid] = sum(nsecs - $s);
		delete(@start[args->next_pid]);
	}
} END { clear(@start); clear(@k); clear(@u); clear(@off); }`

var peerList = []peer{
	{name: "perf record -F 199 -g", tools: []string{"perf"}, settle: time.Second, onCPU: true, total: perfTotal,
		args: func(pid uint32, file string) []string {
			// The clock, not cycles: virtual machines often have no such counter.
			return []string{"record", "-q", "-F", "199", "-g", "-e", "cpu-clock", "-o", file, "-p", strconv.Itoa(int(pid))}
		}},
	{name: "offcputime (libbpf-tools)", tools: []string{"offcputime", "/usr/sbin/offcputime"}, settle: 1500 * time.Millisecond, total: offcputimeTotal,
		args: func(pid uint32, _ string) []string { return []string{"-p", strconv.Itoa(int(pid))} }},
	{name: "offcputime (bpftrace)", tools: []string{"bpftrace"}, settle: 2500 * time.Millisecond, total: bpftraceTotal,
		args: func(pid uint32, _ string) []string {
			return []string{"-e", strings.ReplaceAll(offcputimeScript, "PID", strconv.Itoa(int(pid)))}
		}},
}

func (p peer) path() (string, error) {
	for _, tool := range p.tools {
		if path, err := exec.LookPath(tool); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("absent: no %s on this host", p.tools[0])
}

// running is a started peer.
type running struct {
	peer
	cmd    *exec.Cmd
	output bytes.Buffer
	file   string
}

func (b *bench) startPeer(p peer, pid uint32, dir string) (*running, error) {
	path, err := p.path()
	if err != nil {
		return nil, err
	}
	r := &running{peer: p, file: filepath.Join(dir, "perf.data")}
	r.cmd = exec.Command(path, p.args(pid, r.file)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan struct{})
	go func() { r.cmd.Wait(); close(ended) }()
	select {
	case <-ended:
		return nil, fmt.Errorf("absent: %s ends at once: %s", path, lastLine(r.output.String()))
	case <-time.After(p.settle):
	case <-b.ctx.Done():
	}
	r.cmd.Cancel = func() error { // once
		r.cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			r.cmd.Process.Kill()
			<-ended
		}
		return nil
	}
	return r, b.ctx.Err()
}

func (r *running) stop() error { return r.cmd.Cancel() }

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// peers measures cost and error of each peer that this host has, beside Rung's.
func (b *bench) peers() error {
	dir, err := os.MkdirTemp("", "rung-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return errors.Join(b.peerCosts(dir), b.peerErrors(dir))
}

// peerCosts is the loss of the closed loop's throughput beside each.
func (b *bench) peerCosts(dir string) error {
	const rate = 20_000
	l, err := b.startLoop(nil, rate)
	if err != nil {
		return err
	}
	defer l.kill()
	states := []state{off(), rungOn(l.pid)}
	for _, p := range peerList {
		r, err := b.startPeer(p, l.pid, dir) // whether it works at all
		if err != nil {
			b.absent(fmt.Sprintf("loss at %d switches/s, %s", rate, p.name), "%", err)
			continue
		}
		if err := r.stop(); err != nil {
			return err
		}
		states = append(states, state{name: p.name, enter: func() (func() error, error) {
			r, err := b.startPeer(p, l.pid, dir)
			if err != nil {
				return nil, err
			}
			return r.stop, nil
		}})
	}
	c, err := b.compare(l, states, pick(b, 12, 2), 20)
	if err != nil {
		return err
	}
	for i := 1; i < len(states); i++ {
		median, lo, hi := c.loss(i)
		b.state(fmt.Sprintf("loss at %d switches/s, %s", rate, states[i].name), median, "%", fmt.Sprintf("95 %% interval %.2f to %.2f", lo, hi))
	}
	return nil
}

// absent states that a peer is not here: no goal is missed by that.
func (b *bench) absent(name, unit string, reason error) {
	b.figures = append(b.figures, Figure{Name: b.group + "/" + name, Unit: unit, OK: true, Note: reason.Error()})
}

// peerErrors lets each watch a thread that sleeps and works a known time by its
// own clocks; one after the other, since each lengthens what the others see.
func (b *bench) peerErrors(dir string) error {
	if err := b.rungError(); err != nil {
		return err
	}
	for _, p := range peerList {
		var r *running
		var tid uint32
		is, err := b.watched(func(c *child) (stop func() error, err error) {
			tid = c.tid
			if r, err = b.startPeer(p, c.pid, dir); err != nil {
				return nil, err
			}
			return r.stop, nil
		})
		if err != nil {
			b.absent("error, "+p.name, "%", err)
			continue
		}
		truth, where := is.offNs(), "off"
		if r.onCPU {
			truth, where = float64(is.CPUNs), "on"
		}
		seconds, err := r.total(r.output.String(), r.file, tid)
		if err != nil {
			b.absent("error, "+r.name, "%", fmt.Errorf("its answer was not understood: %w", err))
			continue
		}
		b.state(fmt.Sprintf("error %s the CPU, %s", where, r.name), 100*(1e9*seconds/truth-1), "%", fmt.Sprintf("%.4f of %.4f s", seconds, truth/1e9))
	}
	return nil
}

func (s slept) offNs() float64 { return float64(s.WallNs - s.CPUNs) }

// watched lets the workload sleep beside a profiler, and answers what it says of
// itself once the profiler has stopped.
func (b *bench) watched(start func(*child) (stop func() error, err error)) (slept, error) {
	var is slept
	c, err := startChild(nil, "sleeps", pick(b, "3000", "800"), "1ms")
	if err != nil {
		return is, err
	}
	defer c.kill()
	stop, err := start(c)
	if err != nil {
		return is, err
	}
	err = errors.Join(c.say("go"), c.hear(&is), b.sleep(50*time.Millisecond))
	return is, errors.Join(err, stop())
}

// rungError is that of Rung's account of the same workload.
func (b *bench) rungError() error {
	var offNs, onNs float64
	is, err := b.watched(func(c *child) (func() error, error) {
		w, err := watch(c.pid, bpf.DefaultStackBudget)
		if err != nil {
			return nil, err
		}
		if err := w.Arm(w.slot, bpf.Window{ID: 1, Start: bpf.Now(), BlockNs: 1e8}); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		return func() error {
			defer w.Close()
			if err := w.SetEnd(w.slot, 1, bpf.Now()); err != nil {
				return err
			}
			threads, err := w.Threads(w.slot, 1)
			for _, t := range threads {
				if t.Tid != c.tid {
					continue
				}
				// The thread's clock is the run queue's, set some µs before each switch:
				// the account says by how much.
				skew := float64(t.OnCPUSkewNs)
				offNs, onNs = float64(t.RunQueueNs+t.ThrottledNs)-skew, float64(t.OnCPUWallNs)+skew
				for _, r := range t.Blocked {
					// It waits in read for its beginning and its end.
					if nr, ok := r.Reason.Syscall(); !ok || nr != unix.SYS_READ {
						offNs += float64(r.Ns)
					}
				}
			}
			return err
		}, nil
	})
	if err != nil {
		return err
	}
	v, bound := 100*(offNs/is.offNs()-1), 0.2+100*4e3*float64(is.Sleeps)/is.offNs()
	b.judge("error off the CPU, rung", v, "%", fmt.Sprintf("|x| ≤ %.3f", bound), math.Abs(v) <= bound,
		fmt.Sprintf("%d sleeps of together %.4f s by the thread's own clocks; allowed: 0.2 %% and 4 µs each; with the account's skew", is.Sleeps, is.offNs()/1e9))
	b.state("error on the CPU, rung", 100*(onNs/float64(is.CPUNs)-1), "%", "")
	return nil
}

// perfTotal sums the periods of a thread's samples.
func perfTotal(_, file string, tid uint32) (float64, error) {
	text, err := exec.Command("perf", "script", "-i", file, "-F", "tid,period", "-G").Output()
	if err != nil {
		return 0, err
	}
	var ns float64
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) != 2 || f[0] != strconv.Itoa(int(tid)) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSuffix(f[1], ":"), 64)
		if err != nil {
			return 0, err
		}
		ns += v
	}
	if ns == 0 {
		return 0, errors.New("no sample of the thread")
	}
	return ns / 1e9, nil
}

// offcputimeTotal sums the stacks of a thread, in µs below its name.
func offcputimeTotal(output, _ string, tid uint32) (float64, error) {
	of := regexp.MustCompile(fmt.Sprintf(`(?m)^\s+-\s+\S.*\(%d\)\n\s+(\d+)$`, tid))
	var usec float64
	for _, m := range of.FindAllStringSubmatch(output, -1) {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, err
		}
		usec += v
	}
	if usec == 0 {
		return 0, errors.New("no stack of the thread")
	}
	return usec / 1e6, nil
}

func bpftraceTotal(output, _ string, tid uint32) (float64, error) {
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^@total\[%d\]: (\d+)$`, tid)).FindStringSubmatch(output)
	if m == nil {
		return 0, errors.New("no sum for the thread")
	}
	ns, err := strconv.ParseFloat(m[1], 64)
	return ns / 1e9, err
}
