//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"github.com/rungprof/rung/loadgen"
)

// loadProgress shows a line for each finished step and, on a terminal, a bar
// for the ladder below them.
type loadProgress struct {
	out   io.Writer
	bars  *mpb.Progress // nil unless out is a terminal
	bar   *mpb.Bar
	text  atomic.Pointer[string] // read by mpb's own goroutine
	past  time.Duration          // schedules of the finished steps
	steps map[int]time.Duration
}

func newLoadProgress(out io.Writer, c loadgen.Config) *loadProgress {
	p := &loadProgress{out: out, steps: map[int]time.Duration{}}
	p.text.Store(new(string))
	var total time.Duration
	for _, s := range c.Steps {
		total += s.Duration
		p.steps[s.Index] = s.Duration
	}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.bars = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40))
		p.bar = p.bars.AddBar(total.Milliseconds(),
			mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return *p.text.Load() })),
			mpb.AppendDecorators(decor.Percentage()))
	}
	return p
}

func (p *loadProgress) live() bool { return p.bars != nil }

// show moves the bar. Called by one goroutine at a time, and never with done.
func (p *loadProgress) show(s loadgen.Progress) {
	text := liveText(s)
	p.text.Store(&text)
	p.bar.SetCurrent((p.past + min(s.Elapsed, s.Duration)).Milliseconds())
}

// liveText is the present state of a step: what its last whole second came to.
func liveText(s loadgen.Progress) string {
	text := fmt.Sprintf("%s: offered %.6g/s", s.Step.Name(), s.Step.OfferedHz)
	l := s.Last
	if l.Seconds == 0 {
		return text + fmt.Sprintf(", %d delivered, in flight %d ", s.Delivered, s.InFlight)
	}
	text += fmt.Sprintf(", %.0f/s, in flight %d", float64(l.Delivered)/l.Seconds, s.InFlight)
	if q := l.Response; q != nil {
		text += fmt.Sprintf(", p50 %.3g p99 %.3g ms", q.P50, q.P99)
	}
	if q := l.Lateness; q != nil {
		text += fmt.Sprintf(", late %.2g ms", q.P99)
	}
	if l.Errors > 0 {
		text += fmt.Sprintf(", errors %d", l.Errors)
	}
	if l.Overflow > 0 {
		text += fmt.Sprintf(", overflow %d", l.Overflow)
	}
	return text + " "
}

// done prints a finished step and its warnings.
func (p *loadProgress) done(r loadgen.StepResult) {
	out := p.out
	if p.bars != nil {
		out = p.bars
	}
	p.past += p.steps[r.Index]
	fmt.Fprintln(out, stepLine(r))
	for _, w := range r.Warnings {
		fmt.Fprintf(out, "  warning: %s\n", w)
	}
	if r.Void != "" {
		fmt.Fprintf(out, "  void: %s\n", r.Void)
	}
}

func (p *loadProgress) finish() {
	if p.bars == nil {
		return
	}
	p.bar.Abort(true)
	p.bars.Wait()
}

// stepLine is a step for people.
func stepLine(r loadgen.StepResult) string {
	seconds := float64(r.WindowEndMonoNs-r.WindowStartMonoNs) / 1e9
	line := fmt.Sprintf("step %s: offered %.6g/s", r.Name, r.OfferedHz)
	if seconds > 0 {
		line += fmt.Sprintf(", delivered %.6g/s", float64(r.DeliveredInWindow)/seconds)
	}
	if q := r.ResponseMs; q != nil {
		line += fmt.Sprintf(", p50 %.3g ms, p99 %.3g ms", q.P50, q.P99)
	}
	line += fmt.Sprintf(", overflow %d", r.Overflow)
	var failed uint64
	for _, n := range r.Errors {
		failed += n
	}
	if failed > 0 {
		line += fmt.Sprintf(", errors %d", failed)
	}
	if r.Sent > 0 {
		line += fmt.Sprintf(", client %.3g µs CPU per request", float64(r.ClientCPUNs)/float64(r.Sent)/1e3)
	}
	return line
}
