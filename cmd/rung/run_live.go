//go:build linux

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rungprof/rung/agent/cgroup"
	"github.com/rungprof/rung/campaign"
)

// liveStage starts real arms on this host.
type liveStage struct {
	plan *campaign.Plan
	// base is the plan's directory, which its paths are relative to; temp holds
	// the agent's socket; token is in the names of cgroups and containers.
	base, temp, token string
	roots             cgroup.Roots
	rootsErr          error
	warn              func(string)
}

// liveArm is one arm that was started, or that ran already.
type liveArm struct {
	stage   *liveStage
	ladder  *campaign.Ladder
	logDir  string
	address string

	child     *child // the arm, or the engine's client that runs its container
	container string // the container's name
	cgroups   *demoCgroups
	// group is the arm's cgroup below the v2 root, "" when it has none of its own.
	group string
	// pid is the arm's first process, 0 where it is not known.
	pid         int
	meter       cpuMeter
	meterAbsent string
	agent       *child // an embedded agent while a profiled step runs
}

func (s *liveStage) up(ctx context.Context, l *campaign.Ladder, logDir string) (standing, error) {
	a := &liveArm{stage: s, ladder: l, logDir: logDir, address: l.Setting.Arm.Address}
	if err := a.start(ctx); err != nil {
		a.down()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return a, nil
}

func (a *liveArm) start(ctx context.Context) error {
	arm := a.ladder.Setting.Arm
	ctx, cancel := context.WithTimeout(ctx, time.Duration(arm.Ready.Timeout))
	defer cancel()
	said := make(chan string, 1)
	runs := len(arm.Command) == 0 && arm.Container == nil
	if !runs && a.address != "" {
		if err := portFree(ctx, a.address); err != nil {
			return &upError{fmt.Errorf("arm %s: %w", arm.Name, err)}
		}
	}
	var err error
	switch {
	case len(arm.Command) > 0:
		err = a.startCommand(said)
	case arm.Container != nil:
		err = a.startContainer(said)
	}
	if err != nil {
		return err
	}
	if err := a.becomeReady(ctx, said, runs); err != nil {
		return &upError{fmt.Errorf("arm %s: %w%s", arm.Name, err, a.tail())}
	}
	a.find()
	return nil
}

// portTimeout is how long an arm's port may stay taken.
const portTimeout = 5 * time.Second

// portFree waits until nothing listens where an arm is to: what does would be
// driven in its place. The arm of a killed session was told to end, and may take
// a moment.
func portFree(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	for {
		who := listenersAt(address)
		if len(who) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s listens at %s already: end it, or give the arm another address", processTexts(who), address)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *liveArm) becomeReady(ctx context.Context, said <-chan string, runs bool) error {
	ready := a.ladder.Setting.Arm.Ready
	var gone <-chan struct{}
	if a.child != nil {
		gone = a.child.exited
	}
	if ready.Log != "" {
		select {
		case address := <-said:
			a.address = cmp.Or(a.address, address)
		case <-gone:
			return errors.New("it ended before it was ready")
		case <-ctx.Done():
			return fmt.Errorf("not ready within %s: no line of its output matches %q", ready.Timeout, ready.Log)
		}
		if a.address == "" {
			return fmt.Errorf("the group of %q matched nothing, so its address is not known", ready.Log)
		}
	}
	return waitReady(ctx, ready, a.address, runs, gone)
}

// tail is the end of the arm's log, for an error.
func (a *liveArm) tail() string {
	if a.child == nil {
		return ""
	}
	text := logTail(a.child.spec.log, 5)
	if text == "" {
		return "; it printed nothing"
	}
	return "; its last lines:\n" + text
}

func (a *liveArm) log() string { return filepath.Join(a.logDir, "arm.log") }

// watchLog hands on the first line that the ready pattern matches: its group, or
// "" where it has none.
func (a *liveArm) watchLog(said chan<- string) func(string, bool) {
	pattern := a.ladder.Setting.Arm.Ready.Log
	if pattern == "" {
		return nil
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil // the plan was checked
	}
	return func(line string, _ bool) {
		m := re.FindStringSubmatch(line)
		if m == nil {
			return
		}
		select {
		case said <- strings.Join(m[1:min(2, len(m))], ""):
		default:
		}
	}
}

func (a *liveArm) startCommand(said chan<- string) error {
	arm := a.ladder.Setting.Arm
	argv, dir, err := a.stage.program(arm)
	if err != nil {
		return err
	}
	place, err := a.makeCgroup(arm)
	if err != nil {
		return err
	}
	if len(place.dirs) > 0 {
		self, err := executable()
		if err != nil {
			return err
		}
		entered := []string{self, "enter"}
		for _, d := range place.dirs {
			entered = append(entered, "--cgroup", d)
		}
		argv = append(append(entered, "--"), argv...)
	}
	var env []string
	for k, v := range arm.Env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	a.child, err = startChild(childSpec{
		name: "arm " + arm.Name, argv: argv, env: env, dir: dir, log: a.log(), line: a.watchLog(said),
		stop: signalOf(arm.Stop.Signal), grace: time.Duration(arm.Stop.Grace),
	})
	if err != nil {
		var full *fullDiskError
		if errors.As(err, &full) {
			return err
		}
		return &upError{err}
	}
	a.pid = a.child.pid()
	return nil
}

// program is an arm's argument vector and directory. "rung" is this binary.
func (s *liveStage) program(arm campaign.Arm) (argv []string, dir string, err error) {
	dir = s.base
	if arm.Workdir != "" {
		dir = s.path(arm.Workdir)
	}
	argv = slices.Clone(arm.Command)
	switch {
	case argv[0] == "rung":
		argv[0], err = executable()
	case strings.Contains(argv[0], "/"):
		if !filepath.IsAbs(argv[0]) {
			argv[0] = filepath.Join(dir, argv[0])
		}
		_, err = exec.LookPath(argv[0])
	default:
		argv[0], err = exec.LookPath(argv[0])
	}
	if err != nil {
		return nil, "", fmt.Errorf("arm %s: no program %s: %w", arm.Name, arm.Command[0], err)
	}
	return argv, dir, nil
}

// path makes a path of the plan one of this process.
func (s *liveStage) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(s.base, p)
}

// makeCgroup makes the arm's cgroup. One that is not needed, for a quota or as a
// target, is made where that can be: its counters are the better ones.
func (a *liveArm) makeCgroup(arm campaign.Arm) (armCgroup, error) {
	needed := arm.QuotaCPUs > 0 || a.stage.plan.AgentOf(arm).Mode == campaign.AgentEmbedded && arm.Target == "cgroup"
	if a.stage.rootsErr != nil {
		if needed {
			return armCgroup{}, fmt.Errorf("arm %s needs a cgroup: %w", arm.Name, a.stage.rootsErr)
		}
		return armCgroup{}, nil
	}
	a.cgroups = &demoCgroups{mounts: a.stage.roots.Mounts, name: fmt.Sprintf("%s-%03d", a.stage.token, a.ladder.Ordinal)}
	place, err := a.cgroups.add(arm.Name, arm.QuotaCPUs)
	if err != nil && needed {
		return armCgroup{}, fmt.Errorf("arm %s needs a cgroup, for its quota or as the agent's target (leave quota out, or run as root): %w", arm.Name, err)
	}
	if err != nil {
		a.removeCgroup()
		return armCgroup{}, nil
	}
	a.group = place.path
	return place, nil
}

func (a *liveArm) removeCgroup() {
	if a.cgroups == nil {
		return
	}
	for _, dir := range a.cgroups.made {
		killCgroup(dir)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := a.cgroups.remove(ctx); err != nil {
		a.stage.warn(err.Error())
	}
	a.cgroups, a.group = nil, ""
}

// find learns who serves and how to read its CPU time.
func (a *liveArm) find() {
	if a.meter != nil {
		a.meter.close()
		a.meter, a.meterAbsent = nil, ""
	}
	arm := a.ladder.Setting.Arm
	if a.container != "" {
		a.pid = a.inspectPid()
	}
	kind, value, _ := strings.Cut(arm.Target, ":")
	if a.child == nil && a.container == "" {
		switch kind {
		case "cgroup":
			a.group = value
		case "pid":
			a.pid, _ = strconv.Atoi(value)
		default:
			a.pid = 0
			if who := listenersAt(a.address); len(who) == 1 {
				a.pid = who[0].Pid
			}
		}
	}
	if a.container != "" && a.pid > 0 && a.stage.rootsErr == nil {
		if group, err := a.stage.roots.GroupOf(a.pid); err == nil && group != "/" {
			a.group = group
		}
	}
	var err error
	switch {
	case a.group != "" && a.stage.rootsErr == nil:
		a.meter, err = newCgroupMeter(a.stage.roots, a.group)
	case a.pid > 0:
		a.meter, err = newClockMeter(a.pid)
	default:
		err = errors.New("neither the arm's cgroup nor its process is known on this host; give it a target")
	}
	if err != nil {
		a.meterAbsent = err.Error()
	}
}

func (a *liveArm) identity() campaign.Identity {
	var id campaign.Identity
	if a.container != "" {
		id.Container = a.inspectIdentity()
	} else if a.child.running() {
		if p, err := processOf(a.child.pid()); err == nil {
			id.Process = &p
		}
	}
	id.Listeners = listenersAt(a.address)
	return id
}

func (a *liveArm) ready(ctx context.Context) error {
	r := a.ladder.Setting.Arm.Ready
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.Timeout))
	defer cancel()
	var gone <-chan struct{}
	if a.child != nil {
		gone = a.child.exited
	}
	return waitReady(ctx, r, a.address, false, gone)
}

func (a *liveArm) gone() string {
	if a.child == nil || a.child.running() {
		return ""
	}
	return a.child.fate()
}

func (a *liveArm) down() {
	a.stopAgent()
	if a.meter != nil {
		a.meter.close()
		a.meter = nil
	}
	if a.container != "" {
		a.stopContainer()
	}
	a.child.end()
	a.removeCgroup()
}

func signalOf(name string) unix.Signal { return unix.SignalNum("SIG" + name) }

// killCgroup ends whatever is left in a cgroup of ours, whose processes are ours
// by what it is.
func killCgroup(dir string) {
	if err := writeCgroupFile(dir, "cgroup.kill", "1"); err == nil {
		return
	}
	for range 20 {
		data, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		pids := strings.Fields(string(data))
		if err != nil || len(pids) == 0 {
			return
		}
		for _, text := range pids {
			if pid, err := strconv.Atoi(text); err == nil && pid > 1 {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
}
