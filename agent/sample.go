package agent

import (
	"bytes"
	"errors"
	"time"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/agent/symbol"
	"github.com/rungprof/rung/bpf"
)

// sample drains a window's samples and makes its profile: a gzipped pprof, nil
// with a warning where there is none. It fills r.Sampling and answers what the
// profile lost, in ticks.
func (a *Agent) sample(w *window, r *rungv1.StepRecord, end bpf.MonoNs) ([]byte, []*rungv1.Loss) {
	samples, err := a.kernel.Samples(w.slot, w.spec.ID)
	if err != nil {
		warn(r, "no profile: the samples could not be read: %v", err)
		return nil, nil
	}
	stacks := map[uint64]bool{}
	r.Sampling = &rungv1.Sampling{RateHz: a.config.RateHz, PeriodNs: uint64(time.Second) / uint64(a.config.RateHz)}
	for _, s := range samples {
		r.Sampling.Samples += s.Count
		if s.StackHash != 0 && !stacks[s.StackHash] {
			stacks[s.StackHash] = true
			r.Sampling.DistinctStacks++
		}
	}
	comms := map[uint32]string{}
	for _, thread := range r.Threads {
		comms[thread.Tid] = thread.Comm
	}
	built, stats, err := profile.Build(profile.Input{
		Samples: samples, Stack: a.kernel.Stack, Comms: comms,
		Process: profile.Processes(a.symbols), Kernel: a.kernel, RateHz: a.config.RateHz,
		Start: time.Unix(0, r.Window.StartWallUnixNs), Length: time.Duration(end - w.spec.Start),
	})
	var packed bytes.Buffer
	if err == nil {
		err = built.Write(&packed)
	}
	if err != nil {
		warn(r, "no profile: %v", err)
		return nil, nil
	}
	r.Sampling.ProfileBytes = uint64(packed.Len())
	return packed.Bytes(), profileLosses(stats)
}

// remember reads the mappings of the target's processes, so that addresses of
// those that exit within the window can be named all the same.
func (a *Agent) remember(t Target) {
	pids, err := a.processes(t)
	if err != nil {
		return // the window tells that the target is gone
	}
	for _, pid := range pids {
		if _, err := a.symbols.Process(uint32(pid)); errors.Is(err, symbol.ErrClosed) {
			return
		}
	}
}
