package campaign

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

var known = Known{Protocols: []string{"rest-h1", "rest-h2c", "grpc-unary", "grpc-stream"}, Bodies: []string{"tiny", "realistic"}}

// TestBadPlans: what a wrong plan is told, with its place and what is allowed.
func TestBadPlans(t *testing.T) {
	data, err := os.ReadFile("testdata/bad-plans.txt")
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	cases := strings.Split("\n"+string(data), "\n=== ")[1:]
	if len(cases) < 30 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		name, text, _ := strings.Cut(c, "\n")
		_, err := Parse("plan.yaml", strings.NewReader(text), known)
		var at *PlanError
		if !errors.As(err, &at) {
			t.Errorf("%s: %v is no plan error", name, err)
		}
		fmt.Fprintf(&got, "=== %s\n%v\n", name, err)
	}
	golden(t, "testdata/bad-plans.golden", got.Bytes())
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites):\n%s", path, diff)
	}
}

const wholePlan = `
name: whole
seed: 7
repeats: 2
order: shuffled
aa: a
redo: 1
on_void: stop
agent: {use: embedded, rate: 999}
arms:
  - name: a
    command: [server, --port, "${PORT}"]
    env: &env {GOGC: 50, NAME: "x y"}
    workdir: sub
    quota: 0.5
    address: 127.0.0.1:${PORT}
    ready: {http: /healthz, grpc: "", log: "ready", timeout: 5s}
    stop: {signal: SIGINT, grace: 2s}
    load: {protocol: grpc-unary, method: /a.B/C}
  - name: b
    container: {engine: podman, run: [--cpus, 1, -p, 127.0.0.1:81:81, "-v", 'a:b', image]}
    address: 127.0.0.1:81
    target: pid
  - name: c
    address: c.example:80
    agent: c.example:7000
    target: pod
    load: {body_file: body.bin, flags: [--x, "1"]}
load: {protocol: rest-h1, connections: 4, arrivals: poisson, timeout: 1s}
ladder:
  rates: [100, 200:400:100]
  step: 2s
  settle: 0s
  gap: 100ms
  warmup: {for: 3s, rate: 50}
  rewarm: {jump: 1.5, for: 1s}
  profile_steps: top:2
  control_steps: top:1
sweep:
  var.PORT: [8080]
  quota: [0.2, 0.4]
  env.EXECUTOR: [direct, pool]
knee_rule: {delivered: 98 %, overflow: 0.02, p50: 20ms}
`

func TestWholePlan(t *testing.T) {
	// The quota is swept over b and c too, which have none of their own to set.
	p, err := Parse("plan.yaml", strings.NewReader(wholePlan), known)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Arms[0]
	if a.Env["GOGC"] != "50" || a.Env["NAME"] != "x y" || a.Stop.Signal != "INT" || a.Ready.Status != 200 || !a.Ready.GRPCSet || a.Ready.TCP {
		t.Errorf("arm a: %+v", a)
	}
	if p.Arms[1].Target != "pid" || !p.Arms[1].Ready.TCP || p.Arms[2].Target != "pod" || a.Target != "cgroup" {
		t.Errorf("targets: %q %q %q", a.Target, p.Arms[1].Target, p.Arms[2].Target)
	}
	if diff := cmp.Diff([]string{"--cpus", "1", "-p", "127.0.0.1:81:81", "-v", "a:b", "image"}, p.Arms[1].Container.Args); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]float64{100, 200, 300, 400}, p.Ladder.RatesHz); diff != "" {
		t.Error(diff)
	}
	if p.KneeRule.MinDelivered != 0.98 || p.KneeRule.MaxOverflow != 0.02 || p.KneeRule.MaxP50Ms != 20 {
		t.Errorf("knee rule: %+v", p.KneeRule)
	}
	s, err := p.Schedule(known)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Ladders) != 4*4*2 {
		t.Fatalf("%d ladders", len(s.Ladders))
	}
	for _, l := range s.Ladders {
		if l.ArmName != "a" {
			continue
		}
		arm := l.Setting.Arm
		if arm.Address != "127.0.0.1:8080" || arm.Command[2] != "8080" || arm.Env["EXECUTOR"] != l.Sweep[2].Value || fmt.Sprint(arm.QuotaCPUs) != l.Sweep[1].Value {
			t.Errorf("%s: %+v", l.ID, arm)
		}
		if l.Setting.Load.Protocol != "grpc-unary" || l.Setting.Load.Connections != 4 || !l.Setting.Load.Poisson {
			t.Errorf("%s: %+v", l.ID, l.Setting.Load)
		}
	}
	if p.Arms[0].Command[2] != "${PORT}" || p.Arms[0].Env["EXECUTOR"] != "" {
		t.Error("the schedule changed the plan")
	}
}

// TestSamePlan: comments, order and spelling do not make another plan; a value does.
func TestSamePlan(t *testing.T) {
	parse := func(text string) Plan {
		p, err := Parse("plan.yaml", strings.NewReader(text), known)
		if err != nil {
			t.Fatal(err)
		}
		return *p
	}
	const one = "arms: [{name: a, address: '127.0.0.1:1'}]\nload: {protocol: rest-h1, timeout: 1s}\nladder: {rates: [100, 200]}"
	const same = "# a comment\nladder:\n  rates: 100:200:100\nload: {timeout: 1000ms, protocol: rest-h1}\narms:\n- address: 127.0.0.1:1\n  name: a\n"
	if differ, err := Differences(parse(one), parse(same)); err != nil || len(differ) > 0 {
		t.Errorf("%v, %v", differ, err)
	}
	for change, want := range map[string]string{
		strings.Replace(one, "200]", "300]", 1):         "ladder.ratesHz[1] was 200, is 300",
		strings.Replace(one, "200]", "200, 300]", 1):    "ladder.ratesHz was [100,200], is [100,200,300]",
		one + "\nrepeats: 3":                            "repeats was 1, is 3",
		strings.Replace(one, "1s", "1s, streams: 2", 1): "load.streams was not there, is 2",
	} {
		differ, err := Differences(parse(one), parse(change))
		if err != nil || len(differ) != 1 || differ[0] != want {
			t.Errorf("%v, %v; want %q", differ, err, want)
		}
	}
}

func TestParseRates(t *testing.T) {
	for text, want := range map[string][]float64{
		"400:1200:400": {400, 800, 1200}, "0.1:0.3:0.1": {0.1, 0.2, 0.3}, "12.5": {12.5}, "100:350:100": {100, 200, 300}, "5:5:1": {5},
	} {
		if got, err := parseRates(text); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "1:2", "1:2:3:4", "2:1:1", "1:1000:1", "-1", "NaN", "1:Inf:1", "1:2:0"} {
		if got, err := parseRates(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"rates", "rates", 0}, {"raets", "rates", 1}, {"", "abc", 3}, {"kitten", "mittens", 2}, {"load", "laod", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%s, %s: %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// FuzzParse: an error xor a plan; what is read can be scheduled, printed within
// its width, and compared with itself.
func FuzzParse(f *testing.F) {
	f.Add(wholePlan)
	data, err := os.ReadFile("testdata/bad-plans.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, c := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		_, text, _ := strings.Cut(c, "\n")
		f.Add(text)
	}
	f.Add("arms: [{name: a, address: 'h:1'}]\nload: {protocol: rest-h1}\nladder: {knee: {start: 100}, warmup: {adaptive: {}}}")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse("plan.yaml", strings.NewReader(text), known)
		if (err == nil) == (p == nil) {
			t.Fatalf("error xor plan: %v, %v", p, err)
		}
		if err != nil {
			var at *PlanError
			if !errors.As(err, &at) || at.Reason == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(p.points())*len(p.Arms)*p.Repeats > 200 {
			return // large, not wrong
		}
		s, err := p.Schedule(known)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := s.Print(&b, p); err != nil {
			t.Fatal(err)
		}
		checkWidth(t, b.String())
		if differ, err := Differences(p, p); err != nil || len(differ) > 0 {
			t.Fatalf("a plan differs from itself: %v, %v", differ, err)
		}
		for _, l := range s.Ladders {
			if l.Length < Duration(LadderOverhead) || time.Duration(l.Length) < 0 {
				t.Fatalf("length %s", l.Length)
			}
		}
	})
}
