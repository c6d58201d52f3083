package rundir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// MaxSteps bounds a ladder: step names have two digits up to 99, then more.
const MaxSteps = 9999

// Step is one step as it lies in the run directory.
type Step struct {
	// Index is 0 for the warm-up step, then 1, 2, ...
	Index int
	// Name is the step's directory, NN-OFFERED. WriteStep fills in an empty one.
	Name string
	// OfferedHz is the planned rate, requests per second.
	OfferedHz float64
	Warmup    bool

	Client *ClientStep
	// Record and ProfileGz (a gzipped pprof) are absent when the agent was;
	// Client.Warnings then says why.
	Record    *rungv1.StepRecord
	ProfileGz []byte
	// Others are further targets that were measured in the same window, by name.
	Others []Other
	// Hlog is the HDR log of response and service time, absent where not kept.
	Hlog []byte
	// Beside are files by name that are written and not read again, as for other
	// tools: .hgrm or .csv.
	Beside map[string][]byte
}

// StepName is the directory of a step: NN-OFFERED, as in 01-1200 or 02-12.5.
func StepName(index int, offeredHz float64) string {
	return fmt.Sprintf("%02d-%s", index, strconv.FormatFloat(offeredHz, 'f', -1, 64))
}

// ParseStepName takes apart what StepName made.
func ParseStepName(name string) (index int, offeredHz float64, err error) {
	nn, offered, ok := strings.Cut(name, "-")
	if ok {
		index, err = strconv.Atoi(nn)
		if err == nil {
			offeredHz, err = strconv.ParseFloat(offered, 64)
		}
	}
	if !ok || err != nil || index < 0 || index > MaxSteps || checkOffered(offeredHz) != nil || StepName(index, offeredHz) != name {
		return 0, 0, fmt.Errorf("step directory %q is not of the form NN-OFFERED, as in 01-1200 or 02-12.5", name)
	}
	return index, offeredHz, nil
}

// WriteStep adds a step. A step of that index and rate that exists is an error.
func (d *Dir) WriteStep(s Step) error {
	name := StepName(s.Index, s.OfferedHz)
	if _, _, err := ParseStepName(name); err != nil {
		return fmt.Errorf("write step in %s: index %d, offered %v: %w", d.path, s.Index, s.OfferedHz, err)
	}
	if s.Name != "" && s.Name != name {
		return fmt.Errorf("write step in %s: name is %q, but index %d and offered rate %v make it %q", d.path, s.Name, s.Index, s.OfferedHz, name)
	}
	if s.Client == nil {
		return fmt.Errorf("write step %s in %s: no client result", name, d.path)
	}
	files, err := stepFiles(s)
	if err != nil {
		return fmt.Errorf("write step %s in %s: %w", name, d.path, err)
	}
	temp := d.StepPath(tempPrefix + name)
	if err := os.Mkdir(temp, 0o755); err != nil {
		return fmt.Errorf("write step %s: %w", name, err)
	}
	for _, f := range files {
		path := filepath.Join(temp, f.name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = writeNew(path, f.data)
		}
		if err != nil {
			os.RemoveAll(temp)
			return fmt.Errorf("write step %s: %w", name, err)
		}
	}
	if err := os.Rename(temp, d.StepPath(name)); err != nil {
		os.RemoveAll(temp)
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("write step: %s exists and is never overwritten: %w", d.StepPath(name), fs.ErrExist)
		}
		return fmt.Errorf("write step %s: %w", name, err)
	}
	return nil
}

type namedBytes struct {
	name string
	data []byte
}

func stepFiles(s Step) ([]namedBytes, error) {
	if err := s.Client.Validate(); err != nil {
		return nil, err
	}
	if s.Client.Index != s.Index || s.Client.OfferedHz != s.OfferedHz || s.Client.Warmup != s.Warmup {
		return nil, fmt.Errorf("the client's result is of index %d, offered %v, warm-up %v; the step of index %d, offered %v, warm-up %v",
			s.Client.Index, s.Client.OfferedHz, s.Client.Warmup, s.Index, s.OfferedHz, s.Warmup)
	}
	client, err := encodeJSON(s.Client)
	if err != nil {
		return nil, err
	}
	files := []namedBytes{{ClientFile, client}}
	if s.Record != nil {
		record, err := encodeRecord(s.Record)
		if err != nil {
			return nil, err
		}
		files = append(files, namedBytes{RecordFile, record})
	}
	if len(s.ProfileGz) > 0 {
		files = append(files, namedBytes{ProfileFile, s.ProfileGz})
	}
	if len(s.Hlog) > 0 {
		files = append(files, namedBytes{HlogFile, s.Hlog})
	}
	for name, data := range s.Beside {
		if ext := filepath.Ext(name); filepath.Base(name) != name || ext != ".hgrm" && ext != ".csv" {
			return nil, fmt.Errorf("file %q beside the step's: want a plain name ending in .hgrm or .csv", name)
		}
		files = append(files, namedBytes{name, data})
	}
	others, err := otherFiles(s.Others)
	return append(files, others...), err
}

// encodeRecord writes a record the same way each time: protojson varies its
// spaces on purpose, so they are taken out and put in anew.
func encodeRecord(r *rungv1.StepRecord) ([]byte, error) {
	raw, err := protojson.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", RecordFile, err)
	}
	var compact, out bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("encode %s: %w", RecordFile, err)
	}
	if err := json.Indent(&out, compact.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("encode %s: %w", RecordFile, err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// Steps reads all steps, in order of their index. Any file that cannot be read
// whole is an error that names it.
func (d *Dir) Steps() ([]Step, error) {
	names, _, err := d.list()
	if err != nil {
		return nil, err
	}
	steps := make([]Step, 0, len(names))
	for _, name := range names {
		s, err := d.readStep(name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	sort.SliceStable(steps, func(i, j int) bool { return steps[i].Index < steps[j].Index })
	for i := 1; i < len(steps); i++ {
		if steps[i].Index == steps[i-1].Index {
			return nil, fmt.Errorf("%s: two steps of index %d: %s and %s", d.path, steps[i].Index, steps[i-1].Name, steps[i].Name)
		}
	}
	return steps, nil
}

// Unfinished names the steps whose writing was cut short; they hold no result.
func (d *Dir) Unfinished() ([]string, error) {
	_, unfinished, err := d.list()
	return unfinished, err
}

func (d *Dir) list() (names, unfinished []string, err error) {
	entries, err := os.ReadDir(filepath.Join(d.path, StepsDir))
	if err != nil {
		return nil, nil, fmt.Errorf("read steps: %w", err)
	}
	for _, e := range entries {
		if rest, ok := strings.CutPrefix(e.Name(), tempPrefix); ok {
			unfinished = append(unfinished, rest)
			continue
		}
		names = append(names, e.Name())
	}
	return names, unfinished, nil
}

func (d *Dir) readStep(name string) (Step, error) {
	index, offered, err := ParseStepName(name)
	if err != nil {
		return Step{}, fmt.Errorf("read steps of %s: %w", d.path, err)
	}
	s := Step{Index: index, Name: name, OfferedHz: offered}
	path := func(file string) string { return filepath.Join(d.StepPath(name), file) }
	if s.Client, err = readFile(path(ClientFile), MaxClientBytes, ReadClient); err != nil {
		return Step{}, err
	}
	if s.Client.Index != index || s.Client.OfferedHz != offered {
		return Step{}, fmt.Errorf("%s: index %d and offered rate %v do not agree with the directory's name", path(ClientFile), s.Client.Index, s.Client.OfferedHz)
	}
	s.Warmup = s.Client.Warmup
	if s.Record, err = readFile(path(RecordFile), MaxRecordBytes, ReadRecord); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Step{}, err
	}
	if s.ProfileGz, err = readFile(path(ProfileFile), MaxProfileBytes, readAll); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Step{}, err
	}
	if s.Others, err = readOthers(path(OthersDir)); err != nil {
		return Step{}, err
	}
	if s.Hlog, err = readFile(path(HlogFile), MaxHlogBytes, readAll); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Step{}, err
	}
	return s, nil
}
