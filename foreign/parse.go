package foreign

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Parse reads one log, gzipped or not. A log without any result or marker gives no
// steps and no error. Errors are of reading, and of logs beyond the limits.
func Parse(r io.Reader, o Options) (Log, error) {
	text, err := unpack(r)
	if err != nil {
		return Log{}, err
	}
	if len(o.OK) == 0 {
		o.OK = DefaultOK
	}
	if len(o.Latency) == 0 {
		o.Latency = DefaultLatency
	}
	p := &parser{options: o, text: text}
	p.run()
	return p.log, p.err
}

// unpack reads a log whole, which must not be longer than MaxBytes.
func unpack(r io.Reader) (string, error) {
	b := bufio.NewReader(r)
	if magic, _ := b.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(b)
		if err != nil {
			return "", fmt.Errorf("unpack: %w", err)
		}
		r = z
	} else {
		r = b
	}
	data, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	if len(data) > MaxBytes {
		return "", fmt.Errorf("longer than %d bytes; split it", MaxBytes)
	}
	return strings.ToValidUTF8(string(data), "�"), nil
}

// block collects the lines of one tool's text.
type block interface {
	// line takes a line and says whether it was one of the block's. A block that is
	// complete takes no more.
	line(text string) bool
	// result is nil of a block that came to nothing.
	result(o Options) *Result
}

// parser walks a log line by line.
type parser struct {
	options Options
	text    string // what is not read yet
	number  int    // of the line before it

	block block
	begin int // line of the block

	open    *mark // marker of the step that was begun
	openAt  int   // its place in log.Steps
	marked  bool  // the log has markers
	wasted  int   // bytes that were read as JSON in vain
	spent   bool  // and may be no more
	long    int   // lines too long to be any tool's
	objects int   // JSON objects of no known form

	log Log
	err error
}

// Limits of a parser's work: a line of text, and how often all of the log may be
// read as JSON in vain.
const (
	maxLine  = 64 << 10
	maxWaste = 4
	// What a line that only looks like an object costs is not counted.
	smallJSON = 4 << 10
)

func (p *parser) run() {
	size := len(p.text)
	for p.text != "" && p.err == nil {
		line, rest, _ := strings.Cut(p.text, "\n")
		p.number++
		if trimmed := strings.TrimLeft(line, " \t"); strings.HasPrefix(trimmed, "{") && !p.spent {
			if n := p.object(p.text); n > 0 {
				p.number += strings.Count(p.text[:n], "\n")
				_, p.text, _ = strings.Cut(p.text[n:], "\n")
				continue
			}
			// Text that begins an object on every line and ends none would be read
			// over and over.
			p.spent = p.wasted > maxWaste*size
		}
		p.text = rest
		if len(line) > maxLine {
			p.long++
			continue
		}
		p.line(strings.TrimRight(line, " \t\r"))
	}
	p.flush()
	if p.spent {
		p.note("too much of the log looks like JSON and is none: what followed was not read as such")
	}
	if p.long > 0 {
		p.note("%d lines are longer than %d bytes and were left out", p.long, maxLine)
	}
	if p.objects > 0 {
		p.note("%d JSON objects are no result of a known form", p.objects)
	}
	for i := range p.log.Steps {
		if s := &p.log.Steps[i]; s.Result == nil {
			p.note("step %d (%s) has markers and no result", i+1, s.describe())
		}
	}
}

// line reads one line that begins no JSON.
func (p *parser) line(line string) {
	if m, is, err := p.options.Marker.read(line); is {
		p.flush()
		if err != nil {
			p.note("line %d: a marker, but %v", p.number, err)
			return
		}
		p.mark(m)
		return
	}
	if p.block != nil && p.block.line(line) {
		return
	}
	for _, begin := range []func(string) block{beginNighthawk, beginWrk, beginK6} {
		if b := begin(line); b != nil {
			p.flush()
			p.block, p.begin = b, p.number
			return
		}
	}
}

// object reads a JSON object at the beginning of a text and gives its length, 0
// when it is none, or none of a tool.
func (p *parser) object(text string) int {
	source := strings.NewReader(text)
	d := json.NewDecoder(source)
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		if read := len(text) - source.Len(); read > smallJSON {
			p.wasted += read
		}
		return 0
	}
	n := int(d.InputOffset())
	result := fromJSON(raw, p.options)
	if result == nil {
		p.wasted += n
		p.objects++
		return n
	}
	p.flush()
	result.Line = p.number
	p.add(result)
	return n
}

// flush ends the block of text that is being read.
func (p *parser) flush() {
	if p.block == nil {
		return
	}
	if result := p.block.result(p.options); result != nil {
		result.Line = p.begin
		p.add(result)
	}
	p.block = nil
}

// mark opens or closes a step.
func (p *parser) mark(m mark) {
	p.marked = true
	if !m.start {
		if p.open == nil {
			p.note("line %d: the end of a step that was not begun", p.number)
			return
		}
		s := &p.log.Steps[p.openAt]
		s.End = m.at
		s.UsageNs, s.ThrottledNs = difference(p.open.usage, m.usage), difference(p.open.throttled, m.throttled)
		if s.OfferedHz == nil {
			s.OfferedHz = m.offered
		}
		s.Warmup = s.Warmup || m.warmup
		p.open = nil
		return
	}
	p.open = &m
	p.openAt = len(p.log.Steps)
	p.step(Step{Name: m.name, Arm: m.arm, OfferedHz: m.offered, Warmup: m.warmup, Start: m.at})
}

// difference of two counters in microseconds, in nanoseconds; nil where either is
// missing, or the counter fell.
func difference(from, to *int64) *int64 {
	if from == nil || to == nil || *to < *from {
		return nil
	}
	ns := 1000 * (*to - *from)
	return &ns
}

// add gives a result to its step: the one that is open, else the last that has
// none, since scripts print what a tool wrote behind the end as well. A result
// beyond that is a step of its own.
func (p *parser) add(r *Result) {
	if n := len(p.log.Steps); p.marked && n > 0 && p.log.Steps[n-1].Result == nil {
		p.log.Steps[n-1].Result = r
		return
	}
	if p.marked {
		p.note("line %d: a result of %s outside of any step", r.Line, r.Tool)
	}
	p.step(Step{Result: r})
}

func (p *parser) step(s Step) {
	if len(p.log.Steps) == MaxSteps {
		p.err = fmt.Errorf("more than %d steps; split the log", MaxSteps)
		return
	}
	p.log.Steps = append(p.log.Steps, s)
}

func (p *parser) note(format string, args ...any) {
	switch n := len(p.log.Notes); {
	case n < maxNotes:
		p.log.Notes = append(p.log.Notes, fmt.Sprintf(format, args...))
	case n == maxNotes:
		p.log.Notes = append(p.log.Notes, "and more of this kind")
	}
}

func (s *Step) describe() string {
	switch {
	case s.Name != "":
		return cut(s.Name)
	case s.OfferedHz != nil:
		return fmt.Sprintf("%g/s", *s.OfferedHz)
	}
	return "without a name"
}
