package campaign

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// plan reads the top level. Every key is optional here; what must be there is
// for validate to say.
func (d *decoder) plan(n ast.Node, p *Plan, known Known) error {
	return d.mapping("", n,
		key{"name", d.scalar(parseText(&p.Name))},
		key{"seed", d.scalar(func(text string) error {
			var seed int
			err := parseInt(0, math.MaxInt32, &seed)(text)
			p.Seed = uint64(seed)
			return err
		})},
		key{"repeats", d.scalar(parseInt(1, maxRepeats, &p.Repeats))},
		key{"order", d.scalar(parseOneOf(&p.Order, OrderPlan, OrderShuffled))},
		key{"aa", d.textsOrOne(&p.AA, "names of arms")},
		key{"redo", d.scalar(parseInt(0, 20, &p.Redo))},
		key{"on_void", d.scalar(parseOneOf(&p.OnVoid, OnVoidContinue, OnVoidStop))},
		key{"arms", func(path string, n ast.Node) error {
			return d.list(path, n, "arms, each with a name", func(path string, n ast.Node) error {
				a := Arm{Ready: Ready{Timeout: Duration(DefaultReady)}, Stop: Stop{Signal: "TERM", Grace: Duration(DefaultGrace)}}
				if err := d.arm(path, n, &a, known); err != nil {
					return err
				}
				p.Arms = append(p.Arms, a)
				return nil
			})
		}},
		key{"agent", func(path string, n ast.Node) error { return d.agent(path, n, &p.Agent) }},
		key{"load", func(path string, n ast.Node) error {
			settings, err := d.settings(path, n, loadKeys(), known)
			if err != nil {
				return err
			}
			for _, s := range settings {
				if err := p.Load.set(s, known); err != nil {
					return d.fail(d.places[join(path, s.Key)], "%v", err)
				}
			}
			return nil
		}},
		key{"ladder", func(path string, n ast.Node) error { return d.ladder(path, n, &p.Ladder) }},
		key{"sweep", func(path string, n ast.Node) error { return d.sweep(path, n, p, known) }},
		key{"knee_rule", func(path string, n ast.Node) error {
			var p50 Duration
			err := d.mapping(path, n,
				key{"delivered", d.scalar(parseShare(0, 1, &p.KneeRule.MinDelivered))},
				key{"overflow", d.scalar(parseShare(0, 1, &p.KneeRule.MaxOverflow))},
				key{"p50", d.scalar(parseDuration(0, time.Hour, &p50))})
			if p50 > 0 {
				p.KneeRule.MaxP50Ms = float64(p50) / 1e6
			}
			return err
		}},
	)
}

func (d *decoder) arm(path string, n ast.Node, a *Arm, known Known) error {
	return d.mapping(path, n,
		key{"name", d.scalar(parseText(&a.Name))},
		key{"command", d.command(&a.Command)},
		key{"container", func(path string, n ast.Node) error {
			a.Container = &Container{Engine: "docker"}
			return d.mapping(path, n,
				key{"engine", d.scalar(parseText(&a.Container.Engine))},
				key{"run", d.textsOrOne(&a.Container.Args, "arguments of ENGINE run, the image among them")})
		}},
		key{"env", func(path string, n ast.Node) error {
			a.Env = map[string]string{}
			return d.pairs(path, n, "want NAME: value pairs", func(at place, name string, value ast.Node) error {
				if name == "" || strings.ContainsAny(name, "=\x00 ") {
					return d.fail(at, "%q is no name of an environment variable", name)
				}
				return d.scalar(func(text string) error { a.Env[name] = text; return nil })(join(path, name), value)
			})
		}},
		key{"workdir", d.scalar(parseText(&a.Workdir))},
		key{"quota", d.scalar(parseFloat(0.01, 4096, "CPUs", &a.QuotaCPUs))},
		key{"address", d.scalar(parseText(&a.Address))},
		key{"ready", func(path string, n ast.Node) error { return d.ready(path, n, &a.Ready) }},
		key{"stop", func(path string, n ast.Node) error {
			return d.mapping(path, n,
				key{"signal", d.scalar(parseSignal(&a.Stop.Signal))},
				key{"grace", d.scalar(parseDuration(0, 10*time.Minute, &a.Stop.Grace))})
		}},
		key{"load", func(path string, n ast.Node) error {
			var err error
			a.Load, err = d.settings(path, n, loadKeys(), known)
			return err
		}},
		key{"agent", d.scalar(parseText(&a.Agent))},
		key{"target", d.scalar(parseText(&a.Target))},
		key{"also", func(path string, n ast.Node) error {
			return d.list(path, n, "targets beside the arm, each with a name", func(path string, n ast.Node) error {
				var o Also
				err := d.mapping(path, n,
					key{"name", d.scalar(parseText(&o.Name))},
					key{"agent", d.scalar(parseText(&o.Agent))},
					key{"target", d.scalar(parseText(&o.Target))})
				a.Also = append(a.Also, o)
				return err
			})
		}},
	)
}

// Signals are what an arm may be asked to end with.
var Signals = []string{"TERM", "INT", "QUIT", "HUP", "USR1", "USR2", "KILL"}

func parseSignal(into *string) func(string) error {
	return func(text string) error {
		return parseOneOf(into, Signals...)(strings.TrimPrefix(text, "SIG"))
	}
}

func (d *decoder) ready(path string, n ast.Node, r *Ready) error {
	if d.isScalar(n) {
		return d.scalar(func(text string) error {
			if text != "tcp" {
				return fmt.Errorf("%q: want tcp, or keys: tcp, http, status, grpc, log, timeout", text)
			}
			r.TCP = true
			return nil
		})(path, n)
	}
	return d.mapping(path, n,
		key{"tcp", d.scalar(func(text string) error {
			if text != "true" && text != "false" {
				return fmt.Errorf("%q: want true or false; the address is the arm's", text)
			}
			r.TCP = text == "true"
			return nil
		})},
		key{"http", d.scalar(func(text string) error {
			r.HTTP = text
			if !strings.HasPrefix(text, "/") && !strings.HasPrefix(text, "http://") && !strings.HasPrefix(text, "https://") {
				return fmt.Errorf("%q: want a path as in /healthz, or a URL", text)
			}
			return nil
		})},
		key{"status", d.scalar(parseInt(100, 599, &r.Status))},
		key{"grpc", d.scalar(func(text string) error { r.GRPC, r.GRPCSet = text, true; return nil })},
		key{"log", d.scalar(func(text string) error { r.Log = text; return checkLogPattern(text) })},
		key{"timeout", d.scalar(parseDuration(time.Millisecond, time.Hour, &r.Timeout))},
	)
}

func (d *decoder) agent(path string, n ast.Node, a *Agent) error {
	setMode := func(text string) error {
		switch {
		case text == string(AgentNone) || text == string(AgentEmbedded):
			a.Mode, a.Address = AgentMode(text), ""
		case strings.HasPrefix(text, "unix://") || strings.Contains(text, ":"):
			a.Mode, a.Address = AgentAddress, text
		default:
			return fmt.Errorf("%q: want none, embedded, unix:///PATH or HOST:PORT", text)
		}
		return nil
	}
	if d.isScalar(n) {
		return d.scalar(setMode)(path, n)
	}
	return d.mapping(path, n,
		key{"use", d.scalar(setMode)},
		key{"rate", d.scalar(parseInt(1, 9999, &a.RateHz))})
}

func (d *decoder) ladder(path string, n ast.Node, s *Spec) error {
	err := d.mapping(path, n,
		key{"rates", func(path string, n ast.Node) error {
			add := func(text string) error {
				rates, err := parseRates(text)
				s.RatesHz = append(s.RatesHz, rates...)
				return err
			}
			if d.isScalar(n) {
				return d.scalar(add)(path, n)
			}
			return d.list(path, n, "rates in requests per second, or ranges FROM:TO:BY", d.scalar(add))
		}},
		key{"knee", func(path string, n ast.Node) error {
			s.Knee = &Search{Factor: DefaultFactor, Precision: DefaultKneeTo, MaxHz: maxRateHz, MaxSteps: DefaultMaxSteps}
			return d.mapping(path, n,
				key{"start", d.scalar(parseFloat(0.1, maxRateHz, "requests per second", &s.Knee.StartHz))},
				key{"factor", d.scalar(parseFloat(1.05, 10, "a factor", &s.Knee.Factor))},
				key{"precision", d.scalar(parseShare(0.005, 0.5, &s.Knee.Precision))},
				key{"max", d.scalar(parseFloat(0.1, maxRateHz, "requests per second", &s.Knee.MaxHz))},
				key{"max_steps", d.scalar(parseInt(2, maxSteps, &s.Knee.MaxSteps))})
		}},
		key{"step", d.scalar(parseDuration(100*time.Millisecond, 24*time.Hour, &s.Step))},
		key{"iterations_per_slot", d.scalar(parseInt(1, maxIterations, &s.IterationsPerSlot))},
		key{"settle", d.scalar(parseDuration(0, time.Hour, &s.Settle))},
		key{"gap", d.scalar(parseDuration(0, time.Hour, &s.Gap))},
		key{"warmup", func(path string, n ast.Node) error { return d.warmup(path, n, &s.Warmup) }},
		key{"rewarm", func(path string, n ast.Node) error {
			s.Rewarm = &Rewarm{Jump: 1.2, For: Duration(2 * time.Second)}
			return d.mapping(path, n,
				key{"jump", d.scalar(parseFloat(1, 100, "a factor", &s.Rewarm.Jump))},
				key{"for", d.scalar(parseDuration(100*time.Millisecond, time.Hour, &s.Rewarm.For))})
		}},
		key{"profile_steps", d.scalar(parseChoice(&s.Profile))},
		key{"control_steps", d.scalar(parseChoice(&s.Control))},
	)
	if err != nil || s.IterationsPerSlot == 0 {
		return err
	}
	if at, both := d.places[join(path, "step")]; both {
		return d.fail(at, "%s has step and iterations_per_slot, which both say when a step ends; give one", path)
	}
	s.Step = 0
	return nil
}

func (d *decoder) warmup(path string, n ast.Node, w *Warmup) error {
	if d.isScalar(n) {
		return d.scalar(parseDuration(0, 24*time.Hour, &w.Fixed))(path, n)
	}
	return d.mapping(path, n,
		key{"for", d.scalar(parseDuration(0, 24*time.Hour, &w.Fixed))},
		key{"rate", d.scalar(parseFloat(0.1, maxRateHz, "requests per second", &w.RateHz))},
		key{"adaptive", func(path string, n ast.Node) error {
			w.Adaptive, w.Probe, w.Within, w.Over, w.Max = true, Duration(5*time.Second), 0.05, 3, 20
			w.JITWithin, w.JITBelow = 0.02, 0.1
			return d.mapping(path, n,
				key{"probe", d.scalar(parseDuration(100*time.Millisecond, time.Hour, &w.Probe))},
				key{"within", d.scalar(parseShare(0.001, 1, &w.Within))},
				key{"over", d.scalar(parseInt(2, 20, &w.Over))},
				key{"max", d.scalar(parseInt(2, 100, &w.Max))},
				key{"jit_within", d.scalar(parseShare(0.001, 1, &w.JITWithin))},
				key{"jit_below", d.scalar(parseShare(0.001, 1, &w.JITBelow))})
		}},
	)
}

func (d *decoder) sweep(path string, n ast.Node, p *Plan, known Known) error {
	return d.pairs(path, n, "want parameters with lists of values: "+sweepable(), func(at place, name string, value ast.Node) error {
		if err := checkSweepKey(name); err != nil {
			return d.fail(at, "%v", err)
		}
		axis := Axis{Key: name}
		err := d.list(join(path, name), value, "values of "+name, d.scalar(func(text string) error {
			axis.Values = append(axis.Values, text)
			return checkSetting(Setting{name, text}, known)
		}))
		p.Sweep = append(p.Sweep, axis)
		return err
	})
}

// settings reads a mapping of parameters, each by its own rule, and keeps their text.
func (d *decoder) settings(path string, n ast.Node, names []string, known Known) ([]Setting, error) {
	var out []Setting
	keys := make([]key, len(names))
	for i, name := range names {
		keys[i] = key{name, func(path string, n ast.Node) error {
			if name == "flags" {
				var flags []string
				if err := d.texts(&flags, "flags of rung load")(path, n); err != nil {
					return err
				}
				for _, f := range flags {
					out = append(out, Setting{name, f})
				}
				return nil
			}
			return d.scalar(func(text string) error {
				out = append(out, Setting{name, text})
				return checkSetting(Setting{name, text}, known)
			})(path, n)
		}}
	}
	err := d.mapping(path, n, keys...)
	return out, err
}

func (d *decoder) command(into *[]string) func(string, ast.Node) error {
	return func(path string, n ast.Node) error {
		if !d.isScalar(n) {
			return d.texts(into, "a program and its arguments")(path, n)
		}
		return d.scalar(func(text string) error {
			words, err := splitCommand(text)
			*into = words
			return err
		})(path, n)
	}
}

func (d *decoder) texts(into *[]string, want string) func(string, ast.Node) error {
	return func(path string, n ast.Node) error {
		return d.list(path, n, want, d.scalar(func(text string) error {
			if strings.ContainsRune(text, 0) {
				return fmt.Errorf("%q: a zero byte", text)
			}
			*into = append(*into, text)
			return nil
		}))
	}
}

func (d *decoder) textsOrOne(into *[]string, want string) func(string, ast.Node) error {
	return func(path string, n ast.Node) error {
		if !d.isScalar(n) {
			return d.texts(into, want)(path, n)
		}
		return d.scalar(func(text string) error {
			words, err := splitCommand(text)
			*into = words
			return err
		})(path, n)
	}
}
