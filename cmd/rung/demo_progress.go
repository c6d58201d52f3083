//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progress shows people where a demo is. A phase has an expected length; what
// it really takes is corrected for when the next one begins. Its methods may be
// called concurrently; finish is called once, and nothing after it.
type progress struct {
	out   io.Writer
	start time.Time

	mu sync.Mutex
	// total is the expected length of the demo, done the part that ended.
	total, done  time.Duration
	text         string
	phaseLength  time.Duration
	phaseStarted time.Time

	// Nil unless out is a terminal.
	bars *mpb.Progress
	bar  *mpb.Bar
	quit chan struct{}
	idle chan struct{}
}

// startProgress writes to out: a live line on a terminal, else a plain line for
// each phase. total is the sum of the lengths of all phases to come.
func startProgress(out io.Writer, total time.Duration) *progress {
	p := &progress{out: out, start: time.Now(), total: total}
	if f, ok := out.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		p.startBar()
	}
	return p
}

// replan corrects the expected length of all that is left, this phase included.
func (p *progress) replan(left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.phaseLength = time.Since(p.start), 0
	p.total = p.done + left
}

// phase ends the phase before and begins one of about the given length.
func (p *progress) phase(text string, length time.Duration) {
	p.mu.Lock()
	p.done += p.phaseLength
	p.text, p.phaseLength, p.phaseStarted = text, length, time.Now()
	line := fmt.Sprintf("[%s/%s] %s\n", clock(time.Since(p.start)), clock(p.total), text)
	plain := p.bars == nil
	p.mu.Unlock()
	if plain {
		fmt.Fprint(p.out, line)
	}
}

// note prints a line that stays.
func (p *progress) note(text string) {
	if p.bars != nil {
		fmt.Fprintf(p.bars, "rung: %s\n", text)
		return
	}
	fmt.Fprintf(p.out, "rung: %s\n", text)
}

// finish takes the live line away.
func (p *progress) finish() {
	if p.bars == nil {
		return
	}
	close(p.quit)
	<-p.idle
	p.bar.Abort(true)
	p.bars.Wait()
}

func (p *progress) startBar() {
	p.quit, p.idle = make(chan struct{}), make(chan struct{})
	p.bars = mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(24), mpb.WithRefreshRate(200*time.Millisecond))
	p.bar = p.bars.AddBar(0,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return fmt.Sprintf("%s/%s ", clock(time.Since(p.start)), clock(p.total))
		})),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string {
			p.mu.Lock()
			defer p.mu.Unlock()
			return " " + p.text
		})),
	)
	go func() {
		defer close(p.idle)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-p.quit:
				return
			case <-tick.C:
				p.mu.Lock()
				now := p.done + min(time.Since(p.phaseStarted), p.phaseLength)
				// The bar must not complete by itself: finish ends it.
				total := max(p.total, now) + time.Second
				p.mu.Unlock()
				p.bar.SetTotal(total.Milliseconds(), false)
				p.bar.SetCurrent(now.Milliseconds())
			}
		}
	}()
}

// clock is a duration as people read it on a progress line: 1:07.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
