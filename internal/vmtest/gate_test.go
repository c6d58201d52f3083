package main

import (
	"errors"
	"testing"
	"time"

	"github.com/rungprof/rung/internal/vmtest/capset"
	"github.com/rungprof/rung/internal/vmtest/wire"
)

func TestVerdict(t *testing.T) {
	judge := func(stdout []byte) (string, error) {
		if string(stdout) != "good" {
			return "1 test", errors.New("not good")
		}
		return "2 tests", nil
	}
	for _, c := range []struct {
		judge  func([]byte) (string, error)
		exit   wire.Exit
		stdout string
		want   string
	}{
		{nil, wire.Exit{}, "", "--- ok       a                 1.5 s"},
		{nil, wire.Exit{Code: 3}, "", "--- FAIL     a                 1.5 s  exit status 3"},
		{nil, wire.Exit{Code: wire.TimeoutCode}, "", "--- FAIL     a                 1.5 s  did not end within 2s"},
		{nil, wire.Exit{Code: 127, Error: "start /w/a: no"}, "", "--- FAIL     a                 1.5 s  start /w/a: no"},
		{judge, wire.Exit{}, "good", "--- ok       a                 1.5 s\n             2 tests"},
		{judge, wire.Exit{}, "bad", "--- FAIL     a                 1.5 s  not good\n             1 test"},
		{judge, wire.Exit{Code: 1}, "good", "--- FAIL     a                 1.5 s  exit status 1\n             2 tests"},
		{judge, wire.Exit{Code: 1}, "bad", "--- FAIL     a                 1.5 s  exit status 1: not good\n             1 test"},
	} {
		s := stage{judge: c.judge, payload: wire.Payload{TimeoutMs: 2000}}
		r := stageResult{started: true, ended: true, took: 1500 * time.Millisecond}
		r.note, r.err = s.verdict(c.exit, []byte(c.stdout))
		if got := r.line("a"); got != c.want {
			t.Errorf("got  %q\nwant %q", got, c.want)
		}
		if r.passed() != (r.err == nil) {
			t.Errorf("passed %v with %v", r.passed(), r.err)
		}
	}
	if r := (stageResult{}); r.passed() || r.line("a") != "--- not run  a" {
		t.Errorf("never started: %q", r.line("a"))
	}
	if r := (stageResult{started: true}); r.passed() || r.line("a") != "--- CUT OFF  a" {
		t.Errorf("never ended: %q", r.line("a"))
	}
}

// What CI relies on: the agent never has more than its own capabilities where
// the stage is about the agent.
func TestStagesAreLimited(t *testing.T) {
	stages := append(checkStages(), demoStages()...)
	for _, k := range kernelTests {
		stages = append(stages, testStage(k.pkg, k.run, k.skip))
	}
	limited := 0
	for _, s := range stages {
		if s.payload.Caps == capset.Agent || s.payload.Limited["agent"] == capset.Agent {
			limited++
		} else if s.payload.Name != "check-root" {
			t.Errorf("stage %s runs with capabilities %v", s.payload.Name, s.payload.Caps)
		}
	}
	if limited < 5 {
		t.Errorf("%d stages run with the agent's capabilities", limited)
	}
}
