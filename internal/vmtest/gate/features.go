package gate

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Program is what one BPF program costs a kernel; 0 is not known.
type Program struct {
	Name         string
	Instructions int     // after relocation
	Verified     int     // instructions that the verifier went through
	VerifyMs     float64 // by the verifier's clock
	LoadMs       float64 // with relocation and maps
}

// Feature is one answer of a kernel.
type Feature struct{ Name, Answer string }

// ParseFeatures reads what the kernel tests print among their output:
//
//	programs_test.go:83: program {"name":"on_fork","instructions":58,…}
//	programs_test.go:163: feature {"name":"throttled","answer":"a bound"}
func ParseFeatures(r io.Reader) (programs []Program, features []Feature, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if _, text, ok := strings.Cut(line, ": program {"); ok {
			var p Program
			if err := json.Unmarshal([]byte("{"+text), &p); err != nil {
				return nil, nil, fmt.Errorf("read %q: %w", line, err)
			}
			programs = append(programs, p)
		} else if _, text, ok := strings.Cut(line, ": feature {"); ok {
			var f Feature
			if err := json.Unmarshal([]byte("{"+text), &f); err != nil {
				return nil, nil, fmt.Errorf("read %q: %w", line, err)
			}
			features = append(features, f)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("read test output: %w", err)
	}
	return programs, features, nil
}

// requirement is a line of `rung check --json`.
type requirement struct{ Name, Found, Status string }

// Missing reads what `rung check --json` prints and gives, for each requirement
// that this machine lacks, its name and what was found.
func Missing(stdout []byte) ([]string, error) {
	var all []requirement
	if err := json.Unmarshal(stdout, &all); err != nil {
		return nil, fmt.Errorf("read the output of rung check: %w", err)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("rung check printed no requirement")
	}
	var missing []string
	for _, r := range all {
		if r.Status == "missing" {
			missing = append(missing, fmt.Sprintf("%s: %s", r.Name, r.Found))
		}
	}
	return missing, nil
}
