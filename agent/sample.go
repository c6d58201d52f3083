package agent

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/profile"
	"github.com/rungprof/rung/bpf"
)

// sample drains a window's samples and drawn off-CPU intervals, and makes its
// profile: a gzipped pprof, nil with a warning where there is none. It fills
// r.Sampling and r.Wakers and answers what the profile lost.
func (a *Agent) sample(w *window, r *rungv1.StepRecord, end bpf.MonoNs, threads []bpf.Thread) ([]byte, []*rungv1.Loss) {
	offCPU, err := a.kernel.OffCPU(w.slot, w.spec.ID)
	if err != nil {
		warn(r, "no off-CPU stacks: the drawn intervals could not be read: %v", err)
	}
	samples, err := a.kernel.Samples(w.slot, w.spec.ID)
	if err != nil {
		warn(r, "no profile: the samples could not be read: %v", err)
		return nil, nil
	}
	r.Sampling = a.sampling(samples, offCPU)
	comms := map[uint32]string{}
	for _, thread := range threads {
		comms[thread.Tid] = thread.Comm
	}
	in := profile.Input{
		Samples: samples, OffCPU: offCPU, Threads: threads, Stack: a.kernel.Stack, Comms: comms, Groups: a.config.Groups,
		Process: profile.Processes(a.symbols), Kernel: a.kernel, RateHz: a.config.Loaded.RateHz,
		Start: time.Unix(0, r.Window.StartWallUnixNs), Length: time.Duration(end - w.spec.Start),
	}
	r.Wakers = profile.Wakers(in, a.commReader())
	built, stats, err := profile.Build(in)
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

func (a *Agent) sampling(samples []bpf.Sample, offCPU []bpf.OffCPU) *rungv1.Sampling {
	m := &rungv1.Sampling{RateHz: a.config.Loaded.RateHz, PeriodNs: uint64(time.Second) / uint64(a.config.Loaded.RateHz)}
	stacks := map[uint64]bool{}
	for _, s := range samples {
		m.Samples += s.Count
		stacks[s.StackHash] = true
	}
	for _, row := range offCPU {
		m.OffCpuDraws += row.Samples
		stacks[row.StackHash] = true
	}
	delete(stacks, 0) // lost
	m.DistinctStacks = uint64(len(stacks))
	return m
}

// maxNamesRead bounds how many threads outside the target are asked for their names.
const maxNamesRead = 1024

// commReader gives the names of threads that a window's account does not hold,
// as they are now, from /proc: each is read once.
func (a *Agent) commReader() func(tgid, tid uint32) (string, bool) {
	type thread struct{ tgid, tid uint32 }
	known := map[thread]*string{} // nil: gone
	return func(tgid, tid uint32) (string, bool) {
		key := thread{tgid, tid}
		comm, ok := known[key]
		if !ok && len(known) < maxNamesRead {
			path := filepath.Join(a.config.Proc, strconv.Itoa(int(tgid)), "task", strconv.Itoa(int(tid)), "comm")
			if text, err := os.ReadFile(path); err == nil {
				name := strings.TrimSuffix(string(text), "\n")
				comm = &name
			}
			known[key] = comm
		}
		if comm == nil {
			return "", false
		}
		return *comm, true
	}
}
