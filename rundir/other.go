package rundir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	rungv1 "github.com/rungprof/rung/api/rung/v1"
)

// Other is what an agent measured on a target beside the arm, in the step's
// window: a downstream, a sidecar, the arm's part on another host.
type Other struct {
	// Name is the directory's; [OtherName] makes one of the target's.
	Name      string
	Record    *rungv1.StepRecord
	ProfileGz []byte // absent when the agent sent none
}

// maxOthers bounds the further targets of a step.
const maxOthers = 64

var otherName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// OtherName is a directory's name for a target, which none of the others has.
func OtherName(target string, others []Other) string {
	base := notInName.ReplaceAllString(target, "_")
	if !otherName.MatchString(base) {
		base = "target"
	}
	base = base[:min(len(base), 60)]
	name := base
	for n := 2; slices.ContainsFunc(others, func(o Other) bool { return o.Name == name }); n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

func otherFiles(others []Other) ([]namedBytes, error) {
	var files []namedBytes
	if len(others) > maxOthers {
		return nil, fmt.Errorf("%d further targets; want at most %d", len(others), maxOthers)
	}
	for i, o := range others {
		if !otherName.MatchString(o.Name) || o.Record == nil {
			return nil, fmt.Errorf("further target %q has no record, or a name that is no directory's", o.Name)
		}
		if slices.ContainsFunc(others[:i], func(before Other) bool { return before.Name == o.Name }) {
			return nil, fmt.Errorf("two further targets of the name %s", o.Name)
		}
		record, err := encodeRecord(o.Record)
		if err != nil {
			return nil, err
		}
		files = append(files, namedBytes{filepath.Join(OthersDir, o.Name, RecordFile), record})
		if len(o.ProfileGz) > 0 {
			files = append(files, namedBytes{filepath.Join(OthersDir, o.Name, ProfileFile), o.ProfileGz})
		}
	}
	return files, nil
}

// readOthers reads them in order of their names; a step without has no directory.
func readOthers(dir string) ([]Other, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(entries) > maxOthers {
		return nil, fmt.Errorf("%s: %d further targets; want at most %d", dir, len(entries), maxOthers)
	}
	var others []Other
	for _, e := range entries {
		o := Other{Name: e.Name()}
		if !otherName.MatchString(o.Name) {
			return nil, fmt.Errorf("%s: %q is no name of a further target", dir, o.Name)
		}
		path := func(file string) string { return filepath.Join(dir, o.Name, file) }
		if o.Record, err = readFile(path(RecordFile), MaxRecordBytes, ReadRecord); err != nil {
			return nil, err
		}
		if o.ProfileGz, err = readFile(path(ProfileFile), MaxProfileBytes, readAll); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		others = append(others, o)
	}
	return others, nil
}
