package campaign

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Effective is one ladder's settings, after arm and sweep had their say.
type Effective struct {
	Load Load `json:"load"`
	Spec Spec `json:"ladder"`
	// Arm is the arm as this ladder starts it.
	Arm Arm `json:"arm"`
	// Slots is the driver's cap of requests in flight; 0 where no step is bounded
	// by count.
	Slots int `json:"slots,omitempty"`
}

// loadSetters read the parameters of a load from text.
func loadSetters(l *Load, known Known) map[string]func(string) error {
	return map[string]func(string) error{
		"protocol":        parseOneOf(&l.Protocol, known.Protocols...),
		"path":            parseText(&l.Path),
		"method":          parseText(&l.Method),
		"content_type":    parseText(&l.ContentType),
		"body":            func(text string) error { l.BodyFile = ""; return parseOneOf(&l.Body, known.Bodies...)(text) },
		"body_file":       parseText(&l.BodyFile),
		"reply_length":    parseInt(0, 1<<30, &l.ReplyLength),
		"connections":     parseInt(1, 10_000, &l.Connections),
		"streams":         parseInt(1, 10_000, &l.Streams),
		"in_flight":       parseInt(1, 100_000, &l.InFlight),
		"timeout":         parseDuration(time.Millisecond, 5*time.Minute, &l.Timeout),
		"drain":           parseDuration(0, 5*time.Minute, &l.Drain),
		"connect_timeout": parseDuration(time.Millisecond, time.Minute, &l.ConnectTimeout),
		"max_lateness":    parseDuration(0, time.Hour, &l.MaxLateness),
		"arrivals": func(text string) error {
			var kind string
			err := parseOneOf(&kind, "even", "poisson")(text)
			l.Poisson = kind == "poisson"
			return err
		},
		"flags": func(text string) error { l.Flags = append(slices.Clip(l.Flags), text); return nil },
	}
}

// loadKeys are the parameters of a load, in the order in which they are shown.
func loadKeys() []string {
	return []string{"protocol", "path", "method", "content_type", "body", "body_file", "reply_length", "connections",
		"streams", "in_flight", "timeout", "drain", "connect_timeout", "max_lateness", "arrivals", "flags"}
}

func (l *Load) set(s Setting, known Known) error {
	set := loadSetters(l, known)[s.Key]
	if set == nil {
		return fmt.Errorf("%s: no such parameter of a load", s.Key)
	}
	return set(s.Value)
}

// Parameters that a sweep can set beside those of a load.
const (
	envPrefix = "env." // a variable of the arm's environment
	varPrefix = "var." // ${NAME} in the arm's command, container, environment and address
)

var specKeys = []string{"quota", "step", "iterations_per_slot", "settle"}

func sweepable() string {
	keys := slices.DeleteFunc(loadKeys(), func(k string) bool { return k == "flags" })
	return strings.Join(append(keys, append(slices.Clone(specKeys), "env.NAME", "var.NAME")...), ", ")
}

func checkSweepKey(name string) error {
	for _, prefix := range []string{envPrefix, varPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			if rest == "" || strings.ContainsAny(rest, "=${} \x00") {
				return fmt.Errorf("%q: want %sNAME", name, prefix)
			}
			return nil
		}
	}
	if name == "flags" || !slices.Contains(loadKeys(), name) && !slices.Contains(specKeys, name) {
		return fmt.Errorf("unknown parameter %q%s; allowed in sweep: %s", name,
			strings.TrimSuffix(didYouMean(name, append(loadKeys(), specKeys...)), "?"), sweepable())
	}
	return nil
}

// checkSetting says whether a value can be one of its parameter.
func checkSetting(s Setting, known Known) error {
	e := Effective{}
	return e.set(s, known)
}

// set applies one setting.
func (e *Effective) set(s Setting, known Known) error {
	if name, ok := strings.CutPrefix(s.Key, envPrefix); ok {
		env := map[string]string{name: s.Value}
		for k, v := range e.Arm.Env {
			if k != name {
				env[k] = v
			}
		}
		e.Arm.Env = env
		return nil
	}
	if name, ok := strings.CutPrefix(s.Key, varPrefix); ok {
		e.Arm = e.Arm.substitute("${"+name+"}", s.Value)
		return nil
	}
	switch s.Key {
	case "quota":
		return parseFloat(0.01, 4096, "CPUs", &e.Arm.QuotaCPUs)(s.Value)
	case "step":
		e.Spec.IterationsPerSlot = 0
		return parseDuration(100*time.Millisecond, 24*time.Hour, &e.Spec.Step)(s.Value)
	case "iterations_per_slot":
		e.Spec.Step = 0
		return parseInt(1, maxIterations, &e.Spec.IterationsPerSlot)(s.Value)
	case "settle":
		return parseDuration(0, time.Hour, &e.Spec.Settle)(s.Value)
	}
	return e.Load.set(s, known)
}

// substitute puts a value in a variable's place. The arm given is not changed.
func (a Arm) substitute(variable, value string) Arm {
	in := func(text string) string { return strings.ReplaceAll(text, variable, value) }
	all := func(texts []string) []string {
		out := slices.Clone(texts)
		for i := range out {
			out[i] = in(out[i])
		}
		return out
	}
	a.Command, a.Address, a.Workdir = all(a.Command), in(a.Address), in(a.Workdir)
	a.Ready.HTTP, a.Ready.Log = in(a.Ready.HTTP), in(a.Ready.Log)
	a.Also = slices.Clone(a.Also)
	for i := range a.Also {
		a.Also[i].Agent, a.Also[i].Target = in(a.Also[i].Agent), in(a.Also[i].Target)
	}
	if a.Container != nil {
		a.Container = &Container{Engine: a.Container.Engine, Args: all(a.Container.Args)}
	}
	if a.Env != nil {
		env := map[string]string{}
		for k, v := range a.Env {
			env[k] = in(v)
		}
		a.Env = env
	}
	return a
}

// effective is what an arm's ladder at a point of the sweep runs with.
func (p *Plan) effective(a Arm, point []Setting, known Known) (Effective, error) {
	e := Effective{Load: p.Load, Spec: p.Ladder, Arm: a}
	for _, s := range append(slices.Clone(a.Load), point...) {
		if err := e.set(s, known); err != nil {
			return e, fmt.Errorf("%s %w", s.Key, err)
		}
	}
	if e.Spec.IterationsPerSlot > 0 {
		if known.Slots == nil {
			return e, errors.New("iterations_per_slot: the number of slots is not known")
		}
		var err error
		if e.Slots, err = known.Slots(e.Load); err != nil {
			return e, err
		}
	}
	if p.AgentOf(a).Mode == AgentNone {
		e.Spec.Profile, e.Spec.Control = Choice{}, Choice{}
	}
	return e, nil
}

// length is how long a step at a rate takes, and after how many requests it ends
// where it is bounded by count, else 0.
func (e *Effective) length(hz float64) (length Duration, requests int) {
	if e.Spec.IterationsPerSlot == 0 || !(hz > 0) {
		return e.Spec.Step, 0
	}
	requests = e.Spec.IterationsPerSlot * e.Slots
	return Duration(float64(requests) / hz * 1e9), requests
}

// AgentOf says who measures an arm.
func (p *Plan) AgentOf(a Arm) Agent {
	if a.Agent != "" {
		return Agent{Mode: AgentAddress, Address: a.Agent}
	}
	return p.Agent
}

// SweepText names a point of a sweep, "" for the only one of a plan without.
func SweepText(point []Setting) string {
	texts := make([]string, len(point))
	for i, s := range point {
		texts[i] = s.Key + "=" + s.Value
	}
	return strings.Join(texts, " ")
}
