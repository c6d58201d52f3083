//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// print writes the result for people, or as JSON.
func (r *profileResult) print(w io.Writer, asJSON bool) error {
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	var b strings.Builder
	r.printHead(&b)
	if r.Account != nil {
		r.printAccount(&b)
		for i := range r.States {
			r.printState(&b, &r.States[i])
		}
		r.printWakers(&b)
		r.printTrust(&b)
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s", printable(text))
	}
	if len(r.Warnings) > 0 {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\nrecord: %s\n", r.Record)
	if r.Profile != "" {
		fmt.Fprintf(&b, "stacks: go tool pprof %s\n", r.Profile)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("print the profile: %w", err)
	}
	return nil
}

func (r *profileResult) printHead(w io.Writer) {
	fmt.Fprintf(w, "%s\n", printable(r.Target))
	fmt.Fprintf(w, "window: %.3f s from %s", seconds(r.WindowNs), r.Started.Format(time.DateTime))
	switch r.Ended {
	case endedExited:
		fmt.Fprint(w, ", until the process ended")
	case endedInterrupted:
		fmt.Fprint(w, ", ended by a signal")
	}
	fmt.Fprintf(w, "\nhost: Linux %s %s, %d CPUs; %d Hz\n", r.Kernel, r.Arch, r.CPUs, r.RateHz)
	if r.Command != nil {
		fmt.Fprintf(w, "command: %v\n", r.Command)
	}
	if r.Void != "" {
		fmt.Fprintf(w, "VOID, no figure may be used: %s\n", printable(r.Void))
	}
}

// printState prints where the time of one state went.
func (r *profileResult) printState(w io.Writer, s *profiledState) {
	title, unit := "Off-CPU, "+s.State, "intervals drawn"
	if s.State == stateOnCPU {
		title, unit = "On-CPU", "samples"
	}
	fmt.Fprintf(w, "\n%s: %.3f mean threads", title, r.meanThreads(s.Ns))
	if s.IdleNs > 0 {
		fmt.Fprintf(w, " and %.3f idle", r.meanThreads(s.IdleNs))
	}
	fmt.Fprintf(w, ", %d %s\n\n", s.Samples, unit)
	if len(s.Functions) > 0 {
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprint(tw, "share\tsamples\t  function, self\n")
		for _, f := range s.Functions {
			fmt.Fprintf(tw, "%.1f %%\t%d\t  %s\n", 100*f.Share, f.Samples, printable(shortFrame(f.Name)))
		}
		tw.Flush()
		fmt.Fprintln(w)
	}
	for i := range s.Stacks {
		r.printStack(w, s, &s.Stacks[i])
	}
}

// Frames of a stack that are printed: on the leaf's side, and on the root's.
const stackLeaf, stackRoot = 8, 2

// stackWidth is that of a line of frames, in runes.
const stackWidth = 96

// printStack prints a stack, leaf first, over as few lines as it takes.
func (r *profileResult) printStack(w io.Writer, state *profiledState, s *profiledStack) {
	fmt.Fprintf(w, "%6.1f %%  %s", 100*s.Share, printable(s.Threads))
	if s.Reason != "" {
		fmt.Fprintf(w, ", %s", printable(s.Reason))
	}
	switch {
	case state.State == stateOnCPU:
		fmt.Fprintf(w, "; %d samples\n", s.Samples)
	case s.StderrThreads == nil:
		fmt.Fprintf(w, "; %.4f, too few: %s\n", r.meanThreads(s.Ns), s.TooFew)
	case *s.StderrThreads == 0:
		fmt.Fprintf(w, "; %.4f, exact\n", r.meanThreads(s.Ns))
	default:
		fmt.Fprintf(w, "; %.4f ± %.4f\n", r.meanThreads(s.Ns), normal95*(*s.StderrThreads))
	}
	line, used := "         ", 0
	for i, text := range stackTexts(s.Frames) {
		if i > 0 {
			text = "← " + text
		}
		n := utf8.RuneCountInString(text) + 1
		if used > 0 && used+n > stackWidth {
			fmt.Fprintln(w, line)
			line, used = "           ", 0
		}
		line += " " + text
		used += n
	}
	fmt.Fprintln(w, line)
}

// stackTexts are the frames to print: repeated ones once, and those in the
// middle of a deep stack as a number.
func stackTexts(frames []string) []string {
	var texts []string
	for i := 0; i < len(frames); {
		n := 1
		for i+n < len(frames) && frames[i+n] == frames[i] {
			n++
		}
		text := printable(shortFrame(frames[i]))
		if n > 1 {
			text += fmt.Sprintf(" ×%d", n)
		}
		texts = append(texts, text)
		i += n
	}
	if left := len(texts) - stackLeaf - stackRoot; left > 1 {
		texts = slices.Replace(texts, stackLeaf, stackLeaf+left, fmt.Sprintf("… %d more", left))
	}
	return texts
}

// shortFrame is [short] for names that are functions: in others, brackets are no
// type arguments.
func shortFrame(name string) string {
	if strings.HasPrefix(name, "[") {
		return name
	}
	return short(name)
}

// printTrust prints what the figures are worth: checks, losses, own cost.
func (r *profileResult) printTrust(w io.Writer) {
	fmt.Fprint(w, "\nChecks\n\n")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		scale, unit := 1.0, c.Unit
		switch largest := max(math.Abs(c.Value), math.Abs(c.Want)); {
		case unit == "ns" && largest >= 1e6:
			scale, unit = 1e6, "ms"
		case unit == "ns" && largest >= 1e3:
			scale, unit = 1e3, "µs"
		}
		verdict, figure := "ok", fmt.Sprintf("%.5g %s", c.Value/scale, unit)
		switch {
		case c.Absent != "":
			verdict, figure = "–", c.Absent
		case c.Bound == nil:
			verdict = "–"
		default:
			figure += fmt.Sprintf(", want %.5g ± %.3g", c.Want/scale, *c.Bound/scale)
			if !c.OK {
				verdict = "BROKEN"
			}
		}
		if c.Detail != "" && c.Absent == "" {
			figure += "; " + c.Detail
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\n", verdict, c.Name, printable(figure))
	}
	tw.Flush()
	if len(r.Losses) == 0 {
		fmt.Fprint(w, "\nLosses: none\n")
	} else {
		fmt.Fprint(w, "\nLosses\n\n")
		for _, l := range r.Losses {
			fmt.Fprintf(tw, "%d\t%s\t%s\n", l.Count, l.Name, l.Meaning)
		}
		tw.Flush()
	}
	c := r.Cost
	if c == nil {
		return
	}
	fmt.Fprint(w, "\nThe profiler itself: ")
	if c.BPFNs != nil {
		fmt.Fprintf(w, "BPF %.1f ms in %d runs", float64(*c.BPFNs)/1e6, c.BPFRuns)
	} else {
		fmt.Fprintf(w, "BPF not known (%s)", printable(c.BPFMissing))
	}
	fmt.Fprintf(w, ", agent %.1f ms", float64(c.AgentCPUNs)/1e6)
	if c.BPFNs != nil && c.WindowNs > 0 {
		fmt.Fprintf(w, "; together %.2f %% of one core", 100*float64(*c.BPFNs+c.AgentCPUNs)/float64(c.WindowNs))
	}
	fmt.Fprintf(w, "; RSS %.1f MB, maps %.1f MB\n", float64(c.AgentRSSBytes)/1e6, float64(c.MapBytes)/1e6)
}

// normal95 standard errors to either side are a 95 % interval.
const normal95 = 1.96

func (r *profileResult) meanThreads(ns int64) float64 { return float64(ns) / float64(r.WindowNs) }

func seconds(ns int64) float64 { return float64(ns) / 1e9 }
