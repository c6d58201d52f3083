package rundir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadErrorsNameTheFile(t *testing.T) {
	for _, c := range []struct{ file, content, want string }{
		{"run.json", "", "file is empty"},
		{"run.json", "{", "unexpected EOF"},
		{"run.json", `{"schemaVersion":1,"arm":"a","speed":9}`, `unknown field "speed"`},
		{"run.json", `{"schemaVersion":2,"arm":"a"}`, "schemaVersion is 2"},
		{"run.json", `{"schemaVersion":1}`, "arm is empty"},
		{"run.json", `{"schemaVersion":1,"arm":"a"} x`, "something follows"},
		{"run.json", `{"schemaVersion":1,"arm":"a","plan":{"ratesHz":[0]}}`, "plan.ratesHz[0]"},
		{"steps/01-100/client.json", `{"index":1,"offeredHz":100,"sent":-1}`, "sent"},
		{"steps/01-100/client.json", `{"index":2,"offeredHz":100}`, "do not agree"},
		{"steps/01-100/record.json", `{"nonsense":1}`, "nonsense"},
		{"steps/01-100/record.json", `{"window":{"startMonoNs":"9","endMonoNs":"1"}}`, "lies before"},
	} {
		dir := t.TempDir()
		d, err := Create(filepath.Join(dir, "run"), sampleRun())
		if err != nil {
			t.Fatal(err)
		}
		if err := d.WriteStep(sampleStep(1, 100)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d.Path(), c.file)
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err = Open(d.Path())
		if err == nil {
			_, err = d.Steps()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s %s: %v", c.file, c.content, err)
		}
	}
}

func TestReadLimitsAndKinds(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := readFile(path, 5, readAll); err != nil || string(got) != "12345" {
		t.Errorf("at the limit: %q, %v", got, err)
	}
	if _, err := readFile(path, 4, readAll); err == nil || !strings.Contains(err.Error(), "limit of 4 bytes") {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := readFile(dir, 4, readAll); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("directory: %v", err)
	}
}

func TestForeignEntriesAndUnfinishedSteps(t *testing.T) {
	d, err := Create(t.TempDir(), sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.StepPath(".tmp-01-100"), 0o755); err != nil {
		t.Fatal(err)
	}
	if steps, err := d.Steps(); err != nil || len(steps) != 0 {
		t.Errorf("steps: %v, %v", steps, err)
	}
	if left, err := d.Unfinished(); err != nil || len(left) != 1 || left[0] != "01-100" {
		t.Errorf("unfinished: %v, %v", left, err)
	}
	if err := os.Mkdir(d.StepPath("notes"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Steps(); err == nil || !strings.Contains(err.Error(), `"notes"`) {
		t.Errorf("foreign directory: %v", err)
	}
}

func TestTwoStepsOfOneIndex(t *testing.T) {
	d, err := Create(t.TempDir(), sampleRun())
	if err != nil {
		t.Fatal(err)
	}
	for _, hz := range []float64{100, 200} {
		if err := d.WriteStep(sampleStep(1, hz)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Steps(); err == nil || !strings.Contains(err.Error(), "two steps of index 1") {
		t.Errorf("got %v", err)
	}
}

func TestOpenAll(t *testing.T) {
	demo := t.TempDir()
	if _, err := OpenAll(demo); err == nil || !strings.Contains(err.Error(), "no run in "+demo) {
		t.Errorf("empty: %v", err)
	}
	for i, arm := range []string{"rest-h1", "grpc-unary"} {
		r := sampleRun()
		r.Arm, r.Started = arm, r.Started.Add(time.Duration(i)*time.Minute)
		if _, err := Create(filepath.Join(demo, arm), r); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(demo, "report.md"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dirs, err := OpenAll(demo)
	if err != nil || len(dirs) != 2 || dirs[0].Run().Arm != "rest-h1" || dirs[1].Run().Arm != "grpc-unary" {
		t.Errorf("demo: %v, %v", dirs, err)
	}
	if dirs, err := OpenAll(filepath.Join(demo, "rest-h1")); err != nil || len(dirs) != 1 {
		t.Errorf("one run: %v, %v", dirs, err)
	}
}

func FuzzReadRun(f *testing.F) {
	data, err := encodeJSON(sampleRun())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"schemaVersion":1,"arm":"a","plan":{"duration":"-9h"}}`)
	f.Fuzz(func(t *testing.T, s string) {
		run, err := ReadRun(strings.NewReader(s))
		if err != nil {
			return
		}
		data, err := encodeJSON(run)
		if err != nil {
			t.Fatalf("read but not writable: %v", err)
		}
		if _, err := ReadRun(strings.NewReader(string(data))); err != nil {
			t.Fatalf("written but not readable: %v\n%s", err, data)
		}
	})
}

func FuzzReadClient(f *testing.F) {
	data, err := encodeJSON(sampleStep(1, 100).Client)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ReadClient(strings.NewReader(s))
		if (err == nil) == (c == nil) {
			t.Fatalf("error xor value: %v, %v", c, err)
		}
		if err != nil {
			return
		}
		c.Unbalanced()
		if c.WindowSeconds() < 0 || c.SendSeconds() < 0 {
			t.Fatal("negative length")
		}
	})
}

func FuzzReadRecord(f *testing.F) {
	data, err := encodeRecord(sampleStep(1, 100).Record)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ReadRecord(strings.NewReader(s))
		if (err == nil) == (r == nil) {
			t.Fatalf("error xor value: %v, %v", r, err)
		}
	})
}

func FuzzParseStepName(f *testing.F) {
	f.Add("01-1200")
	f.Add("02-12.5")
	f.Fuzz(func(t *testing.T, s string) {
		index, hz, err := ParseStepName(s)
		if err == nil && StepName(index, hz) != s {
			t.Fatalf("%q reads as %d, %v", s, index, hz)
		}
	})
}
