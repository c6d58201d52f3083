//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rungprof/rung/report"
)

func TestRunReportFormats(t *testing.T) {
	dir := fixtureDemo(t)
	run := func(o reportOptions) string {
		t.Helper()
		o.Presets = []string{"go"}
		if o.Charge == "" {
			o.Charge = "leaf"
		}
		var out bytes.Buffer
		if err := runReport(context.Background(), dir, o, &out); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text := run(reportOptions{})
	for _, want := range []string{
		"On-CPU by layer, leaf charge (kernel time as syscalls), at the matched rate of 400/s",
		"Σ charged", "usage_usec − Σ", "its record does not tell throttled apart", "total = lifetime", "Knee: at or above 400/s",
		"go tool pprof " + filepath.Join(dir, "a", "steps", "03-400", "profile.pb.gz"),
	} {
		if !strings.Contains(text, want) {
			t.Errorf("terminal output lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, '\x1b') {
		t.Error("colour without a terminal")
	}
	if md := run(reportOptions{Markdown: true}); !strings.HasPrefix(md, "# Rung report\n") {
		t.Errorf("Markdown begins with %.40q", md)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(run(reportOptions{JSON: true, Charge: "owner"})), &r); err != nil || r.Matched.Columns[0].Table.Charge != "owner" {
		t.Errorf("JSON: %v, %+v", err, r.Matched)
	}
	file := filepath.Join(t.TempDir(), "report.txt")
	if out := run(reportOptions{Output: file}); out != "" {
		t.Errorf("--output printed %q", out)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != text {
		t.Errorf("--output wrote another text (%v)", err)
	}
}

func TestRunReportUsageErrors(t *testing.T) {
	for want, o := range map[string]reportOptions{
		"exclude each other": {JSON: true, Markdown: true, Charge: "leaf", Presets: []string{"go"}},
		`charge "root"`:      {Charge: "root", Presets: []string{"go"}},
		`"nothing"`:          {Charge: "leaf", Presets: []string{"nothing"}},
	} {
		err := runReport(context.Background(), t.TempDir(), o, &bytes.Buffer{})
		var coded exitError
		if !errors.As(err, &coded) || coded.code != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	err := runReport(context.Background(), "/nonexistent-run", reportOptions{Charge: "leaf", Presets: []string{"go"}}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent-run") {
		t.Errorf("no directory: %v", err)
	}
	err = runReport(context.Background(), fixtureDemo(t), reportOptions{Charge: "leaf", Presets: []string{"go"}, Output: "/nonexistent/x"}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("no output directory: %v", err)
	}
}
