//go:build linux

package main

import (
	"cmp"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"github.com/rungprof/rung/attribution"
)

// stateOnCPU is the name of on-CPU time among the states of a profile; the others
// are attribution's.
const stateOnCPU = "on-cpu"

// profiledState is where time in one state went.
type profiledState struct {
	State string `json:"state"`
	Ns    int64  `json:"ns"`
	// IdleNs is left out of Ns: blocked time that an idle rule names.
	IdleNs int64 `json:"idleNs,omitempty"`
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
	// StderrThreads is the standard error off-CPU, in mean threads; 0: exact. Where
	// TooFew says why, there is none.
	StderrThreads *float64 `json:"stderrThreads,omitempty"`
	TooFew        string   `json:"tooFew,omitempty"`
	// Frames leaf first, inlined ones included. Kernel functions are left out
	// where the entry that they were called by is there; the profile has them.
	Frames []string `json:"frames"`
}

// stacksOptions say how stacks are put together.
type stacksOptions struct {
	top  int                // entries of each list, 0 for all
	idle *attribution.Rules // nil: nothing is idle
}

// profiledStates reads a profile into its states.
func profiledStates(p *pprof.Profile, o stacksOptions) ([]profiledState, error) {
	cpu, err := attribution.FromPprof(p, "cpu")
	if err != nil {
		return nil, err
	}
	off, err := attribution.OffCPUFromPprof(p)
	if err != nil {
		return nil, err
	}
	states := []profiledState{o.onCPU(cpu)}
	for _, state := range attribution.OffCPUStates {
		states = append(states, o.offCPU(off, state))
	}
	return slices.DeleteFunc(states, func(s profiledState) bool { return s.Ns == 0 && s.IdleNs == 0 }), nil
}

// onCPU sums ticks by function and by stack.
func (o stacksOptions) onCPU(cpu *attribution.Profile) profiledState {
	out := profiledState{State: stateOnCPU}
	functions := map[attribution.Frame]*profiledFunction{}
	stacks := map[string]*profiledStack{}
	for i := range cpu.Stacks {
		s := &cpu.Stacks[i]
		out.Ns += s.Value
		out.Samples += s.Count
		frames := foldFrames(s.Frames)
		self := selfFrame(frames)
		f := functions[self]
		if f == nil {
			f = &profiledFunction{Name: self.Function, Mapping: self.Mapping}
			functions[self] = f
		}
		f.Ns += s.Value
		f.Samples += s.Count

		threads := s.ThreadGroup
		shown := frameNames(entriesOnly(frames))
		key := threads + "\x00" + strings.Join(shown, "\x00")
		st := stacks[key]
		if st == nil {
			st = &profiledStack{Threads: threads, Frames: shown}
			stacks[key] = st
		}
		st.Ns += s.Value
		st.Samples += s.Count
	}
	for _, f := range functions {
		f.Share = float64(f.Ns) / float64(out.Ns)
		out.Functions = append(out.Functions, *f)
	}
	slices.SortFunc(out.Functions, func(a, b profiledFunction) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Mapping, b.Mapping))
	})
	for _, s := range stacks {
		out.Stacks = append(out.Stacks, *s)
	}
	out.Functions = cut(out.Functions, o.top)
	out.rank(o.top)
	return out
}

// offCPU ranks the stacks of one off-CPU state, those of each thread group for
// themselves. Draws are made thread by thread, so that a group's are whole.
func (o stacksOptions) offCPU(off *attribution.OffCPU, state string) profiledState {
	out := profiledState{State: state}
	groups := map[string]*attribution.OffCPU{}
	if o.idle != nil {
		for i := range off.Stacks {
			if off.Stacks[i].State == state {
				out.IdleNs += off.Stacks[i].Ns
			}
		}
		off = off.WithoutIdle(o.idle)
	}
	for _, s := range off.Stacks {
		if s.State != state {
			continue
		}
		out.Ns += s.Ns
		out.Samples += s.Draws
		threads := s.ThreadGroup
		if groups[threads] == nil {
			groups[threads] = &attribution.OffCPU{WindowNs: off.WindowNs}
		}
		s.Frames = entriesOnly(foldFrames(s.Frames))
		groups[threads].Stacks = append(groups[threads].Stacks, s)
	}
	if o.idle != nil {
		out.IdleNs -= out.Ns
	}
	for threads, g := range groups {
		for _, s := range attribution.TopStacks(g, state, 0) {
			out.Stacks = append(out.Stacks, profiledStack{
				Threads: threads, Reason: s.Reason, Ns: s.Ns, Samples: s.Draws,
				StderrThreads: s.StderrThreads, TooFew: s.TooFew, Frames: frameNames(s.Frames),
			})
		}
	}
	out.rank(o.top)
	return out
}

// rank orders the stacks, gives them their shares, and cuts the list.
func (s *profiledState) rank(top int) {
	slices.SortFunc(s.Stacks, func(a, b profiledStack) int {
		return cmp.Or(cmp.Compare(b.Ns, a.Ns), cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Reason, b.Reason), slices.Compare(a.Frames, b.Frames))
	})
	for i := range s.Stacks {
		s.Stacks[i].Share = float64(s.Stacks[i].Ns) / float64(s.Ns)
	}
	s.Stacks = cut(s.Stacks, top)
}

// cut is the head of a list; top 0 is all of it.
func cut[T any](list []T, top int) []T {
	if top > 0 {
		return list[:min(top, len(list))]
	}
	return list
}
