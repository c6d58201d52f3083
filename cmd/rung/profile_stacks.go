//go:build linux

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/attribution"
)

// cpuType is the sample type of on-CPU time.
const cpuType = "cpu"

// profiledState is one sample type of a profile: where time in one state went.
type profiledState struct {
	// Type is the sample type's name: "cpu", "run-queue", "throttled", "blocked".
	Type string `json:"type"`
	Ns   int64  `json:"ns"`
	// Samples are ticks of the clock on the CPU, drawn intervals off it.
	Samples int64 `json:"samples"`
	// Functions by descending self time, on-CPU only: kernel time under the entry
	// into the kernel.
	Functions []profiledFunction `json:"functions,omitempty"`
	// Stacks by descending time.
	Stacks []profiledStack `json:"stacks"`
}

type profiledFunction struct {
	Name    string  `json:"name"`
	Mapping string  `json:"mapping,omitempty"`
	Ns      int64   `json:"ns"`
	Share   float64 `json:"share"` // of the state
	Samples int64   `json:"samples"`
}

type profiledStack struct {
	Threads string  `json:"threads"` // group, or single thread
	Reason  string  `json:"reason,omitempty"`
	Ns      int64   `json:"ns"`
	Share   float64 `json:"share"` // of the state
	Samples int64   `json:"samples"`
	// PlusMinusNs is half of the 95 % interval, off-CPU; 0 where every interval was
	// drawn. Absent where TooFew says why.
	PlusMinusNs *int64 `json:"plusMinusNs,omitempty"`
	TooFew      string `json:"tooFew,omitempty"`
	// Frames leaf first, inlined ones included. Kernel functions are left out
	// above the entry that they were called by; the profile has them.
	Frames []string `json:"frames"`
}

// stateSum adds samples of one type up.
type stateSum struct {
	column    int
	single    bool
	ns        int64
	samples   int64
	functions map[attribution.Frame]*profiledFunction
	stacks    map[string]*stackSum
	strata    strataSums
}

type stackSum struct {
	profiledStack
	draws drawSums
}

// profiledStates reads a profile into its states, in the order of its sample
// types. Each list is cut to its top entries; 0: none is cut.
func profiledStates(p *pprof.Profile, single bool, top int) ([]profiledState, error) {
	if err := p.CheckValid(); err != nil {
		return nil, fmt.Errorf("profile is malformed: %w", err)
	}
	count := slices.IndexFunc(p.SampleType, func(t *pprof.ValueType) bool { return t.Unit == "count" })
	var states []profiledState
	for i, t := range p.SampleType {
		if t.Unit != "nanoseconds" {
			continue
		}
		sum := stateSum{
			column: i, single: single, strata: strataSums{},
			functions: map[attribution.Frame]*profiledFunction{}, stacks: map[string]*stackSum{},
		}
		for _, s := range p.Sample {
			if s.Value[i] <= 0 {
				continue
			}
			n := labelNumber(s, profile.LabelDraws)
			if t.Type == cpuType && count >= 0 {
				n = s.Value[count]
			}
			sum.add(s, n)
		}
		if sum.ns > 0 {
			states = append(states, sum.state(t.Type, top))
		}
	}
	return states, nil
}

func (g *stateSum) add(s *pprof.Sample, samples int64) {
	ns := s.Value[g.column]
	g.ns += ns
	g.samples += samples
	frames := profiledFrames(s)
	self := selfFrame(frames)
	f := g.functions[self]
	if f == nil {
		f = &profiledFunction{Name: self.Function, Mapping: self.Mapping}
		g.functions[self] = f
	}
	f.Ns += ns
	f.Samples += samples

	threads := label(s, profile.LabelThreadGroup)
	if g.single {
		threads = singleThread(label(s, profile.LabelThread), uint32(labelNumber(s, profile.LabelTid)))
	}
	reason := attribution.ReasonName(label(s, profile.LabelReason), label(s, profile.LabelObject), label(s, profile.LabelLimited) != "")
	names := stackNames(frames)
	key := strings.Join(append([]string{threads, reason}, names...), "\x00")
	st := g.stacks[key]
	if st == nil {
		st = &stackSum{profiledStack{Threads: threads, Reason: reason, Frames: names}, drawSums{}}
		g.stacks[key] = st
	}
	st.Ns += ns
	st.Samples += samples
	g.strata.add(st.draws, s, ns, samples)
}

func (g *stateSum) state(name string, top int) profiledState {
	out := profiledState{Type: name, Ns: g.ns, Samples: g.samples}
	for _, f := range g.functions {
		f.Share = float64(f.Ns) / float64(g.ns)
		out.Functions = append(out.Functions, *f)
	}
	slices.SortFunc(out.Functions, func(a, b profiledFunction) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Mapping, b.Mapping))
	})
	for _, s := range g.stacks {
		s.Share = float64(s.Ns) / float64(g.ns)
		if name != cpuType {
			s.PlusMinusNs, s.TooFew = g.strata.interval(s.draws)
		}
		out.Stacks = append(out.Stacks, s.profiledStack)
	}
	slices.SortFunc(out.Stacks, func(a, b profiledStack) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Reason, b.Reason), slices.Compare(a.Frames, b.Frames))
	})
	if top > 0 {
		out.Functions = out.Functions[:min(top, len(out.Functions))]
		out.Stacks = out.Stacks[:min(top, len(out.Stacks))]
	}
	if name != cpuType {
		out.Functions = nil // they would say the reasons again
	}
	return out
}

func label(s *pprof.Sample, key string) string {
	if v := s.Label[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

func labelNumber(s *pprof.Sample, key string) int64 {
	if v := s.NumLabel[key]; len(v) > 0 {
		return v[0]
	}
	return 0
}
