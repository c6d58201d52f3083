package campaign

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

var armName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$`)

// validate gives the first fault with the path of the value that has it.
func (p *Plan) validate(known Known) (path string, err error) {
	if len(p.Arms) == 0 {
		return "arms", fmt.Errorf("no arm; name at least one under arms, with a command, a container or an address")
	}
	names := make([]string, len(p.Arms))
	for i := range p.Arms {
		at := fmt.Sprintf("arms[%d]", i)
		names[i] = p.Arms[i].Name
		if slices.Contains(names[:i], names[i]) {
			return at + ".name", fmt.Errorf("two arms of the name %s", names[i])
		}
		if key, err := p.validateArm(&p.Arms[i]); err != nil {
			return join(at, key), err
		}
	}
	for i, name := range p.AA {
		if !slices.Contains(names, name) {
			return fmt.Sprintf("aa[%d]", i), fmt.Errorf("aa: no arm %q; the arms are %s", name, strings.Join(names, ", "))
		}
		if slices.Contains(p.AA[:i], name) {
			return fmt.Sprintf("aa[%d]", i), fmt.Errorf("aa names %s twice", name)
		}
	}
	if p.Agent.Mode == AgentEmbedded && p.Agent.RateHz == 0 {
		p.Agent.RateHz = DefaultRateHz
	}
	if p.Agent.Mode != AgentEmbedded && p.Agent.RateHz != 0 {
		return "agent.rate", fmt.Errorf("agent.rate is for the embedded agent; another samples as it was started")
	}
	if p.Agent.Mode == AgentNone && !slices.ContainsFunc(p.Arms, func(a Arm) bool { return a.Agent != "" }) {
		if !p.Ladder.Control.None() {
			return "ladder.control_steps", fmt.Errorf("control_steps need an agent: without one no step is profiled")
		}
		p.Ladder.Profile = Choice{}
	}
	if key, err := p.Ladder.validate(); err != nil {
		return join("ladder", key), err
	}
	swept := func(key string) bool { return slices.ContainsFunc(p.Sweep, func(a Axis) bool { return a.Key == key }) }
	if swept("step") && swept("iterations_per_slot") {
		return "sweep", fmt.Errorf("sweep has step and iterations_per_slot, which both say when a step ends; give one")
	}
	return p.validatePoints(known)
}

func (p *Plan) validateArm(a *Arm) (key string, err error) {
	if !armName.MatchString(a.Name) {
		return "name", fmt.Errorf("name %q: want 1 to 40 letters, digits, and . _ -, beginning with a letter or digit", a.Name)
	}
	running := len(a.Command) == 0 && a.Container == nil
	switch {
	case len(a.Command) > 0 && a.Container != nil:
		return "container", fmt.Errorf("arm %s has a command and a container; give one", a.Name)
	case a.Container != nil && len(a.Container.Args) == 0:
		return "container", fmt.Errorf("container.run is missing: the arguments of %s run, the image among them", a.Container.Engine)
	case running && a.Address == "":
		return "name", fmt.Errorf("arm %s has neither command nor container nor address; give the address of what runs already, or how to start it", a.Name)
	case len(a.Command) == 0 && a.QuotaCPUs > 0:
		return "quota", fmt.Errorf("quota is for a command; give a container its own (run: [--cpus, …]), and an address none")
	case running && (len(a.Env) > 0 || a.Workdir != ""):
		return "name", fmt.Errorf("arm %s runs already: env and workdir have no effect on it", a.Name)
	case a.Container != nil && len(a.Env) > 0:
		return "env", fmt.Errorf("env is for a command; give a container its own (run: [-e, NAME=value, …])")
	}
	if a.Address != "" && !strings.Contains(a.Address, "${") {
		if err := checkAddress(a.Address); err != nil {
			return "address", err
		}
	}
	r := &a.Ready
	switch {
	case r.Log != "" && running:
		return "ready.log", fmt.Errorf("ready.log needs an arm that the campaign starts; use tcp, http or grpc")
	case a.Address == "" && (r.Log == "" || !strings.Contains(r.Log, "(")):
		return "name", fmt.Errorf("arm %s has no address; give one, or ready.log with a group that matches it, as in 'ready on (\\S+)'", a.Name)
	case r.Status != 0 && r.HTTP == "":
		return "ready.status", fmt.Errorf("ready.status goes with ready.http")
	}
	if r.HTTP != "" && r.Status == 0 {
		r.Status = 200
	}
	if _, err := url.Parse(r.HTTP); err != nil {
		return "ready.http", fmt.Errorf("ready.http: %w", err)
	}
	if !r.TCP && r.HTTP == "" && !r.GRPCSet && r.Log == "" {
		r.TCP = true
	}
	return p.validateTarget(a, running)
}

func (p *Plan) validateTarget(a *Arm, running bool) (key string, err error) {
	kind, _, _ := strings.Cut(a.Target, ":")
	embedded := p.Agent.Mode == AgentEmbedded && a.Agent == ""
	switch {
	case !embedded:
		if a.Target == "" {
			a.Target = a.Name
		}
		if p.Agent.Mode == AgentNone && a.Agent == "" {
			a.Target = ""
		}
	case running && kind != "cgroup" && kind != "pid":
		return "target", fmt.Errorf("arm %s runs already: the embedded agent needs its target, as in cgroup:/system.slice/x.service or pid:4711", a.Name)
	case running:
	case a.Target == "":
		a.Target = "cgroup"
	case a.Target != "cgroup" && a.Target != "pid":
		return "target", fmt.Errorf("target %q: want cgroup or pid; which one, the campaign knows since it starts the arm", a.Target)
	}
	return p.validateAlso(a, embedded)
}

func (p *Plan) validateAlso(a *Arm, embedded bool) (key string, err error) {
	for i := range a.Also {
		o, at := &a.Also[i], fmt.Sprintf("also[%d]", i)
		kind, _, _ := strings.Cut(o.Target, ":")
		switch {
		case !armName.MatchString(o.Name):
			return at, fmt.Errorf("name %q: want 1 to 40 letters, digits, and . _ -, beginning with a letter or digit", o.Name)
		case o.Name == a.Name || slices.ContainsFunc(a.Also[:i], func(b Also) bool { return b.Name == o.Name }):
			return at, fmt.Errorf("two targets of the name %s", o.Name)
		case p.AgentOf(*a).Mode == AgentNone:
			return at, fmt.Errorf("%s: the arm has no agent of its own, beside which another target could be measured", o.Name)
		case o.Agent == "" && embedded && kind != "cgroup" && kind != "pid":
			return at, fmt.Errorf("%s: the embedded agent needs its target, as in cgroup:/system.slice/x.service or pid:4711", o.Name)
		case o.Agent != "" && !strings.HasPrefix(o.Agent, "unix://") && !strings.Contains(o.Agent, ":"):
			return at, fmt.Errorf("%s: agent %q: want unix:///PATH or HOST:PORT", o.Name, o.Agent)
		case o.Target == "":
			o.Target = o.Name
		}
	}
	return "", nil
}

func checkAddress(address string) error {
	i := strings.LastIndexByte(address, ':')
	if i < 1 || i == len(address)-1 || strings.ContainsAny(address, "/ \t") || address[i+1:] == "0" {
		return fmt.Errorf("address %q: want HOST:PORT, as in 127.0.0.1:8080", address)
	}
	return nil
}

func checkLogPattern(pattern string) error {
	if _, err := regexp.Compile(pattern); err != nil {
		return fmt.Errorf("%q: %w", pattern, err)
	}
	return nil
}

func (s *Spec) validate() (key string, err error) {
	switch {
	case len(s.RatesHz) == 0 && s.Knee == nil:
		return "", fmt.Errorf("ladder has no steps; give rates, as in 400:4800:400, or knee: {start: 400}")
	case len(s.RatesHz) > 0 && s.Knee != nil:
		return "knee", fmt.Errorf("ladder has rates and a knee search; give one")
	case len(s.RatesHz) > maxSteps:
		return "rates", fmt.Errorf("%d steps; %d at most", len(s.RatesHz), maxSteps)
	}
	if k := s.Knee; k != nil {
		if k.StartHz == 0 {
			return "knee", fmt.Errorf("knee.start is missing: the first rate of the search, requests per second")
		}
		if k.MaxHz < k.StartHz {
			return "knee.max", fmt.Errorf("knee.max %g lies below knee.start %g", k.MaxHz, k.StartHz)
		}
	}
	w := s.Warmup
	switch {
	case w.Adaptive && w.Fixed > 0:
		return "warmup", fmt.Errorf("warmup has a fixed time and is adaptive; give one")
	case w.Adaptive && w.Max < w.Over:
		return "warmup.adaptive", fmt.Errorf("at most %d probes cannot be flat over %d", w.Max, w.Over)
	}
	return "", nil
}

// validatePoints makes every ladder's settings, so that a bad one is found before
// the first arm is started.
func (p *Plan) validatePoints(known Known) (path string, err error) {
	points := p.points()
	if n := len(points) * (len(p.Arms) + len(p.AA)) * p.Repeats; n > maxLadders {
		return "sweep", fmt.Errorf("%d ladders; %d at most", n, maxLadders)
	}
	for _, point := range points {
		for i, a := range p.Arms {
			e, err := p.effective(a, point, known)
			at := fmt.Sprintf("arms[%d]", i)
			if err == nil {
				err = e.validate()
			}
			if err == nil {
				continue
			}
			if len(point) > 0 {
				return "sweep", fmt.Errorf("arm %s at %s: %w", a.Name, SweepText(point), err)
			}
			return at, fmt.Errorf("arm %s: %w", a.Name, err)
		}
	}
	return "", nil
}

func (e *Effective) validate() error {
	s, l := e.Spec, e.Load
	if l.Protocol == "" {
		return fmt.Errorf("no protocol; give one under load, of the plan or of the arm")
	}
	if e.Arm.Address != "" {
		if err := checkAddress(e.Arm.Address); err != nil {
			return err
		}
	}
	for _, t := range append(append(slices.Clone(e.Arm.Command), e.Arm.Ready.Log), containerArgs(e.Arm)...) {
		if i := strings.Index(t, "${"); i >= 0 {
			name, _, _ := strings.Cut(t[i+2:], "}")
			return fmt.Errorf("${%s} is not set; a sweep sets it: var.%s: [...]", name, name)
		}
	}
	for _, d := range []struct {
		name string
		v    Duration
	}{{"step", s.Step}, {"warmup", s.Warmup.Fixed}, {"warmup.adaptive.probe", s.Warmup.Probe}} {
		if d.v > 0 && d.v <= s.Settle {
			return fmt.Errorf("%s %s is not longer than settle %s, so nothing of it would be measured", d.name, d.v, s.Settle)
		}
	}
	if s.Rewarm != nil && s.Rewarm.For <= s.Settle {
		return fmt.Errorf("rewarm.for %s is not longer than settle %s", s.Rewarm.For, s.Settle)
	}
	for _, hz := range append(slices.Clone(s.RatesHz), s.startHz()) {
		length, requests := e.length(hz)
		switch {
		case length > Duration(24*time.Hour):
			return fmt.Errorf("at %g/s a step of %d requests takes longer than 24h", hz, requests)
		case hz*float64(length-s.Settle)/1e9 < 2 && requests > 0:
			return fmt.Errorf("at %g/s a step of %d requests, %d for each of %d slots, has fewer than two after settle %s", hz, requests, s.IterationsPerSlot, e.Slots, s.Settle)
		case hz*float64(length-s.Settle)/1e9 < 2:
			return fmt.Errorf("at %g/s a step of %s with settle %s has fewer than two requests", hz, length, s.Settle)
		}
	}
	return nil
}

func containerArgs(a Arm) []string {
	if a.Container == nil {
		return nil
	}
	return a.Container.Args
}

// startHz is the first rate of a ladder.
func (s *Spec) startHz() float64 {
	if s.Knee != nil {
		return s.Knee.StartHz
	}
	return s.RatesHz[0]
}
