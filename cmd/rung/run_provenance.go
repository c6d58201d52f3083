//go:build linux

package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/campaign"
	"github.com/rungprof/rung/rundir"
)

// inputs are digests of what is measured: executables, the files that commands
// name, bodies, images. An arm that cannot be found is an error here, before
// anything is started.
func (s *liveStage) inputs() (map[string]string, error) {
	in := map[string]string{}
	for _, a := range s.plan.Arms {
		switch {
		case len(a.Command) > 0:
			argv, dir, err := s.program(a)
			if err != nil {
				return nil, err
			}
			if err := s.addCommand(in, a, argv, dir); err != nil {
				return nil, err
			}
		case a.Container != nil:
			path, err := s.engineOf(a.Container)
			if err != nil {
				return nil, fmt.Errorf("arm %s: %w", a.Name, err)
			}
			if id := imageOf(path, a.Container.Args); id != "" {
				in["arm "+a.Name+" image"] = id
			}
		}
	}
	bodies := map[string]bool{s.plan.Load.BodyFile: true}
	for _, a := range s.plan.Arms {
		for _, set := range a.Load {
			bodies[bodyOf(set.Key, set.Value)] = true
		}
	}
	for _, axis := range s.plan.Sweep {
		for _, v := range axis.Values {
			bodies[bodyOf(axis.Key, v)] = true
		}
	}
	delete(bodies, "")
	for b := range bodies {
		digest, err := digestOf(s.path(b))
		if err != nil {
			return nil, fmt.Errorf("body_file: %w", err)
		}
		in["body "+b] = digest
	}
	return in, nil
}

func bodyOf(key, value string) string {
	if key == "body_file" {
		return value
	}
	return ""
}

// addCommand notes an arm's executable and the files among its arguments, such
// as the jar that a java runs.
func (s *liveStage) addCommand(in map[string]string, a campaign.Arm, argv []string, dir string) error {
	digest, err := digestOf(argv[0])
	if err != nil {
		return fmt.Errorf("arm %s: %w", a.Name, err)
	}
	in["arm "+a.Name+" executable "+a.Command[0]] = digest
	for _, arg := range argv[1:] {
		path := arg
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if fi, err := os.Stat(path); err == nil && fi.Mode().IsRegular() {
			digest, err := digestOf(path)
			if err != nil {
				return fmt.Errorf("arm %s: %w", a.Name, err)
			}
			in["arm "+a.Name+" file "+arg] = digest
		}
	}
	return nil
}

func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("digest of %s: %w", path, err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// lookTime is how long neighbours are watched before the first arm starts.
const lookTime = 500 * time.Millisecond

// hostNow is the host as the session finds it.
func hostNow(p rundir.Provenance) campaign.Host {
	h := campaign.Host{
		Rung: p.Rung, Args: p.Args, Go: p.Go, Hostname: p.Hostname, BootID: p.BootID, Kernel: p.Kernel,
		Cmdline: kernelFlags(lineOf("/proc/cmdline")), Arch: p.Arch, CPUModel: p.CPUModel, CPUs: p.CPUs, Governor: p.Governor,
		Clock: clockState(), Neighbours: neighbours(lookTime),
	}
	if self, err := executable(); err == nil {
		h.RungSHA, _ = digestOf(self)
	}
	if roots, err := cgroup.Detect("/proc"); err == nil {
		if group, err := roots.GroupOf(os.Getpid()); err == nil {
			if r, err := cgroup.Open(roots, group, monotonicNs); err == nil {
				if q, ok := r.Quota(); ok {
					h.QuotaCPUs = q.CPUs()
				}
				r.Close()
			}
		}
	}
	return h
}

// tuningFlags are the kernel's boot parameters that move CPU time or latency.
var tuningFlags = []string{"mitigations", "isolcpus", "nohz", "nohz_full", "rcu_nocbs", "nosmt", "maxcpus", "idle", "processor.max_cstate",
	"intel_idle.max_cstate", "intel_pstate", "amd_pstate", "cpuidle.off", "lockdown", "preempt", "transparent_hugepage", "hugepages", "tsc", "clocksource"}

// kernelFlags keeps those of a kernel's command line; the rest is nobody's business.
func kernelFlags(line string) string {
	var kept []string
	for _, f := range strings.Fields(line) {
		if name, _, _ := strings.Cut(f, "="); slices.Contains(tuningFlags, name) {
			kept = append(kept, f)
		}
	}
	return strings.Join(kept, " ")
}

// hostWarnings say what about the host weakens the figures.
func hostWarnings(h campaign.Host) []string {
	var w []string
	if h.Governor != "" && h.Governor != "performance" {
		w = append(w, fmt.Sprintf("the CPUs' governor is %s: cost per request moves with the clock's rate (cpupower frequency-set -g performance)", h.Governor))
	}
	if n := h.Neighbours; n != nil && n.BusyCPUs+n.StealCPUs > 0.1 {
		text := fmt.Sprintf("before the first arm started, %.2f CPUs were busy", n.BusyCPUs)
		if n.StealCPUs >= 0.01 {
			text += fmt.Sprintf(" and %.2f taken by the hypervisor", n.StealCPUs)
		}
		var names []string
		for _, p := range n.Top {
			names = append(names, fmt.Sprintf("%s (%d) %.2f", p.Comm, p.Pid, p.CPUs))
		}
		if len(names) > 0 {
			text += ": " + strings.Join(names, ", ")
		}
		w = append(w, text)
	}
	if h.CPUs == 1 {
		w = append(w, "one CPU: the driver and the arm take it from each other")
	}
	return w
}

func clockState() *campaign.Clock {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return nil
	}
	offset := int64(t.Offset)
	if t.Status&unix.STA_NANO == 0 {
		offset *= 1000
	}
	return &campaign.Clock{
		Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0,
		OffsetNs:     offset, MaxErrorUs: int64(t.Maxerror),
	}
}

// maxNeighbours are named at most, and those above minNeighbour CPUs.
const (
	maxNeighbours = 5
	minNeighbour  = 0.01
)

// neighbours watches all processes but this one for a moment. nil where /proc
// does not tell.
func neighbours(d time.Duration) *campaign.Neighbours {
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return nil
	}
	before, errA := fs.Stat()
	was := processTimes(fs)
	began := time.Now()
	time.Sleep(d)
	after, errB := fs.Stat()
	seconds := time.Since(began).Seconds()
	if errA != nil || errB != nil {
		return nil
	}
	a, b := before.CPUTotal, after.CPUTotal
	n := &campaign.Neighbours{
		Seconds:   seconds,
		BusyCPUs:  max(0, (b.User+b.Nice+b.System+b.IRQ+b.SoftIRQ-a.User-a.Nice-a.System-a.IRQ-a.SoftIRQ)/seconds),
		StealCPUs: max(0, (b.Steal-a.Steal)/seconds),
	}
	for id, now := range processTimes(fs) {
		cpus := (now.seconds - was[id].seconds) / seconds
		if id.Pid != os.Getpid() && cpus >= minNeighbour {
			n.Top = append(n.Top, campaign.Neighbour{Pid: id.Pid, Comm: now.comm, CPUs: cpus})
		}
	}
	slices.SortFunc(n.Top, func(a, b campaign.Neighbour) int {
		return cmp.Or(cmp.Compare(b.CPUs, a.CPUs), cmp.Compare(a.Pid, b.Pid))
	})
	n.Top = n.Top[:min(len(n.Top), maxNeighbours)]
	return n
}

type processTime struct {
	comm    string
	seconds float64
}

func processTimes(fs procfs.FS) map[campaign.Process]processTime {
	out := map[campaign.Process]processTime{}
	all, err := fs.AllProcs()
	if err != nil {
		return out
	}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil {
			out[campaign.Process{Pid: p.PID, Start: stat.Starttime}] = processTime{stat.Comm, stat.CPUTime()}
		}
	}
	return out
}

// clearAway ends what a killed session left: the processes in its cgroups, which
// are its own, the cgroups, its containers.
func (s *liveStage) clearAway(dead campaign.Session) {
	if dead.Cgroup == "" || !strings.HasPrefix(dead.Cgroup, "rung-run-") {
		return
	}
	if s.rootsErr == nil {
		for _, mount := range []string{s.roots.V2, s.roots.V1["cpu"], s.roots.V1["cpuacct"]} {
			if mount == "" {
				continue
			}
			parents, _ := filepath.Glob(filepath.Join(mount, dead.Cgroup+"-*"))
			for _, parent := range parents {
				arms, _ := filepath.Glob(filepath.Join(parent, "*", "cgroup.procs"))
				for _, procs := range arms {
					killCgroup(filepath.Dir(procs))
					removeCgroupDir(filepath.Dir(procs))
				}
				removeCgroupDir(parent)
			}
		}
	}
	for _, a := range s.plan.Arms {
		if a.Container == nil {
			continue
		}
		if path, err := s.engineOf(a.Container); err == nil {
			removeContainers(path, dead.Cgroup)
		}
	}
}

// removeCgroupDir waits for a moment: a cgroup is busy until its last process was
// reaped.
func removeCgroupDir(dir string) {
	for range 100 {
		if err := os.Remove(dir); err == nil || errors.Is(err, fs.ErrNotExist) || !errors.Is(err, unix.EBUSY) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
