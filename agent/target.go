package agent

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	rungv1 "github.com/rungprof/rung/api/rung/v1"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/bpf"
)

// Target names a cgroup with all its descendants, or a process with all its
// descendants.
type Target struct {
	Name string
	// Cgroup is relative to the root of the v2 hierarchy; empty for a process tree.
	Cgroup string
	// Pid is the root of a process tree; 0 for a cgroup.
	Pid uint32
}

// ParseTarget reads NAME=cgroup:/path/below/v2/root or NAME=pid:N.
func ParseTarget(text string) (Target, error) {
	name, selector, ok := strings.Cut(text, "=")
	kind, value, okKind := strings.Cut(selector, ":")
	if !ok || !okKind {
		return Target{}, fmt.Errorf("target %q: write NAME=cgroup:/path or NAME=pid:N", text)
	}
	target := Target{Name: name}
	switch kind {
	case "cgroup":
		target.Cgroup = value
	case "pid":
		pid, err := strconv.ParseUint(value, 10, 31)
		if err != nil || pid == 0 {
			return Target{}, fmt.Errorf("target %q: %q is not a process id", text, value)
		}
		target.Pid = uint32(pid)
	default:
		return Target{}, fmt.Errorf("target %q: %q is neither cgroup nor pid", text, kind)
	}
	return target, target.Validate()
}

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,127}$`)

// Validate checks the form, not whether the target exists.
func (t Target) Validate() error {
	if !nameForm.MatchString(t.Name) {
		return fmt.Errorf("target name %q: use up to 128 letters, digits, and . _ / -, beginning with a letter or digit", t.Name)
	}
	if (t.Cgroup == "") == (t.Pid == 0) {
		return fmt.Errorf("target %s: name either a cgroup or a process id", t.Name)
	}
	if t.Cgroup != "" {
		if err := cgroup.CheckPath(t.Cgroup); err != nil {
			return fmt.Errorf("target %s: %w", t.Name, err)
		}
	}
	return nil
}

// String is the form that [ParseTarget] reads.
func (t Target) String() string {
	if t.Cgroup != "" {
		return t.Name + "=cgroup:" + t.Cgroup
	}
	return fmt.Sprintf("%s=pid:%d", t.Name, t.Pid)
}

// disjoint refuses two targets that would share threads: the kernel side gives
// each thread to one of them.
func disjoint(a, b Target) error {
	switch {
	case a.Name == b.Name:
		return fmt.Errorf("target %s is named twice", a.Name)
	case a.Pid != 0 && a.Pid == b.Pid:
		return fmt.Errorf("targets %s and %s are the same process %d", a.Name, b.Name, a.Pid)
	case a.Cgroup != "" && a.Cgroup == b.Cgroup:
		return fmt.Errorf("targets %s and %s are the same cgroup %s", a.Name, b.Name, a.Cgroup)
	case a.Cgroup != "" && b.Cgroup != "" && cgroup.Within(a.Cgroup, b.Cgroup):
		return fmt.Errorf("target %s (%s) lies within target %s (%s): a thread is accounted to one target only; name the outer one, or each inner one", b.Name, b.Cgroup, a.Name, a.Cgroup)
	case a.Cgroup != "" && b.Cgroup != "" && cgroup.Within(b.Cgroup, a.Cgroup):
		return disjoint(b, a)
	}
	return nil
}

// target is a Target with its place in the kernel side. Guarded by Agent.mu.
type target struct {
	Target
	unavailable string // why it cannot be profiled now, empty if it can
	// identity is the cgroup's v2 id or the process's start time: what tells the
	// target from a later one of the same name.
	identity uint64
	added    bool // slot is valid
	slot     bpf.Slot
	lastID   uint32    // of the last window armed on slot
	windows  []*window // not yet drained, oldest first, at most two
}

// identify looks the target up now. It is called without Agent.mu too.
func (a *Agent) identify(t Target) (uint64, error) {
	if t.Cgroup != "" {
		return a.roots.ID(t.Cgroup)
	}
	stat, err := a.stat(int(t.Pid))
	if err != nil {
		return 0, fmt.Errorf("process %d: %w", t.Pid, err)
	}
	return stat.Starttime, nil
}

// resolve brings a target's place in the kernel side up to date: one that
// exists is added, one that was replaced by another of the same name is added
// anew, and what stands in the way becomes t.unavailable. A target with
// undrained windows keeps its place.
func (a *Agent) resolve(t *target) {
	if a.ctx.Err() != nil {
		t.unavailable = "the agent is stopping"
		return
	}
	identity, err := a.identify(t.Target)
	if err == nil && t.added && identity == t.identity {
		t.unavailable = ""
		return
	}
	if len(t.windows) > 0 {
		if err == nil {
			err = fmt.Errorf("target %s was replaced by another of the same name while its last window is still read", t.Name)
		}
		t.unavailable = err.Error()
		return
	}
	if t.added {
		if err := a.kernel.Remove(t.slot); err != nil {
			a.log.Warn("remove target", "target", t.Name, "error", err)
		}
		t.added = false
	}
	if err == nil {
		err = a.apart(t)
	}
	if err == nil {
		if t.Cgroup != "" {
			t.slot, err = a.kernel.AddCgroup(identity)
		} else {
			t.slot, err = a.kernel.AddTree(t.Pid)
		}
	}
	if err != nil {
		t.unavailable = err.Error()
		return
	}
	t.unavailable, t.added, t.identity, t.lastID = "", true, identity, 0
	a.log.Info("target added", "target", t.String(), "identity", identity)
}

// apart refuses a target that shares processes with another one that is in
// place. Paths were compared by [Config.Validate]; here processes are, as they
// stand: a process that moves later goes to the target it is in then.
func (a *Agent) apart(t *target) error {
	own, err := a.processes(t.Target)
	if err != nil {
		return err
	}
	mine := map[int]bool{}
	for _, pid := range own {
		mine[pid] = true
	}
	for _, other := range a.targets {
		if other == t || !other.added || (t.Cgroup != "" && other.Cgroup != "") {
			continue
		}
		theirs, err := a.processes(other.Target)
		if err != nil {
			continue // vanished: shares nothing
		}
		for _, pid := range theirs {
			if mine[pid] {
				return fmt.Errorf("targets %s and %s share process %d: a thread is accounted to one target only", t.Name, other.Name, pid)
			}
		}
	}
	return nil
}

// message is the target as the API names it.
func (t *target) message() *rungv1.Target {
	m := &rungv1.Target{Name: t.Name, Unavailable: t.unavailable}
	if t.Cgroup != "" {
		m.Selector = &rungv1.Target_Cgroup{Cgroup: t.Cgroup}
		m.CgroupId = t.identity
	} else {
		m.Selector = &rungv1.Target_Pid{Pid: t.Pid}
	}
	return m
}
