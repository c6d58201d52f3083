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

// Truth is how far the account lay from a workload that knows its own figures.
type Truth struct {
	Name    string
	Percent float64
}

// Findings are what the kernel tests say of a kernel.
type Findings struct {
	Programs []Program
	Features []Feature
	Truths   []Truth
}

// ParseFindings reads what the kernel tests print among their output:
//
//	programs_test.go:83: program {"name":"on_fork","instructions":58,…}
//	programs_test.go:163: feature {"name":"throttled","answer":"a bound"}
//	programs_test.go:47: truth {"name":"waits","percent":0.12}
func ParseFindings(r io.Reader) (Findings, error) {
	var all Findings
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		_, text, _ := strings.Cut(lines.Text(), ": ")
		kind, object, _ := strings.Cut(text, " ")
		if !strings.HasPrefix(object, "{") {
			continue
		}
		var err error
		switch kind {
		case "program":
			err = appendObject(&all.Programs, object)
		case "feature":
			err = appendObject(&all.Features, object)
		case "truth":
			err = appendObject(&all.Truths, object)
		}
		if err != nil {
			return Findings{}, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		return Findings{}, fmt.Errorf("read test output: %w", err)
	}
	return all, nil
}

func appendObject[T any](list *[]T, object string) error {
	var v T
	err := json.Unmarshal([]byte(object), &v)
	*list = append(*list, v)
	return err
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
